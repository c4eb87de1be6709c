"""What authors of records are told about them."""

import zlib

import msgspec
import pytest

from scheduler.codec.inspection import Outcome, Place, inspect_record
from scheduler.codec.job import encode_job
from scheduler.core import keys
from scheduler.core.settings import Settings
from tests.codec.golden import FULL, PLAIN

SHARDS = 32


def inspect(spec, key=None, partition: int | None = None):
    home = keys.shard_of(spec.job_id, SHARDS) if partition is None else partition
    key = spec.job_id.encode() if key is None else key
    return inspect_record(key, encode_job(spec), Place("jobs.submit.default", home, 7, SHARDS), Settings())


def named(job_id: str):
    return msgspec.structs.replace(PLAIN, job_id=job_id)


def test_good_records():
    assert (inspect(PLAIN).outcome, inspect(PLAIN).tenant) == (Outcome.GOOD, "shop")
    assert inspect(FULL).outcome is Outcome.GOOD


def test_a_record_without_id_is_good_anywhere():
    finding = inspect(named(""), b"", 5)
    assert (finding.outcome, finding.detail) == (
        Outcome.GOOD,
        keys.id_from_coordinates("jobs.submit.default", 5, 7),
    )


@pytest.mark.parametrize(
    ("key", "partition", "said"),
    [
        (
            b"order-17",
            zlib.crc32(b"order-17") % SHARDS,
            "key hashed with CRC32? set partitioner=murmur2_random",
        ),
        (b"", 1, "no key: the key must be the job id as UTF-8 text"),
        (b"17", 1, "the key is not the job id as UTF-8 text"),
    ],
)
def test_wrong_partitions(key, partition, said):
    assert keys.shard_of("order-17", SHARDS) != partition
    finding = inspect(named("order-17"), key, partition)
    assert (finding.outcome, finding.detail) == (Outcome.WRONG_PARTITION, said)


def test_refused_records():
    finding = inspect(msgspec.structs.replace(PLAIN, timeout_ms=86_400_000))
    assert (finding.outcome, finding.detail) == (
        Outcome.REFUSED,
        "/timeout_ms 86400000 above the limit 3600000",
    )
    unread = inspect_record(b"k", b"{}", Place("t", 0, 0, 1), Settings())
    assert (unread.outcome, unread.tenant) == (Outcome.REFUSED, "")
    assert unread.detail.startswith("framing: does not begin with C3 01")
