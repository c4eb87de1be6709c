"""The reports that end runs."""

from typing import Final

from scheduler.core.job import ErrorInfo
from scheduler.core.reports import Done, Fail, Freed, Release, ReleaseReason, Sender, Verdict
from scheduler.worker.actions import Failed, Left, Outcome, Snoozed, StopReason, Succeeded
from scheduler.worker.runs import Killed, Run

End = Done | Fail | Release

_RELEASED: Final[dict[Killed, ReleaseReason]] = {
    Killed.LOST: ReleaseReason.LOST,
    Killed.STOPPED: ReleaseReason.STOPPED,
    Killed.SHUTDOWN: ReleaseReason.SHUTDOWN,
}
_LEFT: Final[dict[StopReason, ReleaseReason]] = {
    StopReason.CANCELLED: ReleaseReason.STOPPED,
    StopReason.DRAINING: ReleaseReason.SHUTDOWN,
}


class Reporter:
    """Writes the reports that end runs, in the name of one worker process."""

    def __init__(self, sender: Sender) -> None:
        """Take who reports."""
        self._sender = sender

    def done(self, run: Run, outcome: Succeeded, now_ms: int, freed: Freed | None) -> Done:
        """Report a run that ended well."""
        lease = run.lease
        return Done(
            self._sender,
            lease.job_id,
            lease.epoch,
            lease.token,
            run.run_ms(now_ms),
            outcome.result,
            outcome.omitted,
            outcome.emits,
            freed,
        )

    def failed(self, run: Run, outcome: Failed, now_ms: int, freed: Freed | None) -> Fail:
        """Report a run that ended badly."""
        lease = run.lease
        return Fail(
            self._sender,
            lease.job_id,
            lease.epoch,
            lease.token,
            outcome.verdict,
            run.run_ms(now_ms),
            outcome.retry_after_ms,
            outcome.error,
            freed,
        )

    def released(
        self,
        run: Run,
        reason: ReleaseReason,
        now_ms: int,
        freed: Freed | None,
        *,
        delay_ms: int = 0,
        detail: str = "",
    ) -> Release:
        """Hand the lease of a run back."""
        lease = run.lease
        return Release(
            self._sender,
            lease.job_id,
            lease.epoch,
            lease.token,
            reason,
            run.began_ms >= 0,
            run.run_ms(now_ms),
            delay_ms,
            detail,
            freed,
        )

    def refused(
        self,
        job_id: str,
        epoch: int,
        token: bytes,
        reason: ReleaseReason,
        *,
        detail: str = "",
        freed: Freed | None = None,
    ) -> Release:
        """Hand a lease back that started nothing here."""
        return Release(self._sender, job_id, epoch, token, reason, detail=detail, freed=freed)

    def ended(self, run: Run, outcome: Outcome, now_ms: int, freed: Freed | None) -> End:
        """Report a run whose handler ended by itself."""
        if isinstance(outcome, Succeeded):
            return self.done(run, outcome, now_ms, freed)
        if run.stop is not None:
            # It had been asked to leave, so whatever it raised on the way out says nothing about the job.
            return self.released(run, _LEFT[run.stop], now_ms, freed)
        if isinstance(outcome, Failed):
            return self.failed(run, outcome, now_ms, freed)
        if isinstance(outcome, Snoozed):
            return self.released(run, ReleaseReason.SNOOZED, now_ms, freed, delay_ms=outcome.delay_ms)
        return self._left(run, outcome, now_ms, freed)

    def killed(self, run: Run, why: Killed, now_ms: int, freed: Freed | None) -> End:
        """Report a run that was killed and is dead."""
        if why is Killed.TIMEOUT:
            return self.failed(run, timed_out(run), now_ms, freed)
        if why is Killed.OUT_OF_MEMORY:
            error = ErrorInfo("OutOfMemory", run.detail)
            return self.failed(run, Failed(Verdict.OUT_OF_MEMORY, error), now_ms, freed)
        reason = _RELEASED[why]
        if reason is ReleaseReason.LOST and run.began_ms < 0:
            reason = ReleaseReason.TOO_LATE
        return self.released(run, reason, now_ms, freed, detail=run.detail)

    def _left(self, run: Run, outcome: Left, now_ms: int, freed: Freed | None) -> End:
        if outcome.reason == StopReason.TIMEOUT:
            return self.failed(run, timed_out(run), now_ms, freed)
        if outcome.reason == StopReason.LOST:
            return self.released(run, ReleaseReason.LOST, now_ms, freed)
        # Nobody had asked it to. Handed back for free it would run again at once, and again.
        error = ErrorInfo("Stopped", "the handler raised Stopped by itself; raise Cancel or Snooze instead")
        return self.failed(run, Failed(Verdict.RETRY, error), now_ms, freed)


def timed_out(run: Run) -> Failed:
    """Return the outcome of a run that used up its time."""
    return Failed(Verdict.TIMEOUT, ErrorInfo("Timeout", f"timeout after {_text(run.lease.timeout_ms)}"))


def _text(duration_ms: int) -> str:
    if duration_ms % 1_000:
        return f"{duration_ms}ms"
    seconds = duration_ms // 1_000
    return f"{seconds}s" if seconds % 60 or not seconds else f"{seconds // 60}m"
