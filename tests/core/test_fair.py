"""Nodes of the fair tree: least virtual time first, idle rejoin, refunds."""

from collections import Counter

from scheduler.core.fair import Node


def served(parent: Node, turns: int, cost: float = 1.0) -> Counter[Node]:
    count: Counter[Node] = Counter()
    for _ in range(turns):
        child = parent.choose()
        assert child is not None
        count[child] += 1
        child.charge(cost)
    return count


def children(parent: Node, *weights: float) -> list[Node]:
    made = [Node(parent, weight) for weight in weights]
    for child in made:
        child.activate()
    return made


def test_shares_follow_weights():
    root = Node(None)
    heavy, light = children(root, 50.0, 5.0)
    count = served(root, 550)
    assert abs(count[heavy] - 500) <= 10
    assert abs(count[light] - 50) <= 1


def test_equal_children_take_turns():
    root = Node(None)
    one, other = children(root, 1.0, 1.0)
    count = served(root, 100)
    assert count[one] == count[other] == 50


def test_a_child_that_was_idle_rejoins_at_the_current_time_and_earns_no_credit():
    root = Node(None)
    busy, idle = children(root, 1.0, 1.0)
    idle.deactivate()
    served(root, 100)
    idle.activate()
    assert idle.vtime == root.now
    count = served(root, 100)
    assert count[idle] <= 51
    assert count[busy] >= 49


def test_a_child_that_owes_keeps_its_debt_over_an_idle_time():
    root = Node(None)
    one, other = children(root, 1.0, 1.0)
    one.charge(1_000.0)
    one.deactivate()
    one.activate()
    assert one.vtime == 1_000.0
    assert served(root, 500) == Counter({other: 500})


def test_a_charge_goes_to_all_ancestors_over_their_weights():
    root = Node(None)
    band = Node(root, 50.0)
    queue = Node(band)
    queue.activate()
    queue.charge(100.0)
    assert (queue.vtime, band.vtime, root.vtime) == (100.0, 2.0, 0.0)


def test_a_refund_never_goes_below_the_parents_virtual_time():
    root = Node(None)
    one, other = children(root, 1.0, 1.0)
    one.charge(1_000.0)
    served(root, 50)  # the other goes on to 49
    one.charge(-1_000.0)
    assert one.vtime == root.now == 49.0
    assert other.vtime == 50.0


def test_a_refund_never_raises_a_virtual_time():
    # Below its parent's time a child may well be: it was idle, or a slot was not for it.
    root = Node(None)
    one, _ = children(root, 1.0, 1.0)
    root.now = 100.0
    one.charge(10.0)
    one.charge(-4.0)
    assert one.vtime <= 10.0


def test_a_refund_moves_a_child_forward_in_line():
    root = Node(None)
    one, other = children(root, 1.0, 1.0)
    one.charge(100.0)
    other.charge(50.0)
    assert root.choose() is other
    one.charge(-90.0)  # back to the root's time, 50
    other.charge(1.0)
    assert root.choose() is one


def test_only_active_children_are_chosen_and_empty_parents_leave_the_tree():
    root = Node(None)
    band = Node(root)
    one, other = Node(band), Node(band)
    assert root.least() is None
    one.activate()
    assert root.least() is band
    assert band.least() is one
    other.activate()
    one.deactivate()
    assert band.least() is other
    other.deactivate()
    assert not band.active
    assert root.least() is None
    one.activate()
    assert root.least() is band


def test_memory_of_a_node_does_not_grow_with_its_work():
    # A band that always has work is charged and refunded for ever.
    root = Node(None)
    side = Node(root)
    bands = [Node(side, weight) for weight in (50.0, 30.0, 5.0)]
    tenants = [Node(band) for band in bands for _ in range(5)]
    for tenant in tenants:
        tenant.activate()
    for number in range(20_000):
        tenant = tenants[number % len(tenants)]
        tenant.charge(60_000.0)
        tenant.charge(-59_990.0)
        if number % 3 == 0:
            for node in (root, *bands):
                node.choose()
    for node in (root, side, *bands):
        assert len(node._heap) < 1_000
