"""The consumer group, as its coordinator has it: members, generations, and who holds which shard.

Cooperative: a shard that is to move is given up by its holder, in a poll, before anybody else gets it. Whoever is
not heard of for a session is thrown out, and what it held is free at once.
"""

import random
from collections.abc import Callable

import msgspec

SESSION_MS = 6_000


class Member(msgspec.Struct):
    """One member; its id is a new one each time it joins."""

    member_id: str
    heard_ms: int


class Group:
    """Members by the name of their process."""

    def __init__(self, shards: int, chance: random.Random, changed: Callable[[], None]) -> None:
        self._shards = shards
        self._chance = chance
        self._changed = changed  # hears of each rebalance
        self._joins = 0
        self.members: dict[str, Member] = {}
        self.generation = 0
        self.holders: dict[int, str] = {}
        self._targets: dict[int, str] = {}
        self.rebalances = 0

    # -- what members do ---------------------------------------------------------------------------

    def heartbeat(self, name: str, now_ms: int) -> Member:
        """Hear of a member; one that is not known joins."""
        member = self.members.get(name)
        if member is None:
            self._joins += 1
            member = self.members[name] = Member(f"{name}#{self._joins}", now_ms)
            self._rebalance()
        member.heard_ms = now_ms
        return member

    def leave(self, name: str) -> None:
        if self.members.pop(name, None) is not None:
            self.holders = {shard: holder for shard, holder in self.holders.items() if holder != name}
            self._rebalance()

    def give_up(self, name: str) -> list[int]:
        """Take away what a member holds and is to have no longer; return it."""
        lost = [
            shard
            for shard, holder in self.holders.items()
            if holder == name and self._targets.get(shard) != name
        ]
        for shard in lost:
            del self.holders[shard]
        return lost

    def take(self, name: str) -> list[int]:
        """Let a member hold what it is to have and nobody holds; return it."""
        gained = [
            shard for shard, target in self._targets.items() if target == name and shard not in self.holders
        ]
        self.holders.update(dict.fromkeys(gained, name))
        return gained

    def knows(self, member_id: str, generation: int) -> bool:
        """Say whether a member of this id and generation may commit offsets."""
        is_member = any(member.member_id == member_id for member in self.members.values())
        return is_member and generation == self.generation

    # -- what the coordinator does -----------------------------------------------------------------

    def expire(self, now_ms: int) -> None:
        """Throw out who was not heard of."""
        for name in [name for name, one in self.members.items() if now_ms - one.heard_ms > SESSION_MS]:
            self.leave(name)

    def scramble(self) -> None:
        """Rebalance anyhow, as an assignor with other ideas would."""
        names = list(self.members)
        if names:
            self._targets = {shard: self._chance.choice(names) for shard in range(self._shards)}
            self._begin_generation()

    def _begin_generation(self) -> None:
        self.generation += 1
        self.rebalances += 1
        self._changed()

    def _rebalance(self) -> None:
        """Even out what members have, and move as little as that takes."""
        self._begin_generation()
        names = list(self.members)
        self._targets = {shard: name for shard, name in self._targets.items() if name in self.members}
        if not names:
            return
        counts = dict.fromkeys(names, 0)
        most = -(-self._shards // len(names))
        for shard in range(self._shards):
            name = self._targets.get(shard)
            if name is None or counts[name] >= most:
                name = self._targets[shard] = min(names, key=lambda one: counts[one])
            counts[name] += 1
