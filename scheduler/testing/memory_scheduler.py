"""A whole scheduler in this process: one dispatcher, one worker at a time, time that passes when it is told to.

    settle:      worker attends -> its runs are performed -> the dispatcher takes a turn -> ... until nothing moves
    pass_until:  time jumps to the next moment at which something becomes due, settles, and so on

A handler is called on the stack of `settle`. If it lets time pass itself (`advance` inside a handler), its lease
is renewed and its timeout counts, but nothing else is run: the worker has one slot.
"""

import warnings
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final

from scheduler.core.reports import Release, ReleaseReason, Report
from scheduler.testing.allowance import Allowance
from scheduler.testing.deaths import Deaths
from scheduler.testing.escapes import Escapes
from scheduler.testing.known_apps import KnownApps
from scheduler.testing.ledger import Ledger
from scheduler.testing.memory_broker import MemoryBroker
from scheduler.testing.memory_dispatcher import MemoryDispatcher
from scheduler.testing.memory_run import MemoryRun, RunKilled
from scheduler.testing.memory_worker import MemoryWorker
from scheduler.testing.open_app import OpenApp
from scheduler.testing.private_loop import PrivateLoop, outside_running_loop
from scheduler.testing.run_notes import RunNotes
from scheduler.testing.virtual_time import SeededChance, VirtualClock
from scheduler.worker.actions import Outcome, StartRun
from scheduler.worker.app import App

SHARDS: Final = 1
"""With one shard jobs are granted in the order of their submission, whatever their ids hash to."""

SEED: Final = 1
_IDLE_ROUNDS_MAX: Final = 10_000


