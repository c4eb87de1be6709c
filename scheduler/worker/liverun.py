"""A run inside its child: the port behind `Context`, spoken over the wire."""

import threading
from typing import Final

from scheduler.core import bounds
from scheduler.worker.actions import RUN_IS_OVER, StopReason
from scheduler.worker.clock import mono_ms
from scheduler.worker.context import RunInfo, Stopped
from scheduler.worker.upstream import Upstream
from scheduler.worker.wire import Begin, Progress, Save, Saved, Shield, Stop

TIMEOUT_LEAD_MAX_MS: Final = 1_000
LOST_LEAD_MS: Final = 200
"""How long before its end a run says that it has to stop, so that a handler that checks can leave by itself."""

PROGRESS_EVERY_MS: Final = 250


class NotSavedError(RuntimeError):
    """A checkpoint was refused for good, for example since Kafka finds it too large. The run may go on."""


class LiveRun:
    """One run. Its methods may be called from any thread."""

    def __init__(self, begin: Begin, upstream: Upstream) -> None:
        """Take what the parent said, and the way back to it."""
        self.begin = begin
        self._upstream = upstream
        self._deadline_ms = begin.deadline_ms
        self._lead_ms = min(TIMEOUT_LEAD_MAX_MS, begin.spec.timeout_ms // 10)
        self._stop: Stop | None = None
        self._shield_ms = 0
        self._saves = 0
        self._answered = threading.Condition()
        self._answers: dict[int, str] = {}
        self._progress: tuple[float, str] | None = None
        self._progress_sent_ms = 0

    def info(self) -> RunInfo:
        """Return what is known of the run at its start."""
        begin, spec = self.begin, self.begin.spec
        return RunInfo(
            job_id=spec.job_id,
            tenant=spec.tenant,
            type=spec.type,
            queue=spec.queue,
            attempt=begin.attempt,
            max_attempts=begin.max_attempts,
            epoch=begin.epoch,
            checkpoint=begin.checkpoint,
            labels=spec.labels,
            nominal_at_ms=spec.run_at_ms,
        )

    # -- what the handler does ------------------------------------------------------------------------

    def save(self, data: bytes) -> None:
        """Wait until Kafka has the checkpoint. Raises `Stopped` if the run is over, `NotSavedError` if refused."""
        with self._answered:
            self._saves += 1
            number = self._saves
        self._upstream.send(Save(self.begin.run, number, data))
        with self._answered:
            self._answered.wait_for(lambda: number in self._answers)
            error = self._answers.pop(number)
        if error == RUN_IS_OVER:
            raise Stopped(self.stopping() or StopReason.LOST)
        if error:
            raise NotSavedError(error)

    def progress(self, fraction: float, note: str) -> None:
        """Keep progress; it is told a few times a second at most."""
        self._progress = (fraction, note)
        self.tell_progress()

    def stopping(self) -> str:
        """Return why the run has to end, or an empty string."""
        if self._stop is not None:
            return self._stop.reason
        now_ms = mono_ms()
        if now_ms >= self.begin.limit_ms - self._lead_ms:
            return StopReason.TIMEOUT
        return StopReason.LOST if now_ms >= self._deadline_ms - LOST_LEAD_MS else ""

    def remaining_s(self) -> float:
        """Return the seconds left until the run is ended."""
        return (self._ends_ms() - mono_ms()) / bounds.SECOND_MS

    def shield(self, seconds: float) -> None:
        """Ask not to be stopped for so long."""
        duration_ms = int(seconds * bounds.SECOND_MS)
        self._shield_ms = mono_ms() + duration_ms if duration_ms else 0
        self._upstream.send(Shield(self.begin.run, duration_ms))

    # -- what the parent says -----------------------------------------------------------------------------

    def on_stop(self, stop: Stop) -> None:
        """Take the request to leave."""
        self._stop = stop

    def on_extend(self, deadline_ms: int) -> None:
        """Take a later deadline."""
        self._deadline_ms = deadline_ms

    def on_saved(self, saved: Saved) -> None:
        """Wake up the `save` that waits for this."""
        with self._answered:
            self._answers[saved.number] = saved.error
            self._answered.notify_all()

    # -- what the child asks ------------------------------------------------------------------------------

    def tell_progress(self) -> None:
        """Send progress that was not told yet, unless the last was told just now."""
        now_ms = mono_ms()
        if self._progress is None or now_ms - self._progress_sent_ms < PROGRESS_EVERY_MS:
            return
        (fraction, note), self._progress = self._progress, None
        self._progress_sent_ms = now_ms
        self._upstream.send(Progress(self.begin.run, fraction, note))

    def cut_in_ms(self) -> int:
        """Return how long until an async run should be cancelled from inside, before it is killed from outside."""
        now_ms = mono_ms()
        cut_ms = min(self.begin.limit_ms - self._lead_ms, self._deadline_ms - LOST_LEAD_MS)
        if self._stop is not None:
            grace_over_ms = max(self._stop.until_ms - LOST_LEAD_MS, self._shield_ms)
            cut_ms = min(cut_ms, grace_over_ms)
        return cut_ms - now_ms

    def _ends_ms(self) -> int:
        ends_ms = min(self.begin.limit_ms, self._deadline_ms)
        if self._stop is not None:
            ends_ms = min(ends_ms, max(self._stop.until_ms, self._shield_ms))
        return ends_ms
