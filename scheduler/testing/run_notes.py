"""Notes of every run, by what its worker reported of it."""

from typing import Final

import msgspec

from scheduler.core.job import ErrorInfo
from scheduler.core.notices import Lease
from scheduler.core.reports import Done, Fail, Release, ReleaseReason, Report, Verdict
from scheduler.testing.memory_run import MemoryRun
from scheduler.testing.seen import JobRun, RunOutcome, error_text, time_of
from scheduler.testing.virtual_time import VirtualClock

_FAILED: Final[dict[Verdict, RunOutcome]] = {
    Verdict.RETRY: "failed",
    Verdict.FAIL: "failed",
    Verdict.CANCEL: "cancelled",
    Verdict.TIMEOUT: "timeout",
    Verdict.OUT_OF_MEMORY: "out_of_memory",
}
_RELEASED: Final[dict[ReleaseReason, RunOutcome]] = {
    ReleaseReason.SNOOZED: "snoozed",
    ReleaseReason.LOST: "lost",
    ReleaseReason.CRASHED: "lost",
}


class _Note:
    """What is known of one run."""

    def __init__(self, lease: Lease, worker: str, now_ms: int) -> None:
        self.lease = lease
        self.worker = worker
        self.started_ms = now_ms
        self.ended_ms = 0
        self.outcome: RunOutcome = "running"
        self.error: ErrorInfo | None = None
        self.run: MemoryRun | None = None

    def shown(self) -> JobRun:
        lease = self.lease
        return JobRun(
            attempt=lease.attempt,
            epoch=lease.epoch,
            checkpoint=msgspec.json.decode(lease.checkpoint) if lease.checkpoint else None,
            outcome=self.outcome,
            started_at=time_of(self.started_ms),
            ended_at=None if self.outcome == "running" else time_of(self.ended_ms),
            worker=self.worker,
            error=error_text(self.error),
            progress=self.run.told if self.run is not None else None,
        )


class RunNotes:
    """The runs of all jobs, in the order in which they began."""

    def __init__(self, clock: VirtualClock) -> None:
        """Begin with none."""
        self._clock = clock
        self._by_job: dict[str, list[_Note]] = {}
        self._by_lease: dict[tuple[str, int], _Note] = {}

    def granted(self, lease: Lease, worker: str) -> None:
        """Note that a worker is about to run a job."""
        note = _Note(lease, worker, self._clock.wall_ms())
        self._by_job.setdefault(lease.job_id, []).append(note)
        self._by_lease[lease.job_id, lease.epoch] = note

    def began(self, lease: Lease, run: MemoryRun) -> None:
        """Note the run that calls the handler."""
        self._by_lease[lease.job_id, lease.epoch].run = run

    def reported(self, report: Report) -> None:
        """Note how a worker says that a run ended."""
        if isinstance(report, Done):
            self._end(report.job_id, report.epoch, "succeeded")
        elif isinstance(report, Fail):
            self._end(report.job_id, report.epoch, _FAILED[report.verdict], report.error)
        elif isinstance(report, Release):
            self._end(report.job_id, report.epoch, _RELEASED.get(report.reason, "released"))

    def lost(self, lease: Lease) -> None:
        """Note that the worker of a run died."""
        self._end(lease.job_id, lease.epoch, "lost")

    def of(self, job_id: str) -> list[JobRun]:
        """Return the runs of a job."""
        return [note.shown() for note in self._by_job.get(job_id, ())]

    def _end(self, job_id: str, epoch: int, outcome: RunOutcome, error: ErrorInfo | None = None) -> None:
        note = self._by_lease.get((job_id, epoch))
        if note is not None and note.outcome == "running":
            note.outcome, note.error, note.ended_ms = outcome, error, self._clock.wall_ms()
