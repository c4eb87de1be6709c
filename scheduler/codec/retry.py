"""What waits in the retry topics."""

from typing import Final

from scheduler.codec.family import Family
from scheduler.codec.record import RecordCodec
from scheduler.core import bounds
from scheduler.core.outputs import RetryRecord

RETRIES: Final[Family[RetryRecord]] = Family(
    {
        RetryRecord: RecordCodec(
            "RetryV1",
            RetryRecord,
            max_bytes=bounds.KIB,
            limits={"job_id": bounds.JOB_ID_MAX_CHARS},
            ranges={"due_ms": (0, (1 << 63) - 1)},
        ),
    }
)

decode_retry = RETRIES.decode
encode_retry = RETRIES.encode