class MemoryScheduler:
    """Dispatcher, workers and handlers over one broker in memory."""

    def __init__(self, clock: VirtualClock) -> None:
        """Bring up a dispatcher; workers come when there is something to settle."""
        self.clock = clock
        self.broker = MemoryBroker(SHARDS)
        self.apps = KnownApps()
        self.deaths = Deaths()
        self.escapes = Escapes()
        self.ledger = Ledger(self.broker)
        self.notes = RunNotes(clock)
        self._dispatcher = MemoryDispatcher(self.broker, clock, SeededChance(SEED))
        self._loop = PrivateLoop()
        self._stack = ExitStack()
        self._open: dict[App, OpenApp] = {}
        self._types = self.apps.types()
        self._workers = 0
        self._worker = self._new_worker()
        self._unknown: dict[str, bool] = {}  # types without a handler, and whether the test was told

    @property
    def current(self) -> MemoryRun | None:
        """The run whose handler is on the stack."""
        return self._worker.run

    def close(self) -> None:
        """Close the lifespans in reverse order, then the loop, then the dispatcher."""
        try:
            with outside_running_loop():
                self._stack.close()
        finally:
            self._loop.close()
            self._dispatcher.close()

    # -- time ------------------------------------------------------------------------------------------

    def settle(self, allowance: Allowance) -> None:
        """Run whatever is runnable at the present time, and what comes of it, until nothing moves."""
        rounds_left = _IDLE_ROUNDS_MAX
        while rounds_left:
            rounds_left -= 1
            before = self.broker.appended
            if self._worker.dead:
                self._worker = self._new_worker()
            self._worker.attend()
            while self._worker.starts:
                self._perform(self._worker, self._worker.starts.popleft(), allowance)
                rounds_left = _IDLE_ROUNDS_MAX
            again = self._dispatcher.turn() or self._worker.dead
            if not again and self.broker.appended == before:
                self._warn_of_unknown()
                return
        raise AssertionError("the scheduler in memory moves without running anything")

    def pass_until(self, at_ms: int, allowance: Allowance) -> None:
        """Let time pass until `at_ms` (Unix milliseconds), running what becomes due on the way, in due order."""
        if self.current is not None:
            self._pass_under(self.current, at_ms)
            return
        while (due_ms := self.next_due_ms()) is not None and due_ms <= at_ms:
            self.clock.move_to(due_ms)
            self.settle(allowance)
        self.clock.move_to(max(at_ms, self.clock.wall_ms()))  # a handler may have taken longer than that
        self.settle(allowance)

    def next_due_ms(self) -> int | None:
        """Return when something becomes due next: a job, or the lease of a dead worker."""
        job_ms = self.ledger.next_due_ms(self.clock.wall_ms())
        lease_ms = self.next_expiry_ms()
        return min((at_ms for at_ms in (job_ms, lease_ms) if at_ms is not None), default=None)

    def next_expiry_ms(self) -> int | None:
        """Return when the lease of a dead worker may have expired, None if there is none.

        While no handler is on the stack every live lease is one: a living worker has ended all of its own.
        """
        return self._dispatcher.next_expiry_ms()

    def _pass_under(self, run: MemoryRun, at_ms: int) -> None:
        """Let time pass while a handler runs."""
        run.insist()
        worker = self._worker
        while self.clock.wall_ms() < at_ms:
            self.clock.move_to(min(at_ms, max(worker.next_ms(), self.clock.wall_ms() + 1)))
            self._turn_under(worker)
            run.insist()

    def _turn_under(self, worker: MemoryWorker) -> None:
        for _ in range(_IDLE_ROUNDS_MAX):
            before = self.broker.appended
            worker.attend()
            if not self._dispatcher.turn() and self.broker.appended == before:
                return
        raise AssertionError("the scheduler in memory moves without end under a run")

    # -- runs ------------------------------------------------------------------------------------------

    def _perform(self, worker: MemoryWorker, start: StartRun, allowance: Allowance) -> None:
        allowance.spend(start.spec.type)
        self.notes.granted(start.lease, worker.name)
        if self.deaths.strikes():
            self._die(worker, start)
            return
        run = worker.begin(start, self._saved(worker, start))
        self.notes.began(start.lease, run)
        self._end(worker, run, self._outcome(worker, start, run))

    def _outcome(self, worker: MemoryWorker, start: StartRun, run: MemoryRun) -> Outcome | None:
        """Call the handler; None if the run was killed under it."""
        try:
            outcome = self._app(start.spec.type).perform(run)
            self.escapes.rethrow()
        except RunKilled:
            return None
        except BaseException:
            # Not the job's: Ctrl-C, a test that failed inside a handler, a lifespan that can't be opened.
            self._die(worker, start)
            worker.run = None
            raise
        return outcome

    def _end(self, worker: MemoryWorker, run: MemoryRun, outcome: Outcome | None) -> None:
        if worker.dead:
            worker.run = None
        elif run.over or outcome is None:
            worker.bury(run)
        else:
            worker.finish(run, outcome)

    def _saved(self, worker: MemoryWorker, start: StartRun) -> Callable[[int], None]:
        def saved(count: int) -> None:
            if self.deaths.strikes(count):
                self._die(worker, start)

        return saved

    def _die(self, worker: MemoryWorker, start: StartRun) -> None:
        self.notes.lost(start.lease)
        worker.die()

    def _app(self, job_type: str) -> OpenApp:
        app = self.apps.app_of(job_type)
        assert app is not None, "the session starts known types only"
        if app not in self._open:
            self._open[app] = OpenApp(app, self._loop, self._stack)
        return self._open[app]

    def _new_worker(self) -> MemoryWorker:
        self._workers += 1
        return MemoryWorker(self._workers, self.broker, self.clock, self._types, self._sent)

    def _sent(self, report: Report) -> None:
        self.notes.reported(report)
        if isinstance(report, Release) and report.reason is ReleaseReason.UNKNOWN_TYPE:
            self._unknown.setdefault(report.detail, False)

    def _warn_of_unknown(self) -> None:
        for detail in [detail for detail, told in self._unknown.items() if not told]:
            self._unknown[detail] = True
            warnings.warn(
                f"{detail} in any app that this test knows: the job waits for a worker that has one. "
                "Import the app's module, or call jobs.use(app)",
                stacklevel=4,
            )
