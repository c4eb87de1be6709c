"""What a test sees of its jobs: plain values, made when they are asked for."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

import msgspec

from scheduler.client.payloads import is_json
from scheduler.client.reference import JobRef
from scheduler.core.job import ErrorInfo
from scheduler.core.spec import JobSpec

RunOutcome = Literal[
    "running", "succeeded", "failed", "timeout", "snoozed", "cancelled", "out_of_memory", "released", "lost"
]

_NAMED: Final[dict[int, str]] = {0: "interactive", 3: "default", 7: "bulk"}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job as it was submitted: by the test, by a handler, or by a completion that emitted it.

    `arguments` are the JSON payload decoded, None for other content types. `priority` is the name if it has one.
    `delay` is how long after `at` it may start, zero if at once. Times are virtual and in UTC.
    """

    ref: JobRef[Any]
    type: str
    arguments: Any
    queue: str
    tenant: str
    priority: str | int
    delay: timedelta
    run_at: datetime | None
    expires_at: datetime | None
    max_attempts: int
    timeout: timedelta
    labels: Mapping[str, str]
    idempotency_key: str | None
    at: datetime
    content_type: str = field(repr=False)
    payload: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class JobRun:
    """One run of a job: one call of its handler, or a worker that died before it could call it.

    `checkpoint` is what it started from, None for nothing. `outcome` is `failed` for every exception, `Retry` and
    `Fail`; `lost` if its worker died: then nothing is reported and the lease has to expire. `error` is
    `class: message`, empty if there is none. `progress` is the last that it told. Times are virtual and in UTC.
    """

    attempt: int
    epoch: int
    checkpoint: Any
    outcome: RunOutcome
    started_at: datetime
    ended_at: datetime | None
    worker: str
    error: str
    progress: tuple[float, str] | None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record on the dead-letter topic.

    `reason` is `attempts_exhausted`, `failed`, `lost`, `undeliverable`, `emit_refused`, or `quarantined` for a record
    that could not be admitted; `error` is then why, else `class: message` of the last run.
    """

    reason: str
    job: JobRef[Any]
    type: str
    attempts: int
    error: str


def submitted_of(ref: JobRef[Any], spec: JobSpec, at_ms: int) -> Submitted:
    """Return how a job record reads to a test."""
    waits_ms = max(0, spec.run_at_ms - at_ms) if spec.run_at_ms else 0
    return Submitted(
        ref=ref,
        type=spec.type,
        arguments=msgspec.json.decode(spec.payload) if is_json(spec.content_type) else None,
        queue=spec.queue,
        tenant=spec.tenant,
        priority=_NAMED.get(spec.priority, spec.priority),
        delay=timedelta(milliseconds=waits_ms),
        run_at=_time_or_none(spec.run_at_ms),
        expires_at=_time_or_none(spec.expires_at_ms),
        max_attempts=spec.max_attempts,
        timeout=timedelta(milliseconds=spec.timeout_ms),
        labels=dict(spec.labels),
        idempotency_key=spec.idempotency_key,
        at=time_of(at_ms),
        content_type=spec.content_type,
        payload=spec.payload,
    )


def dead_letter_of(ref: JobRef[Any], headers: Mapping[str, str]) -> DeadLetter:
    """Return how the headers of a dead letter read to a test."""
    if headers["reason"] == "quarantined":
        error = ": ".join(filter(None, (headers["refusal"], headers["detail"])))
        return DeadLetter("quarantined", ref, "", 0, error)
    used, _, _ = headers["attempts"].partition("/")
    told = ErrorInfo(headers["error_class"], headers["error_message"])
    return DeadLetter(str(headers["reason"]), ref, headers["type"], int(used), error_text(told))


def error_text(error: ErrorInfo | None) -> str:
    """Return `class: message`, as far as they are known."""
    return ": ".join(filter(None, (error.error_class, error.message))) if error is not None else ""


def time_of(wall_ms: int) -> datetime:
    """Return a point in time in UTC."""
    return _EPOCH + timedelta(milliseconds=wall_ms)


def _time_or_none(wall_ms: int) -> datetime | None:
    return time_of(wall_ms) if wall_ms else None
