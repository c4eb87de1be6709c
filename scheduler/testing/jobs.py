"""`Jobs`: the scheduler in memory as a test sees it."""

from datetime import datetime
from typing import Any

from scheduler.client.durations import Duration, duration_ms
from scheduler.client.reference import JobRef
from scheduler.client.request import Request
from scheduler.testing.allowance import MOST_RUNS, Allowance
from scheduler.testing.inquiries import MemoryInquiries
from scheduler.testing.memory_log import FOREIGN
from scheduler.testing.memory_scheduler import MemoryScheduler
from scheduler.testing.seen import DeadLetter, JobRun, Submitted, dead_letter_of, submitted_of, time_of
from scheduler.testing.submitting import MemorySubmitter
from scheduler.testing.virtual_time import VirtualClock
from scheduler.worker.app import App
from scheduler.worker.context import Message


class Jobs:
    """What the fixture `jobs` gives: everything that this test submits, and the time in which it runs.

    Nothing runs before `run` or `advance` is called, and time stands still in between.
    """

    def __init__(self, wall_ms: int) -> None:
        """Start a scheduler whose time begins shortly after `wall_ms`. Tests get one from the fixture."""
        self.scheduler = MemoryScheduler(VirtualClock(wall_ms))
        self._submitted: list[Submitted] = []
        self._ids: set[str] = set()
        self._admitted = 0
        self._inquiries = MemoryInquiries(self.scheduler, self._ids)
        self.submitter = MemorySubmitter(
            self.scheduler.broker, self.scheduler.clock, self._inquiries, self._accept
        )

    def __repr__(self) -> str:
        """Show the time, and how many jobs were submitted."""
        return f"<Jobs at {self.now.isoformat()}: {len(self.submitted)} submitted>"

    # -- time ------------------------------------------------------------------------------------------

    @property
    def now(self) -> datetime:
        """The virtual time, in UTC. It begins one to two seconds after the wall clock, at a whole second."""
        return time_of(self.scheduler.clock.wall_ms())

    def run(self, *, most_runs: int = MOST_RUNS) -> None:
        """Run everything that is runnable at the present virtual time, and what comes of it, until nothing is left.

        Time stands still, with one exception: a job whose worker died (`kill_worker`) goes on when its lease has
        expired, so time then passes until no lease of a dead worker is left. What becomes due meanwhile runs too.
        Raises `NeverIdle` after `most_runs`, and whatever a lifespan raises.
        """
        self._insist_outside("run")
        allowance = Allowance(most_runs)
        self.scheduler.settle(allowance)
        while (expiry_ms := self.scheduler.next_expiry_ms()) is not None:
            self.scheduler.pass_until(expiry_ms, allowance)

    def advance(self, duration: Duration, *, most_runs: int = MOST_RUNS) -> None:
        """Let `duration` (`"3h"`, a `timedelta`) of virtual time pass, running whatever becomes due, in due order.

        First everything runs that is runnable now, last what is runnable at the end. Called inside a handler, or
        by something that it calls, it makes the run take that long: its lease is renewed, its timeout ends it.
        """
        at_ms = self.scheduler.clock.wall_ms() + duration_ms(duration)
        allowance = Allowance(most_runs)
        if self.scheduler.current is None:
            self.scheduler.settle(allowance)
        self.scheduler.pass_until(at_ms, allowance)

    def kill_worker(self, *, after_checkpoint: int | None = None) -> None:
        """Let the worker of the next run die as by kill -9: at the start, or once its `ctx.save` number n is durable.

        Nothing is reported. Another worker goes on when the lease has expired in virtual time, from the last
        checkpoint. Further calls plan further deaths, each for the first run that it fits after the last one.
        """
        self.scheduler.deaths.plan(after_checkpoint)

    def use(self, app: App) -> None:
        """Run jobs of an app whose module nobody imports and whose jobs this test does not submit by itself."""
        self.scheduler.apps.use(app)

    # -- what happened ---------------------------------------------------------------------------------

    @property
    def submitted(self) -> list[Submitted]:
        """What was submitted, in order; jobs that a completion emitted are there once it was accepted."""
        self._admit_emitted()
        return list(self._submitted)

    def runs(self, job: JobRef[Any] | str) -> list[JobRun]:
        """Return the runs of a job, given its ref or id, in order."""
        return self.scheduler.notes.of(job if isinstance(job, str) else job.id)

    @property
    def dead_letters(self) -> list[DeadLetter]:
        """What is on the dead-letter topic, in order."""
        return [
            dead_letter_of(self._ref((stored.key or b"").decode()), dict(stored.headers))
            for stored in self.scheduler.broker.all("dlq")
        ]

    def messages(self, topic: str) -> list[Message]:
        """Return the messages that accepted completions published to a topic of yours, in order."""
        log = self.scheduler.broker.all(FOREIGN + topic)
        return [Message(topic, stored.value or b"", stored.key or b"") for stored in log]

    # -- inside ----------------------------------------------------------------------------------------

    def _accept(self, ref: JobRef[Any], request: Request[Any]) -> None:
        if self.scheduler.current is not None:
            self.scheduler.current.insist()  # a dead worker submits nothing
        self._ids.add(ref.id)
        self._submitted.append(submitted_of(ref, request.spec, self.scheduler.clock.wall_ms()))

    def _admit_emitted(self) -> None:
        ledger = self.scheduler.ledger
        ledger.read()
        for job_id, (spec, at_ms) in list(ledger.specs.items())[self._admitted :]:
            if job_id not in self._ids:
                self._ids.add(job_id)
                self._submitted.append(submitted_of(self._ref(job_id), spec, at_ms))
        self._admitted = len(ledger.specs)

    def _ref(self, job_id: str) -> JobRef[Any]:
        return JobRef(job_id, "", -1, -1, self._inquiries)

    def _insist_outside(self, what: str) -> None:
        if self.scheduler.current is not None:
            raise RuntimeError(f"jobs.{what}() inside a handler: here jobs run one after another")
