"""The free slots that workers offered to this dispatcher, by pool.

An offer lives `Timing.offer_life_ms` from when it was read. It is known by boot id, sequence and the shard
it came through, so reading it again after a rewind changes nothing. A higher sequence of a boot id
replaces its older plain offers; the slot that a completion frees stands on its own.
"""

from collections import deque

import msgspec

from scheduler.core.reports import Freed, Offer, Sender
from scheduler.core.spec import Band


class Free(msgspec.Struct, eq=False):
    """An offer as it stands: `slots` still free."""

    sender: Sender
    sequence: int
    slots: int
    lowest_band: int
    takes_suspect: bool
    read_at_ms: int  # monotonic
    plain: bool


class PoolOffers:
    """The offers of one pool, oldest first: a line for each band that is the least urgent they accept."""

    def __init__(self) -> None:
        """Begin with none."""
        self.lines: tuple[deque[Free], ...] = tuple(deque() for _ in Band)

    def line_for(self, free: Free) -> deque[Free]:
        """Return the line an offer stands in."""
        return self.lines[free.lowest_band]

    def drop_dead(self) -> None:
        """Drop offers without slots from the heads of the lines; what is behind a live one waits for its death."""
        for line in self.lines:
            while line and line[0].slots <= 0:
                line.popleft()


class Offers:
    """All offers of one dispatcher."""

    def __init__(self, life_ms: int) -> None:
        """Take how long an offer lives, in milliseconds."""
        self._life_ms = life_ms
        self._known: set[tuple[bytes, int, int]] = set()
        self._by_age: deque[tuple[tuple[bytes, int, int], Free]] = deque()
        self._latest: dict[bytes, int] = {}
        self._plain: dict[bytes, list[Free]] = {}
        self._taken: list[tuple[Free, bool]] = []
        self.pools: dict[str, PoolOffers] = {}

    def add(self, offer: Offer, shard: int, mono_ms: int) -> None:
        """Take a plain offer that was read from `shard`."""
        boot_id = offer.sender.boot_id
        latest = self._latest.get(boot_id, 0)
        if offer.sequence < latest or (boot_id, offer.sequence, shard) in self._known:
            return
        if offer.sequence > latest:
            for older in self._plain.pop(boot_id, ()):
                older.slots = 0
            self._latest[boot_id] = offer.sequence
        free = Free(
            offer.sender,
            offer.sequence,
            offer.slots,
            offer.lowest_band,
            offer.takes_suspect,
            mono_ms,
            plain=True,
        )
        self._plain.setdefault(boot_id, []).append(free)
        self._place(free, shard)

    def add_freed(self, sender: Sender, freed: Freed, shard: int, mono_ms: int) -> None:
        """Take the slot that a report read from `shard` frees."""
        if (sender.boot_id, freed.sequence, shard) in self._known:
            return
        self._place(
            Free(sender, freed.sequence, 1, freed.lowest_band, freed.takes_suspect, mono_ms, plain=False),
            shard,
        )

    def take(self, free: Free, *, suspect: bool = False) -> None:
        """Take one slot of an offer, for a suspect perhaps: it takes no other one then."""
        free.slots -= 1
        if suspect:
            free.takes_suspect = False
        self._taken.append((free, suspect))

    def settle(self) -> None:
        """Say that the slots taken in this turn are gone for good."""
        self._taken.clear()

    def give_back(self) -> None:
        """Give back the slots that a dropped turn took."""
        for free, suspect in self._taken:
            if free.slots == 0:
                self._pool(free).line_for(free).append(free)
            free.slots += 1
            free.takes_suspect = free.takes_suspect or suspect
        self._taken.clear()

    def expire(self, mono_ms: int) -> None:
        """Forget offers whose life is over, and what is known of workers that offered nothing since."""
        dead_before = mono_ms - self._life_ms
        while self._by_age and self._by_age[0][1].read_at_ms <= dead_before:
            key, free = self._by_age.popleft()
            free.slots = 0
            self._known.discard(key)
            if free.plain:
                self._forget_plain(key[0], free)
        for name, pool in list(self.pools.items()):
            pool.drop_dead()
            if not any(pool.lines):
                del self.pools[name]  # names are the word of whoever writes reports: they must not gather

    def clear(self) -> None:
        """Forget everything."""
        self._known.clear()
        self._by_age.clear()
        self._latest.clear()
        self._plain.clear()
        self._taken.clear()
        self.pools.clear()

    def _place(self, free: Free, shard: int) -> None:
        key = (free.sender.boot_id, free.sequence, shard)
        self._known.add(key)
        self._by_age.append((key, free))
        self._pool(free).line_for(free).append(free)

    def _pool(self, free: Free) -> PoolOffers:
        pool = self.pools.get(free.sender.pool)
        if pool is None:
            pool = self.pools[free.sender.pool] = PoolOffers()
        return pool

    def _forget_plain(self, boot_id: bytes, free: Free) -> None:
        plain = self._plain.get(boot_id)
        if plain and free in plain:
            plain.remove(free)
            if not plain:
                del self._plain[boot_id]
                self._latest.pop(boot_id, None)
