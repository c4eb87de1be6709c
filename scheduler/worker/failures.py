"""One line in the worker's log for each attempt that failed, and for jobs that nobody here can run.

Never the handler's arguments: what an exception's own text says is its author's choice.
"""

import logging
from typing import Final

from scheduler.core.reports import Done, Fail, Release, ReleaseReason, Report, Verdict
from scheduler.worker.actions import StartRun

LOG: Final = logging.getLogger("scheduler.worker")
TYPES_MAX: Final = 100
"""After so many different complaints about types no more of them are told."""

_LOSSES: Final = {
    ReleaseReason.CRASHED: "its process died",
    ReleaseReason.LOST: "its lease was not renewed",
}


class FailureLog:
    """Knows what runs, to say it by type and attempt when it has failed."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._runs: dict[str, StartRun] = {}
        self._strange: set[str] = set()

    def started(self, start: StartRun) -> None:
        """Take a run that begins."""
        self._runs[start.lease.job_id] = start

    def reported(self, report: Report) -> None:
        """Take a report on its way to Kafka; one that is sent again is told once."""
        if isinstance(report, Done | Fail | Release):
            start = self._runs.get(report.job_id)
            if start is not None and start.lease.epoch == report.epoch:
                del self._runs[report.job_id]
                why = _why(report)
                if why:
                    lease = start.lease
                    LOG.warning(
                        "%s %s: attempt %d of %d %s: %s",
                        start.spec.type,
                        lease.job_id,
                        lease.attempt,
                        lease.max_attempts,
                        "failed" if isinstance(report, Fail) else "was lost",  # what has a bound of its own
                        why,
                    )
            elif isinstance(report, Release) and report.reason is ReleaseReason.UNKNOWN_TYPE:
                self._tell_strange(report)

    def _tell_strange(self, report: Release) -> None:
        """Once for each type: the job comes by again and again until somebody else takes it."""
        if report.detail not in self._strange and len(self._strange) < TYPES_MAX:
            self._strange.add(report.detail)
            LOG.warning(
                "job %s is handed back: %s; workers of a pool have to know the same types",
                report.job_id,
                report.detail,
            )


def _why(report: Done | Fail | Release) -> str:
    """Return why an attempt failed, in one line; empty if it did not."""
    if isinstance(report, Fail):
        if report.verdict is Verdict.CANCEL:
            return ""
        error = report.error
        why = ": ".join(part for part in (error.error_class, " ".join(error.message.split())) if part)
        at = f" ({error.frames[-1]})" if error.frames else ""
        return f"{why}{at}{', not to be retried' if report.verdict is Verdict.FAIL else ''}"
    if isinstance(report, Done):
        return ""
    loss = _LOSSES.get(report.reason, "")
    return f"{loss}: {report.detail}" if loss and report.detail else loss
