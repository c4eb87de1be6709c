"""From an assigned shard to one that is claimed: its restore is begun, gone on with between turns, and taken in.

What a dead owner left open holds the end of the changelog back; its transactional id is in `meta`, and
initialising it ends that.
"""

import logging
from collections.abc import Callable
from typing import Final

from scheduler.core.fleet import Fleet
from scheduler.core.inputs import Meta
from scheduler.core.shard import Shard
from scheduler.core.wakeups import adopt_leases
from scheduler.dispatcher.config import Config
from scheduler.dispatcher.engine_clock import EngineClock
from scheduler.dispatcher.intake import quarantine_orphan
from scheduler.dispatcher.last_owners import LastOwners
from scheduler.dispatcher.ports import ANYBODY, Log, LogError
from scheduler.dispatcher.restoring import Done, Restorer
from scheduler.dispatcher.seat import Seat, Stage
from scheduler.dispatcher.set_aside import SetAside
from scheduler.dispatcher.view import StoreView

_log = logging.getLogger(__name__)

_BEGIN_AGAIN_MS: Final = 1_000  # a question without an answer holds the turn up for as long
_SAY_HANGING_MS: Final = 60_000
_OVERDUE_MS: Final = 40_000
"""No coordinator lets a transaction of ours stay open for so long: its time-out is 10 s, and looked at each 10 s."""

_FENCE_AGAIN_MS: Final = 10_000  # the transaction timeout: by then the coordinator has ended it anyway


