"""A worker in this process: the production session over a broker in memory, with one slot."""

from collections import deque
from collections.abc import Callable
from typing import Final

from scheduler.codec.job import decode_job
from scheduler.codec.notices import decode_notice
from scheduler.codec.reports import encode_report
from scheduler.core.notices import Drain, Lease
from scheduler.core.reports import Report, Sender
from scheduler.core.validation import Refused
from scheduler.testing.memory_broker import MemoryBroker, Stored
from scheduler.testing.memory_run import Loopback, MemoryRun
from scheduler.testing.virtual_time import VirtualClock
from scheduler.worker.actions import (
    RUN_IS_OVER,
    Action,
    ConfirmSave,
    GuardRun,
    KillRun,
    Outcome,
    SendReport,
    StartRun,
    StopRun,
)
from scheduler.worker.desk import SessionConfig
from scheduler.worker.session import Session
from scheduler.worker.wire import Begin, Finished, Progress, Save, Saved, Shield, Stop, Up, UpReader, frame

POOL: Final = "default"
_INBOX: Final = 0


class MemoryWorker:
    """One incarnation. With one slot its jobs run one after another, in the order in which they are granted.

    It performs at once what the session asks for; reports are acknowledged as they are sent. `starts` are runs that
    it holds and nobody has begun. Once it is `dead` it neither hears nor says anything.
    """

    def __init__(
        self,
        number: int,
        broker: MemoryBroker,
        clock: VirtualClock,
        types: frozenset[str],
        sent: Callable[[Report], None],
    ) -> None:
        """Join as worker `number`; `sent` hears each report that goes out."""
        self.name = f"worker-{number}"
        sender = Sender(self.name, number.to_bytes(16, "big"), POOL, _INBOX)
        self._broker = broker
        self._clock = clock
        self._sent = sent
        self._boot_id = sender.boot_id
        self._session = Session(SessionConfig(sender, broker.partitions, slots=1, types=types))
        self._read = len(self._inbox())
        self._actions: deque[Action] = deque()
        self.starts: deque[StartRun] = deque()
        self.run: MemoryRun | None = None
        self.dead = False
        self._do(self._session.on_capacity(1, self._now_ms()))

    def attend(self) -> None:
        """Take what has come, and do what time asks for."""
        log = self._inbox()
        for stored in log[self._read :]:
            self._read += 1
            notice = decode_notice(stored.value)
            if isinstance(notice, Lease):
                spec = decode_job(notice.spec) if notice.boot_id == self._boot_id else None
                self._do(self._session.on_lease(notice, spec, self._now_ms()))
            elif not isinstance(notice, Drain):
                self._do(self._session.on_revoke(notice, self._now_ms()))
        self._do(self._session.tick(self._now_ms()))

    def next_ms(self) -> int:
        """Return when `attend` is due next though nothing comes (Unix milliseconds), at the earliest."""
        return self._clock.wall_of(self._session.next_ms())

    # -- runs ------------------------------------------------------------------------------------------

    def begin(self, start: StartRun, saved: Callable[[int], None]) -> MemoryRun:
        """Begin a run; the caller calls the handler. `saved` is as for `MemoryRun`."""
        lease = start.lease
        begin = Begin(
            start.run,
            start.spec,
            lease.attempt,
            lease.max_attempts,
            lease.epoch,
            lease.checkpoint,
            limit_ms=self._now_ms() + lease.timeout_ms,
            deadline_ms=start.deadline_ms,
        )
        self.run = MemoryRun(begin, Loopback(self._hear), saved)
        self._do(self._session.on_began(start.run, self._now_ms()))
        return self.run

    def finish(self, run: MemoryRun, outcome: Outcome) -> None:
        """Say that a run's handler has ended."""
        self.run = None
        (message,) = UpReader().feed(frame(Finished(run.begin.run, outcome)))
        assert isinstance(message, Finished)
        self._do(self._session.on_finished(message.run, message.outcome, self._now_ms()))

    def bury(self, run: MemoryRun) -> None:
        """Say that the process of a run is dead."""
        self.run = None
        self._do(self._session.on_gone((run.begin.run,), "killed by SIGKILL", self._now_ms()))

    def die(self) -> None:
        """End as kill -9 would: nothing is reported, a run that it holds is over."""
        self.dead = True
        self._actions.clear()
        self.starts.clear()
        if self.run is not None:
            self.run.over = True

    # -- inside ----------------------------------------------------------------------------------------

    def _hear(self, message: Up) -> None:
        if self.dead:
            self._answer_for_the_dead(message)
        elif isinstance(message, Save):
            self._do(self._session.on_save(message.run, message.number, message.data, self._now_ms()))
        elif isinstance(message, Progress):
            self._session.on_progress(message.run, message.fraction, message.note)
        elif isinstance(message, Shield):
            self._do(self._session.on_shield(message.run, message.duration_ms, self._now_ms()))

    def _answer_for_the_dead(self, message: Up) -> None:
        """Let no thread of a dead run wait for ever."""
        if isinstance(message, Save) and self.run is not None:
            self.run.on_saved(Saved(message.run, message.number, RUN_IS_OVER))

    def _do(self, actions: list[Action]) -> None:
        self._actions += actions
        while self._actions:
            self._perform(self._actions.popleft())

    def _perform(self, action: Action) -> None:
        if isinstance(action, SendReport):
            self._send(action)
        elif isinstance(action, StartRun):
            self.starts.append(action)
        elif isinstance(action, KillRun):
            self._kill(action.run)
        elif self.run is not None and self.run.begin.run == action.run:
            _tell(self.run, action, self._now_ms())

    def _send(self, sending: SendReport) -> None:
        now_ms = self._now_ms()
        try:
            value = encode_report(sending.report)
        except (Refused, ValueError) as refused:
            self._actions += self._session.on_failed(
                sending.ticket, now_ms, retriable=False, why=str(refused)
            )
            return
        self._broker.append("reports", sending.partition, None, value, at_ms=self._clock.wall_ms())
        self._sent(sending.report)
        self._actions += self._session.on_acked(sending.ticket, now_ms)

    def _kill(self, number: int) -> None:
        if self.run is not None and self.run.begin.run == number:
            self.run.over = True  # its handler is on the stack: `bury` follows once it is unwound
            return
        self.starts = deque(start for start in self.starts if start.run != number)
        self._actions += self._session.on_gone((number,), "nothing runs it", self._now_ms())

    def _inbox(self) -> list[Stored]:
        return self._broker.log(f"leases.{POOL}", _INBOX)

    def _now_ms(self) -> int:
        return self._clock.mono_ms()


def _tell(run: MemoryRun, action: GuardRun | StopRun | ConfirmSave, now_ms: int) -> None:
    if isinstance(action, GuardRun):
        run.on_extend(action.deadline_ms)
    elif isinstance(action, StopRun):
        run.on_stop(Stop(action.run, action.reason, now_ms + action.grace_ms))
    else:
        run.on_saved(Saved(action.run, action.number, action.error))
