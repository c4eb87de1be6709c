"""The parent process of a worker: one thread that waits for Kafka, children, signals and time at once.

It imports no user code. What it decides is in `session`; here events come in and actions go out. Whatever the
order in which things become ready, deadlines come first: every call into the session looks at them.
"""

import logging
import selectors
from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec

from scheduler.core.notices import Drain, Lease, Notice
from scheduler.core.reports import Sender
from scheduler.core.spec import JobSpec
from scheduler.core.timing import Timing
from scheduler.core.validation import Refused
from scheduler.worker.actions import (
    Action,
    ConfirmSave,
    GuardRun,
    KillRun,
    SendReport,
    StartRun,
    StopRun,
)
from scheduler.worker.crew import Began, Crew, CrewConfig, CrewEvent, Gone, OverMemory
from scheduler.worker.deadlines import DeadlineTable
from scheduler.worker.desk import SessionConfig
from scheduler.worker.failures import FailureLog
from scheduler.worker.guarding import Guard
from scheduler.worker.offers import NEVER
from scheduler.worker.ports import Clock, Delivered, Joined, Link, LinkEvent, LinkFailed, Received
from scheduler.worker.session import Session
from scheduler.worker.stopping import Signals
from scheduler.worker.wire import Broken, Finished, Progress, Ready, Save

LOG: Final = logging.getLogger("scheduler.worker")
LONGEST_WAIT_MS: Final = 10_000
CONFIRM_MS: Final = 5_000
"""How long past the end of the drain the last reports may take to be confirmed."""

CLOSE_MS: Final = 7_000
"""How long children may take to close their lifespans, all of them together."""

KILLED_MS: Final = 3_000
"""How long killed children are waited for."""

DecodeJob = Callable[[bytes], JobSpec]


class ParentConfig(msgspec.Struct, frozen=True):
    """One worker process. `target` is MODULE:APP; `reserved` slots accept interactive work only."""

    target: str
    worker: str
    boot_id: bytes
    pool: str = "default"
    slots: int = 8
    reserved: int = 0
    executor: str = "auto"
    jobs_per_child: int = 0
    drain_ms: int = 25_000
    grace_ms: int = 5_000
    release: str = ""
    timing: Timing = Timing()


class WorkerError(Exception):
    """The worker can't start, or can't go on. The message says why and what to do."""


class _StoppedWhileJoining(Exception):
    """Raised by the signal handler, since nothing else ends a call that waits for a broker."""


