"""What dispatchers send to the inboxes of workers, on `leases.<pool>`."""

from typing import Final

from scheduler.codec.family import Family
from scheduler.codec.record import RecordCodec
from scheduler.core import bounds
from scheduler.core.notices import Drain, Lease, Notice, Revoke

_OVERHEAD_BYTES: Final = 2 * bounds.KIB

NOTICES: Final[Family[Notice]] = Family(
    {
        Lease: RecordCodec(
            "LeaseV1", Lease, max_bytes=bounds.SPEC_MAX_BYTES + bounds.CHECKPOINT_MAX_BYTES + _OVERHEAD_BYTES
        ),
        Revoke: RecordCodec("RevokeV1", Revoke, max_bytes=_OVERHEAD_BYTES),
        Drain: RecordCodec("DrainV1", Drain, max_bytes=_OVERHEAD_BYTES),
    }
)

decode_notice = NOTICES.decode
encode_notice = NOTICES.encode
