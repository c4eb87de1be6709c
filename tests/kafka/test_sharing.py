"""Urgent inputs first, and something for everyone."""

from scheduler.dispatcher.ports import Budget, Polled
from scheduler.kafka.sharing import read

BUDGET = Budget(records=100, size_bytes=100_000)


class Backlog:
    """A source with `waiting` records of `size` bytes; a record is its name."""

    def __init__(self, name, waiting, size=1):
        self.name, self.waiting, self.size = name, waiting, size

    def take(self, records, size_bytes, into):
        taken = min(self.waiting, records, size_bytes // self.size + 1)
        self.waiting -= taken
        into.records += [self.name] * taken
        return taken, taken * self.size


def shared(*sources, budget=BUDGET):
    polled = Polled([], [], [], [])
    broken = read(sources, budget, polled, lambda: None)
    return {source.name: polled.records.count(source.name) for source in sources}, broken


def test_a_flood_everywhere_leaves_everyone_a_tenth():
    got, _ = shared(*(Backlog(name, 1_000) for name in "abcdef"))
    assert got == {"a": 50, "b": 10, "c": 10, "d": 10, "e": 10, "f": 10}


def test_what_others_leave_goes_to_the_urgent_first():
    got, broken = shared(
        Backlog("a", 1_000), Backlog("b", 0), Backlog("c", 1_000), *(Backlog(n, 0) for n in "def")
    )
    assert got["a"] + got["c"] == 100
    assert got["c"] == 20  # its tenth, and what b left before it was its turn
    assert broken


def test_a_lone_flood_has_everything():
    for position in range(6):
        sources = [Backlog(str(n), 1_000 if n == position else 0) for n in range(6)]
        got, _ = shared(*sources)
        assert got[str(position)] == 100


def test_without_a_flood_the_order_is_urgent_first():
    sources = [Backlog(name, 5) for name in "abcdef"]
    polled = Polled([], [], [], [])
    assert not read(sources, BUDGET, polled, lambda: None)
    assert "".join(polled.records) == "".join(name * 5 for name in "abcdef")


def test_a_budget_of_one_is_one_for_whoever_has_something():
    for position in range(6):
        sources = [Backlog(str(n), 9 if n >= position else 0) for n in range(6)]
        got, _ = shared(*sources, budget=Budget(records=1, size_bytes=1_000))
        assert got == {str(n): int(n == position) for n in range(6)}


def test_bytes_are_shared_too():
    got, _ = shared(
        Backlog("a", 1_000, 10_000), *(Backlog(n, 0) for n in "bcde"), Backlog("f", 1_000, 10_000)
    )
    assert got["f"] >= 1
    assert 10 <= got["a"] + got["f"] <= 12


def test_the_first_is_followed_by_its_callback_before_the_others():
    calls = []
    polled = Polled([], [], [], [])
    read([Backlog("a", 3), Backlog("b", 3)], BUDGET, polled, lambda: calls.append(len(polled.records)))
    assert calls == [3]
