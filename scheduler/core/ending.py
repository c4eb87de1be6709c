"""Every way a job comes to its end, and what is kept of it then."""

import msgspec

from scheduler.core.history import error_of
from scheduler.core.job import (
    CANCELLED,
    EXPIRED,
    FAILED,
    NO_HISTORY,
    SUCCEEDED,
    End,
    ErrorInfo,
    JobState,
    Phase,
    move,
)
from scheduler.core.moment import Moment
from scheduler.core.outputs import DeadLetter, DeathReason, Lifecycle
from scheduler.core.shard import Shard
from scheduler.core.spec import BAND_NAMES


def succeed(shard: Shard, moment: Moment, state: JobState, *, result: bytes, result_omitted: str) -> None:
    """End a job well; its record goes."""
    keep_ms = shard.fleet.settings.queue(state.admitted.queue).keep_succeeded_ms
    end = End(moment.now_ms, moment.now_ms + keep_ms, result=result, result_omitted=result_omitted)
    _end(shard, moment, state, SUCCEEDED, end)
    shard.drop_spec(state.job_id)


def cancel(
    shard: Shard, moment: Moment, state: JobState, reason: str, error: ErrorInfo | None = None
) -> None:
    """End a job as cancelled; its record goes."""
    keep_ms = shard.fleet.settings.queue(state.admitted.queue).keep_cancelled_ms
    _end(shard, moment, state, CANCELLED, End(moment.now_ms, moment.now_ms + keep_ms, reason, error))
    shard.drop_spec(state.job_id)


def expire(shard: Shard, moment: Moment, state: JobState) -> None:
    """End a job whose time to run is over before it began; its record goes."""
    keep_ms = shard.fleet.settings.queue(state.admitted.queue).keep_cancelled_ms
    _end(shard, moment, state, EXPIRED, End(moment.now_ms, moment.now_ms + keep_ms, "expired"))
    shard.drop_spec(state.job_id)


def dead_letter(shard: Shard, moment: Moment, state: JobState, reason: DeathReason) -> None:
    """End a job as failed; its record stays as long as its state, and goes to the dead-letter topic as it came."""
    keep_ms = shard.fleet.settings.queue(state.admitted.queue).keep_failed_ms
    error = error_of(state.history)
    _end(shard, moment, state, FAILED, End(moment.now_ms, moment.now_ms + keep_ms, reason, error))
    shard.changes.counts["dead_lettered", reason] += 1
    raw = shard.raw_spec(state.job_id) or b""
    headers = _headers(shard, state, reason, error or ErrorInfo())
    shard.changes.outputs.append(DeadLetter(state.job_id.encode(), raw, headers))


def shrink(state: JobState, until_ms: int) -> JobState:
    """Return the stub that holds a finished job's idempotency key: its state, digest and end."""
    end = state.end
    if end is None:
        raise AssertionError(f"{state.job_id}: only ended jobs shrink")
    return msgspec.structs.replace(
        state,
        end=End(end.at_ms, until_ms, end.reason, stub=True),
        grant=None,
        history=NO_HISTORY,
        checkpoint=b"",
        admitted=msgspec.structs.replace(state.admitted, labels={}),
    )


def lifecycle(
    shard: Shard, moment: Moment, state: JobState, event: str, *, reason: str = "", source: str = ""
) -> None:
    """Tell the outside about a job."""
    shard.changes.outputs.append(
        Lifecycle(
            moment.now_ms,
            state.job_id,
            state.admitted.tenant,
            state.admitted.queue,
            state.admitted.type,
            event,
            reason,
            state.epoch,
            state.history.attempt,
            shard.number,
            state.admitted.offset,
            source,
        )
    )


def _end(shard: Shard, moment: Moment, state: JobState, phase: Phase, end: End) -> None:
    ended = move(
        state,
        phase,
        end=end,
        due_ms=0,
        tier=0,
        checkpoint=b"" if phase is SUCCEEDED else state.checkpoint,
    )
    shard.put(ended)
    shard.changes.counts["finished", BAND_NAMES[state.admitted.band], state.admitted.queue, phase] += 1
    lifecycle(shard, moment, ended, phase, reason=end.reason)


def _headers(
    shard: Shard, state: JobState, reason: DeathReason, error: ErrorInfo
) -> tuple[tuple[str, str], ...]:
    history = state.history
    last = history.attempts[-1] if history.attempts else None
    return (
        ("reason", reason),
        ("job_id", state.job_id),
        ("tenant", state.admitted.tenant),
        ("queue", state.admitted.queue),
        ("type", state.admitted.type),
        ("band", BAND_NAMES[state.admitted.band]),
        ("attempts", f"{history.attempt}/{state.admitted.max_attempts}"),
        ("losses", str(history.losses)),
        ("undelivered", str(history.undelivered)),
        ("epoch", str(state.epoch)),
        ("error_class", error.error_class),
        ("error_message", error.message),
        ("error_frames", "\n".join(error.frames)),
        ("worker", last.worker if last else ""),
        ("release", last.release if last else ""),
        ("source_shard", str(shard.number)),
        ("source_offset", str(state.admitted.offset)),
    )
