"""What dispatchers send to the inboxes of workers, on `leases.<pool>`."""

from typing import Final

from scheduler.codec.family import Family
from scheduler.codec.record import RecordCodec
from scheduler.core import bounds
from scheduler.core.notices import Drain, Lease, Notice, Revoke

_OVERHEAD_BYTES: Final = 2 * bounds.KIB
_LONG_MAX: Final = (1 << 63) - 1
_INT_MAX: Final = (1 << 31) - 1
_REASON_MAX_BYTES: Final = 256

NOTICES: Final[Family[Notice]] = Family(
    {
        Lease: RecordCodec(
            "LeaseV1",
            Lease,
            max_bytes=bounds.SPEC_MAX_BYTES + bounds.CHECKPOINT_MAX_BYTES + _OVERHEAD_BYTES,
            limits={
                "job_id": bounds.JOB_ID_MAX_CHARS,
                "checkpoint": bounds.CHECKPOINT_MAX_BYTES,
                "spec": bounds.SPEC_MAX_BYTES,
            },
            ranges={
                "epoch": (0, _LONG_MAX),
                "attempt": (0, _INT_MAX),
                "offer": (0, _LONG_MAX),
                "lease_ms": (0, bounds.DAY_MS),
                "timeout_ms": (0, bounds.TIMEOUT_MAX_MS),
                "shard": (0, _INT_MAX),
                "max_attempts": (0, _INT_MAX),
            },
        ),
        Revoke: RecordCodec(
            "RevokeV1",
            Revoke,
            max_bytes=_OVERHEAD_BYTES,
            limits={"job_id": bounds.JOB_ID_MAX_CHARS, "reason": _REASON_MAX_BYTES},
            ranges={"epoch": (0, _LONG_MAX), "shard": (0, _INT_MAX)},
        ),
        Drain: RecordCodec("DrainV1", Drain, max_bytes=_OVERHEAD_BYTES, limits={"reason": _REASON_MAX_BYTES}),
    }
)

decode_notice = NOTICES.decode
encode_notice = NOTICES.encode
