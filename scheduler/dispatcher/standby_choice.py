"""Which shards a dispatcher keeps warm copies of.

Every member comes to the same answer by itself, from who is in the group and holds what: the best of the others by
a hash of name and shard (rendezvous hashing), so that a member that comes or goes moves only its own copies. The
group does not heed that when it gives a dead owner's shards away: with more members than copies + 1 some go to a
member without one.
"""

from collections.abc import Sequence
from hashlib import blake2b

from scheduler.dispatcher.ports import Peer


def standbys_of(member: str, peers: Sequence[Peer], replicas: int) -> set[int]:
    """Return the shards of others of which `member` is to keep a copy, if there are to be `replicas` of each."""
    if all(peer.member != member for peer in peers):
        return set()
    labels = _labels(peers)
    chosen = set()
    for owner in peers:
        others = [peer.member for peer in peers if peer is not owner]
        if owner.member == member:
            continue
        for shard in owner.shards:
            weights = {each: _weight(labels[each], shard) for each in others}
            if member in sorted(others, key=weights.__getitem__)[:replicas]:
                chosen.add(shard)
    return chosen


def _labels(peers: Sequence[Peer]) -> dict[str, str]:
    """Return what each member goes by: its name, with which it finds its copies again; if names are shared, its id."""
    if len({peer.name for peer in peers}) == len(peers):
        return {peer.member: peer.name for peer in peers}
    return {peer.member: peer.member for peer in peers}


def _weight(label: str, shard: int) -> bytes:
    return blake2b(f"{shard}/{label}".encode(), digest_size=8).digest()
