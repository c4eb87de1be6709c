"""Numbers in a lease that would overflow a worker's clocks and tables are refused where they are read."""

import msgspec
import pytest

from scheduler.codec.errors import Refused
from scheduler.codec.notices import decode_notice, encode_notice
from scheduler.core import bounds
from scheduler.core.notices import Drain, Lease, Revoke

BOOT_ID = b"b" * 16
LEASE = Lease(BOOT_ID, "j", 1, b"t" * 16, 1, 1, 20_000, 300_000, 1, False, 5, b"", b"")
LONG_MAX = (1 << 63) - 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("epoch", -1),
        ("attempt", -1),
        ("offer", -1),
        ("lease_ms", -1),
        ("lease_ms", LONG_MAX),
        ("timeout_ms", -1),
        ("timeout_ms", LONG_MAX),
        ("shard", -1),
        ("max_attempts", -1),
        ("job_id", "x" * (bounds.JOB_ID_MAX_CHARS + 1)),
        ("checkpoint", b"x" * (bounds.CHECKPOINT_MAX_BYTES + 1)),
    ],
)
def test_a_lease_out_of_bounds_is_refused(field: str, value: object) -> None:
    with pytest.raises(Refused, match=f"/{field}: "):
        decode_notice(encode_notice(msgspec.structs.replace(LEASE, **{field: value})))


@pytest.mark.parametrize(
    "notice",
    [
        Revoke(BOOT_ID, "j", -1, b"t" * 16, 1, "cancel"),
        Revoke(BOOT_ID, "j", 1, b"t" * 16, -1, "cancel"),
        Revoke(BOOT_ID, "j", 1, b"t" * 16, 1, "x" * 1_000),
        Drain(BOOT_ID, "x" * 1_000),
    ],
)
def test_a_notice_out_of_bounds_is_refused(notice: Revoke | Drain) -> None:
    with pytest.raises(Refused):
        decode_notice(encode_notice(notice))


def test_the_largest_lease_is_read() -> None:
    spec = b"x" * bounds.SPEC_MAX_BYTES
    checkpoint = b"x" * bounds.CHECKPOINT_MAX_BYTES
    largest = msgspec.structs.replace(
        LEASE, job_id="x" * 64, epoch=LONG_MAX, spec=spec, checkpoint=checkpoint
    )
    assert decode_notice(encode_notice(largest)) == largest
