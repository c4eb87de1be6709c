"""Outcomes within the bounds of reports, whatever a child says: user code runs there and can write to its socket."""

from typing import Final

from scheduler.core import bounds
from scheduler.core.job import ErrorInfo
from scheduler.core.reports import Emit, Verdict
from scheduler.worker.actions import Failed, Outcome, Snoozed, Succeeded

OMITTED_MAX_BYTES: Final = 512
TOPIC_MAX_CHARS: Final = 249  # Kafka's bound
BAND_MAX: Final = 2


def cut(text: str, longest_bytes: int) -> str:
    """Return `text` shortened to `longest_bytes` of UTF-8, at a character boundary."""
    data = text[:longest_bytes].encode(errors="replace")
    return data[:longest_bytes].decode(errors="ignore")


def fitted(outcome: Outcome) -> Outcome:
    """Return the outcome as a report can hold it; emits that are too many or too large fail the job."""
    if isinstance(outcome, Succeeded):
        why = _unfit(outcome.emits)
        return Failed(Verdict.FAIL, ErrorInfo("EmitsTooLarge", why)) if why else _succeeded(outcome)
    if isinstance(outcome, Failed):
        delay_ms = min(max(outcome.retry_after_ms, -1), bounds.DELAY_MAX_MS)
        return Failed(outcome.verdict, fitted_error(outcome.error), delay_ms)
    if isinstance(outcome, Snoozed):
        return Snoozed(min(max(outcome.delay_ms, 0), bounds.DELAY_MAX_MS))
    return outcome


def fitted_error(error: ErrorInfo) -> ErrorInfo:
    """Return `error` within `bounds.ERROR_MAX_BYTES` together; the innermost frames stay."""
    kind = cut(error.error_class, bounds.ERROR_CLASS_MAX_BYTES)
    frames = tuple(cut(frame, bounds.FRAME_MAX_BYTES) for frame in error.frames[-bounds.ERROR_FRAMES_MAX :])
    used = len(kind.encode()) + sum(len(frame.encode()) for frame in frames)
    return ErrorInfo(kind, cut(error.message, bounds.ERROR_MAX_BYTES - used), frames)


def _succeeded(outcome: Succeeded) -> Succeeded:
    size = len(outcome.result)
    if size > bounds.RESULT_MAX_BYTES:
        return Succeeded(b"", f"{size} bytes are above {bounds.RESULT_MAX_BYTES}", outcome.emits)
    return Succeeded(outcome.result, cut(outcome.omitted, OMITTED_MAX_BYTES), outcome.emits)


def _unfit(emits: tuple[Emit, ...]) -> str:
    if len(emits) > bounds.EMITS_MAX:
        return f"{len(emits)} emits are above {bounds.EMITS_MAX}"
    size = sum(len(emit.topic) + len(emit.key) + len(emit.value) for emit in emits)
    if size > bounds.EMITS_MAX_BYTES:
        return f"emits of {size} bytes are above {bounds.EMITS_MAX_BYTES} together"
    if any(len(emit.topic) > TOPIC_MAX_CHARS or not 0 <= emit.band <= BAND_MAX for emit in emits):
        return "an emit names no topic that can be"
    return ""