class TakeOver:
    """The restores of the seats that are to be taken."""

    def __init__(
        self,
        config: Config,
        log: Log,
        clock: EngineClock,
        fleet: Fleet,
        restorer: Restorer,
        last_owners: LastOwners,
        set_aside: SetAside,
        failpoint: Callable[[str], None],
    ) -> None:
        """Restore by `restorer`; shards taken over grant what `fleet` offers."""
        self._config = config
        self._log = log
        self._clock = clock
        self._fleet = fleet
        self._restorer = restorer
        self._last_owners = last_owners
        self._set_aside = set_aside
        self._failpoint = failpoint
        self._to_begin: set[int] = set()  # shards that are still to be restored, as of the last turn
        self._begin_again_ms = 0  # when to ask again for the end of a changelog
        self._fence_again_ms: dict[str, int] = {}  # when a last owner may be fenced again
        self._ended: set[tuple[str, str]] = set()  # owners, as members, whose transaction was ended here
        self._held_since_ms: dict[int, int] = {}  # since when a shard is held back
        self._hanging_ms: dict[int, int] = {}  # when a shard is told again to wait for nobody's transaction

    def go_on(self, seats: dict[int, Seat]) -> bool:
        """Begin and go on with restores; return whether any is under way."""
        self._begin(seats)
        if not self._restorer.running():
            return False
        mono_ms = self._clock.mono_ms()
        finished = self._restorer.slice(self._config.restore_slice_ms, self._clock.wall_ms())
        if finished:
            others = {restore.number for restore in self._restorer.running()} | self._to_begin
            self._last_owners.ask([done.number for done in finished] + sorted(others))
        for done in finished:
            self._last_owners.compare(done.number, done.meta)
            self._restored(seats[done.number], done, self._last_owners.as_left(done.meta))
        self._failpoint("in_takeover")
        self._look_at_held_back(mono_ms)
        return True

    def _begin(self, seats: dict[int, Seat]) -> None:
        """Begin what is to be restored, as far as the time of a slice allows: to open a store takes 10 to 30 ms."""
        waiting = [seat for seat in seats.values() if seat.stage is Stage.RESTORING]
        if not waiting:
            self._to_begin.clear()
            return
        mono_ms = self._clock.mono_ms()
        if mono_ms < self._begin_again_ms:
            return
        until_ms = mono_ms + self._config.restore_slice_ms
        begun = {restore.number for restore in self._restorer.running()}
        waiting = [seat for seat in waiting if seat.number not in begun]
        if any(seat.number not in self._to_begin for seat in waiting):
            self._last_owners.forget()
        self._to_begin = {seat.number for seat in waiting}
        for seat in waiting:
            store, seat.store = seat.store, None
            try:
                self._restorer.begin(seat.number, self._clock.wall_ms(), store)
            except LogError as error:
                _log.warning("shard %d can't be restored yet: %s", seat.number, error)
                self._begin_again_ms = self._clock.mono_ms() + _BEGIN_AGAIN_MS
                return
            self._to_begin.discard(seat.number)
            if self._clock.mono_ms() >= until_ms:
                return

    def _restored(self, seat: Seat, done: Done, meta: Meta) -> None:
        seat.store = done.store
        view = StoreView(done.store, self._set_aside)
        shard = Shard(seat.number, view, self._fleet, seat.leases, epoch=meta.epoch)
        seat.orphans = done.orphans
        mono_ms = self._clock.mono_ms()
        seat.leases.keep_only({(state.job_id, state.epoch) for state in shard.live()})
        seat.restored(shard, meta, mono_ms)
        adopt_leases(shard, mono_ms)
        quarantine_orphans(seat)

    def _look_at_held_back(self, mono_ms: int) -> None:
        restoring = {restore.number for restore in self._restorer.running()}
        self._held_since_ms = {
            each: since for each, since in self._held_since_ms.items() if each in restoring
        }
        for number, meta in self._restorer.held_back(mono_ms, self._config.held_back_ms):
            if number not in self._held_since_ms:
                self._held_since_ms[number] = mono_ms
                self._hanging_ms[number] = mono_ms + _SAY_HANGING_MS
            since_ms = self._held_since_ms[number]
            if meta is not None and meta.owner:
                self._end_holder(number, meta, mono_ms, is_overdue=mono_ms - since_ms >= _OVERDUE_MS)
            self._say_hanging(number, since_ms, mono_ms)

    def _end_holder(self, number: int, meta: Meta, mono_ms: int, *, is_overdue: bool) -> None:
        """End what the last owner left open: if it has left the group, or no transaction of its can be open still.

        It takes half a second, serves all shards of that owner, and may not be whose transaction it is.
        """
        if mono_ms < self._fence_again_ms.get(meta.owner, mono_ms):
            return
        member = ANYBODY if is_overdue else meta.member
        if (meta.owner, member) in self._ended:
            return  # once is enough, and must be: the same process may be back under another member id, and at work
        self._fence_again_ms[meta.owner] = mono_ms + _FENCE_AGAIN_MS
        try:
            ended = self._end(meta.owner, member)
        except LogError as error:
            _log.warning(
                "shard %d: the open transaction of %s can't be ended yet: %s", number, meta.owner, error
            )
            return
        if ended:
            self._ended.add((meta.owner, member))
            _log.warning("shard %d: ended what %s had left open", number, meta.owner)

    def _end(self, owner: str, member: str) -> bool:
        if owner != self._log.owner:
            return self._log.fence_owner(owner, member)
        if member != ANYBODY:
            return False
        self._log.reopen()  # between two turns, so nothing is open; it ends what an earlier turn left so
        return True

    def _say_hanging(self, number: int, since_ms: int, mono_ms: int) -> None:
        """Tell of a transaction that nobody could end."""
        if mono_ms < self._hanging_ms[number]:
            return
        self._hanging_ms[number] = mono_ms + _SAY_HANGING_MS
        _log.error(
            "shard %d has waited for %d s for the end of a transaction in partition %d of the changelog. The brokers have "
            "lost track of it, and it could not be ended from here: 'kafka-transactions.sh find-hanging' with that topic "
            "and partition shows it, 'kafka-transactions.sh abort' ends it",
            number,
            (mono_ms - since_ms) // 1_000,
            number,
        )


def quarantine_orphans(seat: Seat) -> None:
    """Let the claim of a shard quarantine the job records that have no state."""
    for key in seat.orphans:
        quarantine_orphan(seat.shard, key[1:].decode(errors="replace"))
