"""Standbys: stores of shards that others own, kept near the ends of their changelogs, so that a take-over reads little.

    chosen -> following -> (indexing -> following)* -> released to a take-over, or closed

A standby is a restore that does not end (`restore.Restore`): the same store in the same place, filled by the same
code, with the same rule that the offset lies in the batch it counts. What commits reaches it, nothing else does. It
has the store open until the shard is taken over here: then it stops reading first, so no store has two writers.
"""

import logging
from collections.abc import Callable, Collection
from typing import Final, NamedTuple

from scheduler.dispatcher import own_disk
from scheduler.dispatcher.config import Config
from scheduler.dispatcher.ports import Follower, LogError, PositionLost, Restored, Roster, Store, Stores
from scheduler.dispatcher.restore import Restore
from scheduler.dispatcher.retired import Retired
from scheduler.dispatcher.signals import Signals
from scheduler.dispatcher.standby_choice import standbys_of

_log = logging.getLogger(__name__)

_SOON_MS: Final = 1_000  # after trouble, and while it is not known who holds what
_TELL_EVERY_MS: Final = 1_000


class Warm(NamedTuple):
    """What is left to a take-over: an open store, and keys of job records in it that may lack a state."""

    store: Store
    unmatched: list[bytes]


class NoStandbys:
    """None are kept."""

    def go_on(self, held: Collection[int]) -> None:
        """Do nothing."""

    def release(self, number: int) -> Warm | None:
        """Return that there is none."""
        return None

    def close(self) -> None:
        """Do nothing."""


class Standbys:
    """The standbys of one process."""

    def __init__(
        self,
        config: Config,
        stores: Stores,
        retired: Retired,
        follower: Follower,
        roster: Roster,
        member: Callable[[], str],
        clocks: tuple[Callable[[], int], Callable[[], int]],
        signals: Signals,
    ) -> None:
        """Keep copies in `stores`; `member` tells our id in the group, `clocks` the monotonic and the wall time."""
        self._config = config
        self._stores = stores
        self._retired = retired
        self._follower = follower
        self._roster = roster
        self._member = member
        self._mono_ms, self._wall_ms = clocks
        self._signals = signals
        self._wanted: set[int] = set()
        self._held: set[int] = set()
        self._running: dict[int, Restore] = {}
        self._indexing: list[Restore] = []  # not read until they are done with it
        self._ask_again_ms = 0
        self._tell_again_ms = 0
        self._rests_until_ms = 0
        self._worked_at_ms = self._mono_ms()

    def go_on(self, held: Collection[int]) -> None:
        """Follow the changelogs for a while, a fifth of the time at most; `held` are the shards owned here."""
        mono_ms = self._mono_ms()
        self._choose(held, mono_ms)
        self._tell(mono_ms)
        if mono_ms < self._rests_until_ms:
            return
        try:
            self._slice(held, mono_ms)
        except LogError as error:
            _log.warning("standbys rest: %s", error)
            self._rests_until_ms = mono_ms + _SOON_MS

    def release(self, number: int) -> Warm | None:
        """Leave a shard to its take-over here: nothing more is written to its store. None if there is no copy."""
        restore = self._forget(number)
        self._wanted.discard(number)
        return None if restore is None else Warm(restore.store, list(restore.unmatched))

    def close(self) -> None:
        """Stop; what is open is left to be closed."""
        for number in list(self._running):
            self._give_up(number)
        self._follower.close()

    # -- which -------------------------------------------------------------------------------------------

    def _choose(self, held: Collection[int], mono_ms: int) -> None:
        if self._held != set(held):
            self._held = set(held)
            self._ask_again_ms = mono_ms
        if (peers := self._roster.answer()) is not None:
            self._wanted = standbys_of(self._member(), peers, self._config.standby_replicas) - self._held
            for number in self._running.keys() - self._wanted:
                self._give_up(number)
            self._ask_again_ms = mono_ms + self._config.roster_every_ms
        elif mono_ms >= self._ask_again_ms:
            self._roster.ask()
            self._ask_again_ms = mono_ms + _SOON_MS

    def _tell(self, mono_ms: int) -> None:
        if mono_ms >= self._tell_again_ms:
            self._tell_again_ms = mono_ms + _TELL_EVERY_MS
            self._signals.standby_lags({number: self._follower.lag(number) for number in self._running})

    # -- following ---------------------------------------------------------------------------------------

    def _slice(self, held: Collection[int], mono_ms: int) -> None:
        config = self._config
        share_ms = (mono_ms - self._worked_at_ms) * config.standby_share_percent // 100
        until_ms = mono_ms + min(max(share_ms, 1), config.standby_slice_ms)
        self._open_one(held)
        while self._read() | self._index():  # both
            if self._mono_ms() >= until_ms:
                break
        else:
            self._rests_until_ms = self._mono_ms() + config.standby_rest_ms
        self._worked_at_ms = self._mono_ms()

    def _open_one(self, held: Collection[int]) -> None:
        """Open the store of one more shard: each takes a while."""
        missing = self._wanted - self._running.keys() - set(held)
        if not missing:
            return
        number, now_ms = min(missing), self._wall_ms()
        store = self._retired.take(number) or self._stores.open(number)
        if store.offset >= 0 and not own_disk.is_usable(store, self._config.ground, now_ms):
            store = self._stores.wipe(number)
        self._follow(number, store, now_ms)

    def _follow(self, number: int, store: Store, now_ms: int) -> None:
        if store.offset < 0:
            own_disk.mark_empty(store, self._config.ground, now_ms)
        self._running[number] = Restore(number, store, now_ms)
        self._follower.follow(number, store.offset)

    def _read(self) -> bool:
        """Write what the changelogs have to the stores; say whether there was anything."""
        try:
            slices = self._follower.poll()
        except PositionLost as lost:
            self._begin_anew(lost.partition)
            return True
        for restored in slices:
            restore = self._running.get(restored.shard)
            if restore is not None:
                self._take(restore, restored)
        return bool(slices)

    def _take(self, restore: Restore, restored: Restored) -> None:
        if not own_disk.is_recent(restore.as_of_ms, self._config.ground, self._wall_ms()):
            self._begin_anew(restore.number)
            return
        restore.take(restored)
        if restore.is_read and not self._step(restore):
            self._follower.stop(restore.number)
            self._indexing.append(restore)

    def _step(self, restore: Restore) -> bool:
        if not restore.step():
            return False
        if restore.take_more():
            _log.info("shard %d is kept warm: %d records read", restore.number, restore.records)
        return True

    def _index(self) -> bool:
        """Take a step of one that is being indexed; say whether there was any."""
        if not self._indexing:
            return False
        restore = self._indexing[0]
        if self._step(restore):
            del self._indexing[0]
            self._follower.follow(restore.number, restore.store.offset)
        return True

    def _begin_anew(self, number: int) -> None:
        """Empty a copy that is of no use: its place in the log is gone, or deletions behind it may be."""
        if self._forget(number) is not None:
            self._follow(number, self._stores.wipe(number), self._wall_ms())

    def _give_up(self, number: int) -> None:
        restore = self._forget(number)
        if restore is not None:
            self._retired.add(number, restore.store)

    def _forget(self, number: int) -> Restore | None:
        restore = self._running.pop(number, None)
        if restore is not None:
            self._follower.stop(number)
            self._indexing = [each for each in self._indexing if each is not restore]
        return restore
