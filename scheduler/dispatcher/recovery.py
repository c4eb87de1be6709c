"""What becomes of a turn that failed: dropped and tried again, or everything begun anew.

Dropping undoes what was decided since the last commit: inputs are rewound, memory is read back from the
stores, and every shard adopts its leases again. Starting over believes nothing in memory: the producer is
made anew, and every shard is restored to the end of its log.
"""

import logging
from collections.abc import Callable
from functools import partial

from scheduler.core.crash import JobCrashed
from scheduler.core.fleet import Fleet
from scheduler.core.wakeups import adopt_leases
from scheduler.dispatcher.adopting import Adopting
from scheduler.dispatcher.blame import Blame
from scheduler.dispatcher.engine_clock import EngineClock
from scheduler.dispatcher.losses import Losses
from scheduler.dispatcher.ports import Fenced, Log, LogError, MustAbort, OutcomeUnknown, PositionLost
from scheduler.dispatcher.reading import InputCrashed, Reading
from scheduler.dispatcher.seat import Seat, Stage
from scheduler.dispatcher.signals import Signals
from scheduler.dispatcher.take_over import quarantine_orphans

_log = logging.getLogger(__name__)


class Recovery:
    """Brings memory back in line with the log after each family of errors."""

    def __init__(
        self,
        log: Log,
        clock: EngineClock,
        signals: Signals,
        fleet: Fleet,
        seats: dict[int, Seat],
        reading: Reading,
        adopting: Adopting,
        blame: Blame,
        losses: Losses,
    ) -> None:
        """Take what a turn changes, and whom to tell."""
        self._log = log
        self._clock = clock
        self._signals = signals
        self._fleet = fleet
        self._seats = seats
        self._reading = reading
        self._adopting = adopting
        self._blame = blame
        self._losses = losses
        self._reopening = False

    def ready(self) -> bool:
        """Say whether turns may be taken; if the producer is to be made anew, try that first.

        Brokers may be away for long, so it is asked again.
        """
        if not self._reopening:
            return True
        try:
            self._log.reopen()
        except LogError as error:
            _log.warning("no answer yet: %s", error)
            return False
        self._reopening = False
        return True

    def crashed(self, crash: InputCrashed) -> None:
        """Deciding raised at one record: it is quarantined when it comes again."""
        _log.error("deciding crashed at %s", crash, exc_info=crash)
        self._signals.failed("input_crashed")
        self._blame.crashed(crash.record)
        self._try(self._drop_turn)

    def job_crashed(self, crash: JobCrashed) -> None:
        """A timer, a grant, or the encoding of one job raised: that job is left alone.

        If it is the inputs that are at fault, they are found as if the broker had refused what came of them.
        """
        _log.error("a bug was met, and the job at fault is left alone: %s", crash, exc_info=crash)
        self._signals.failed("job_crashed")
        self._blame.job_crashed(crash, self._reading.taken)
        self._try(self._drop_turn)

    def aborted(self, error: MustAbort) -> None:
        """The transaction must be aborted."""
        self._try(partial(self._abort, error))

    def position_lost(self, error: PositionLost) -> None:
        """The input is held unless its loss was accepted: nothing is skipped silently, everything else goes on."""
        self._losses.met(error, self._seats)

    def unknown(self, error: OutcomeUnknown) -> None:
        """The commit may or may not have happened: the log knows."""
        _log.warning("outcome of a commit unknown, restoring: %s", error)
        self._start_over("unknown", keep_renewals=True)

    def fenced(self, error: Fenced) -> None:
        """Somebody else may have been the owner meanwhile."""
        _log.warning("fenced, starting over: %s", error)
        self._start_over("fenced", keep_renewals=False)

    def _try(self, how: Callable[[], None]) -> None:
        try:
            how()
        except PositionLost as error:
            self.position_lost(error)
        except LogError as worse:
            _log.warning("that failed too, starting over: %s", worse)
            self._start_over("fenced", keep_renewals=False)

    def _abort(self, error: MustAbort) -> None:
        _log.warning("transaction aborted: %s", error)
        self._signals.failed("abort")
        self._log.abort()
        self._blame.refused(error, self._seats.values(), self._reading.taken, self._clock.mono_ms())
        self._drop_turn()

    def _drop_turn(self) -> None:
        """Undo everything since the last commit but what was read of renewals."""
        self._fleet.offers.give_back()
        self._fleet.matcher.forget()
        self._reading.rewind(self._seats)
        mono_ms = self._clock.mono_ms()
        for seat in self._seats.values():
            if seat.stage is Stage.RESTORING:
                continue
            seat.dropped()
            adopt_leases(seat.shard, mono_ms)
            if seat.reads:
                self._adopting.begin(seat)
            else:
                quarantine_orphans(seat)

    def _start_over(self, why: str, *, keep_renewals: bool) -> None:
        """Believe nothing in memory: make the producer anew, then restore every shard to the end of its log."""
        self._signals.failed(why)
        self._fleet.offers.give_back()
        self._fleet.matcher.forget()
        self._reading.clear()
        for seat in self._seats.values():
            if not keep_renewals:
                seat.leases.clear()
            if seat.stage is not Stage.RESTORING:
                self._log.unfollow(seat.number)
                self._fleet.matcher.unload(seat.number)
                seat.reload()
        self._reopening = True
