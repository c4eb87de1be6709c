"""Who keeps copies of what: all come to the same answer by themselves."""

import pytest

from scheduler.dispatcher.ports import Peer
from scheduler.dispatcher.standby_choice import standbys_of

SHARDS = 64


def group(*names: str, shared_name: bool = False) -> list[Peer]:
    return [
        Peer(
            f"{name}-id",
            "host" if shared_name else name,
            frozenset(range(number, SHARDS, len(names))),
        )
        for number, name in enumerate(names)
    ]


def keepers(peers: list[Peer], replicas: int) -> dict[int, set[str]]:
    found: dict[int, set[str]] = {shard: set() for shard in range(SHARDS)}
    for peer in peers:
        for shard in standbys_of(peer.member, peers, replicas):
            found[shard].add(peer.member)
    return found


@pytest.mark.parametrize("shared_name", [False, True])
@pytest.mark.parametrize(("members", "replicas"), [(2, 1), (3, 1), (3, 2), (5, 2), (8, 1)])
def test_each_shard_has_so_many_copies_and_none_at_its_owner(members, replicas, shared_name):
    peers = group(*(f"d{number}" for number in range(members)), shared_name=shared_name)
    owners = {shard: peer.member for peer in peers for shard in peer.shards}
    for shard, found in keepers(peers, replicas).items():
        assert len(found) == replicas
        assert owners[shard] not in found


def test_more_copies_than_others_are_one_with_each_of_them():
    found = keepers(group("a", "b"), 5)
    assert {len(each) for each in found.values()} == {1}


def test_copies_are_spread():
    peers = group(*(f"d{number}" for number in range(8)))
    counts = [len(standbys_of(peer.member, peers, 1)) for peer in peers]
    assert min(counts) >= 2
    assert max(counts) <= 3 * SHARDS // 8


def test_a_member_that_comes_back_under_another_id_keeps_the_same():
    before = group("a", "b", "c")
    after = [Peer("c-again", "c", peer.shards) if peer.name == "c" else peer for peer in before]
    assert standbys_of("c-id", before, 1) == standbys_of("c-again", after, 1)
    assert standbys_of("a-id", before, 1) == standbys_of("a-id", after, 1)


def test_one_that_leaves_moves_its_own_copies_only():
    before = group("a", "b", "c", "d")
    gone = before.pop()
    kept = {peer.member: standbys_of(peer.member, [*before, gone], 1) for peer in before}
    for peer in before:
        assert kept[peer.member] - gone.shards <= standbys_of(peer.member, before, 1)


def test_who_is_not_in_the_group_keeps_none():
    assert standbys_of("x-id", group("a", "b"), 1) == set()
    assert standbys_of("", group("a", "b"), 1) == set()
