"""What a client asked for: the decoded, immutable job record."""

from enum import IntEnum, StrEnum
from typing import Final

import msgspec


class Band(IntEnum):
    """The urgency of a submit topic; the topic decides the band, never the record."""

    INTERACTIVE = 0
    DEFAULT = 1
    BULK = 2


BANDS: Final = tuple(Band)
BAND_NAMES: Final = tuple(band.name.lower() for band in Band)
"""By number; the same words as topics and metrics use."""


class OnParentFailure(StrEnum):
    """What becomes of a job when a parent fails for good."""

    CANCEL = "cancel"
    RUN = "run"


class Backoff(msgspec.Struct, frozen=True, gc=False):
    """Exponential delays between attempts: full jitter over `base_ms * factor ** n`, at most `max_ms`."""

    base_ms: int = 5_000
    factor: float = 2.0
    max_ms: int = 3_600_000


class JobSpec(msgspec.Struct, frozen=True, gc=False):
    """One job record as published on a submit topic. Times are Unix milliseconds; 0 means not set."""

    job_id: str
    tenant: str
    queue: str
    type: str
    payload: bytes
    content_type: str = "application/json"
    priority: int = 3
    run_at_ms: int = 0
    expires_at_ms: int = 0
    max_attempts: int = 5
    timeout_ms: int = 300_000
    backoff: Backoff = Backoff()
    idempotency_key: str | None = None
    after: tuple[str, ...] = ()
    on_parent_failure: OnParentFailure = OnParentFailure.CANCEL
    labels: dict[str, str] = {}