class Parent:
    """Runs one worker until it is told to stop."""

    def __init__(
        self,
        config: ParentConfig,
        link: Link,
        clock: Clock,
        decode_job: DecodeJob,
        announce: Callable[[str], None],
    ) -> None:
        """Take the collaborators; nothing starts before `run`."""
        self._config = config
        self._link = link
        self._clock = clock
        self._decode_job = decode_job
        self._announce = announce
        self._selector = selectors.DefaultSelector()
        self._session: Session | None = None
        self._failures = FailureLog()
        self._actions: deque[Action] = deque()
        self._told_to_stop = 0  # by so many signals
        self._told_to_drain = 0  # by a notice: 1
        self._joining = False
        self._drain_ends_ms = NEVER

    def run(self) -> int:
        """Work until drained; return the exit code. Raises `WorkerError`, `JoinError`."""
        table = DeadlineTable.new()
        with Signals(self._selector, self._on_signal), Guard(table, self._selector) as guard:
            crew = self._crew = Crew(
                CrewConfig(
                    self._config.target,
                    self._config.slots,
                    self._config.executor,
                    self._config.jobs_per_child,
                ),
                self._selector,
                table,
            )
            try:
                return self._work(crew, guard)
            finally:
                crew.kill_all()
                self._wait_for_no_child(crew, KILLED_MS)

    # -- the loop ----------------------------------------------------------------------------------

    def _work(self, crew: Crew, guard: Guard) -> int:
        ready = self._first_child(crew, guard)
        if ready is None:
            return 0
        joined = self._join()
        if joined is None:
            return 0
        session = self._session = self._new_session(ready, joined)
        self._selector.register(self._link.fileno(), selectors.EVENT_READ, _nothing)
        self._say_ready(ready)
        try:
            while not session.drained(self._clock.mono_ms()):
                self._turn(session, crew)
                guard.check()
                if self._clock.mono_ms() >= self._drain_ends_ms + CONFIRM_MS:
                    LOG.error(
                        "%d reports are not confirmed by Kafka; their jobs may run again",
                        session.unconfirmed(),
                    )
                    return 1
            crew.close(self._clock.mono_ms())
            self._wait_for_no_child(crew, CLOSE_MS)
            return 0
        finally:
            self._selector.unregister(self._link.fileno())
            self._link.close(CONFIRM_MS)

    def _turn(self, session: Session, crew: Crew) -> None:
        now_ms = self._clock.mono_ms()
        self._wait(min(session.next_ms(), crew.next_ms(now_ms)) - now_ms)
        now_ms = self._clock.mono_ms()
        events = crew.attend(now_ms)
        # Room first: a completion offers the slot it frees only if a child for it is there.
        self._do(session.on_capacity(crew.capacity, now_ms))
        for event in events:
            self._on_child(session, event, now_ms)
        for happened in self._link.take():
            self._on_link(session, happened, now_ms)
        self._heed_signals(session, now_ms)
        self._do(session.tick(now_ms))
        self._perform(session, crew)

    def _wait(self, wait_ms: int) -> None:
        timeout_ms = min(max(wait_ms, 0), LONGEST_WAIT_MS)
        for key, _ in self._selector.select(timeout_ms / 1_000):
            key.data()

    def _first_child(self, crew: Crew, guard: Guard) -> Ready | None:
        """Wait for the first child, which tells what this worker can run; None if told to stop meanwhile."""
        while crew.first is None:
            crew.attend(self._clock.mono_ms())
            self._wait(crew.next_ms(self._clock.mono_ms()) - self._clock.mono_ms())
            crew.attend(self._clock.mono_ms())
            guard.check()
            if self._told_to_stop:
                return None
        if isinstance(crew.first, Broken):
            raise WorkerError(f"{self._config.target} can't be loaded: {crew.first.why}")
        return crew.first

    def _join(self) -> Joined | None:
        """Join the link, which may wait long for a broker; None if told to stop meanwhile."""
        try:
            self._joining = True
            return self._link.join(self._config.pool, self._config.boot_id)
        except _StoppedWhileJoining:
            return None
        finally:
            self._joining = False

    def _new_session(self, ready: Ready, joined: Joined) -> Session:
        config = self._config
        sender = Sender(config.worker, config.boot_id, config.pool, joined.inbox, config.release)
        return Session(
            SessionConfig(
                sender,
                joined.shards,
                config.slots,
                frozenset(ready.types),
                config.reserved,
                config.timing,
                config.grace_ms,
            )
        )

    def _say_ready(self, ready: Ready) -> None:
        config = self._config
        slots = f"{config.slots} slots" if config.slots != 1 else "1 slot"
        types = f"{len(ready.types)} job types" if len(ready.types) != 1 else "1 job type"
        kept = f" ({config.reserved} for interactive jobs only)" if config.reserved else ""
        self._announce(f"worker {config.worker} ready: {slots}{kept}, pool {config.pool}, {types}")

    def _wait_for_no_child(self, crew: Crew, longest_ms: int) -> None:
        until_ms = self._clock.mono_ms() + longest_ms
        while not crew.empty:
            now_ms = self._clock.mono_ms()
            if now_ms >= until_ms:
                return
            self._wait(min(crew.next_ms(now_ms), until_ms) - now_ms)
            crew.attend(self._clock.mono_ms())

    # -- events ------------------------------------------------------------------------------------

    def _on_link(self, session: Session, happened: LinkEvent, now_ms: int) -> None:
        if isinstance(happened, Received):
            self._on_notice(session, happened.notice, now_ms)
        elif isinstance(happened, Delivered):
            self._do(session.on_acked(happened.ticket, now_ms))
        elif isinstance(happened, LinkFailed):
            raise WorkerError(happened.why)
        else:
            LOG.warning("a report was not delivered: %s", happened.why)
            self._do(
                session.on_failed(happened.ticket, now_ms, retriable=happened.retriable, why=happened.why)
            )

    def _on_notice(self, session: Session, notice: Notice, now_ms: int) -> None:
        if isinstance(notice, Lease):
            ours = notice.boot_id == self._config.boot_id
            self._do(session.on_lease(notice, self._spec(notice) if ours else None, now_ms))
        elif isinstance(notice, Drain):
            if notice.boot_id == self._config.boot_id:
                LOG.info("told to drain: %s", notice.reason)
                self._told_to_drain = 1
        else:
            self._do(session.on_revoke(notice, now_ms))

    def _spec(self, lease: Lease) -> JobSpec | None:
        try:
            return self._decode_job(lease.spec)
        except Refused as error:
            LOG.warning("job %s: its record can't be read: %s", lease.job_id, error)
            return None

    def _on_child(self, session: Session, event: CrewEvent, now_ms: int) -> None:
        if isinstance(event, Began):
            self._do(session.on_began(event.run, now_ms))
        elif isinstance(event, Finished):
            self._do(session.on_finished(event.run, event.outcome, now_ms))
        elif isinstance(event, Save):
            self._do(session.on_save(event.run, event.number, event.data, now_ms))
        elif isinstance(event, Progress):
            session.on_progress(event.run, event.fraction, event.note)
        elif isinstance(event, Gone):
            self._do(session.on_gone(event.runs, event.detail, now_ms))
        elif isinstance(event, OverMemory):
            self._do(session.on_over_memory(event.run, event.detail, now_ms))
        else:
            self._do(session.on_shield(event.run, event.duration_ms, now_ms))

    def _on_signal(self) -> None:
        self._told_to_stop += 1
        if self._joining:
            raise _StoppedWhileJoining

    def _heed_signals(self, session: Session, now_ms: int) -> None:
        """Drain once told; hurry at a second signal; stop at once at the third. A notice is no signal."""
        told, config = min(max(self._told_to_stop, self._told_to_drain), _AT_ONCE), self._config
        if not told:
            return
        patience_ms = {1: config.drain_ms, _IMPATIENT: config.grace_ms, _AT_ONCE: 0}
        kill_at_ms = now_ms + patience_ms[told]
        stop_at_ms = max(now_ms, kill_at_ms - config.grace_ms)
        if kill_at_ms < self._drain_ends_ms:
            if self._drain_ends_ms == NEVER:
                LOG.info("draining: %d jobs run, %d s at most", session.running, config.drain_ms // 1_000)
            self._drain_ends_ms = kill_at_ms
            self._do(session.on_drain(stop_at_ms, kill_at_ms, now_ms, hurry=told > 1))

    # -- actions -----------------------------------------------------------------------------------

    def _do(self, actions: list[Action]) -> None:
        self._actions += actions

    def _perform(self, session: Session, crew: Crew) -> None:
        """Perform actions in their order; what children do at once leads to more of them."""
        while self._actions:
            action = self._actions.popleft()
            now_ms = self._clock.mono_ms()
            if isinstance(action, SendReport):
                self._link.send(action.ticket, action.partition, action.report)
                self._failures.reported(action.report)
            elif isinstance(action, StartRun):
                self._failures.started(action)
                crew.start(action, now_ms)
            elif isinstance(action, GuardRun):
                crew.guard(action)
            elif isinstance(action, KillRun):
                crew.kill(action.run)
            elif isinstance(action, StopRun):
                crew.stop(action.run, action.reason, now_ms + action.grace_ms)
            else:
                assert isinstance(action, ConfirmSave)
                crew.saved(action.run, action.number, action.error)
            if not self._actions:
                for event in crew.take():
                    self._on_child(session, event, now_ms)


_IMPATIENT: Final = 2
_AT_ONCE: Final = 3


def _nothing() -> None:
    """The link is looked at in every turn; its descriptor only ends the waiting."""
