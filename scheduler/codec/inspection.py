"""What became of records on a submit topic, for their authors: good, in the wrong partition, or refused."""

import zlib
from enum import Enum, auto
from typing import Final

import msgspec

from scheduler.codec.errors import Refused
from scheduler.codec.job import decode_job, identify
from scheduler.core import keys
from scheduler.core.settings import Settings
from scheduler.core.validation import check


class Outcome(Enum):
    """How a record was found."""

    GOOD = auto()
    WRONG_PARTITION = auto()  # forwarded to its home, at some cost
    REFUSED = auto()


class Finding(msgspec.Struct, frozen=True):
    """One record looked at. `tenant` is empty if it can't be read; `detail` says what is wrong, or the job's id."""

    outcome: Outcome
    detail: str
    tenant: str = ""


class Place(msgspec.Struct, frozen=True):
    """Where a record lies; `topic` is the full name, `partitions` how many that has."""

    topic: str
    partition: int
    offset: int
    partitions: int


def inspect_record(key: bytes | None, value: bytes | None, place: Place, settings: Settings) -> Finding:
    """Return what a dispatcher with these queue settings makes of one record."""
    try:
        spec = decode_job(value)
    except Refused as refused:
        return Finding(Outcome.REFUSED, f"{refused.reason}: {refused.detail}")
    try:
        check(spec, settings.queue(spec.queue))
    except Refused as refused:
        return Finding(Outcome.REFUSED, refused.detail, spec.tenant)
    job_id = identify(spec, place.topic, place.partition, place.offset)
    home = keys.shard_of(job_id, place.partitions)
    if home != place.partition and spec.job_id:
        return Finding(Outcome.WRONG_PARTITION, _why_elsewhere(key, spec.job_id, place), spec.tenant)
    return Finding(Outcome.GOOD, job_id, spec.tenant)


def _why_elsewhere(key: bytes | None, job_id: str, place: Place) -> str:
    """Guess how a producer came to choose the partition."""
    if not key:
        return "no key: the key must be the job id as UTF-8 text"
    if key != job_id.encode():
        return "the key is not the job id as UTF-8 text"
    if zlib.crc32(key) % place.partitions == place.partition:
        return "key hashed with CRC32? set partitioner=murmur2_random"
    if _fnv_1a(key) % place.partitions == place.partition:
        return "key hashed with FNV-1a? use a murmur2 partitioner"
    return "key not hashed with murmur2"


_FNV_OFFSET: Final = 0x811C9DC5
_FNV_PRIME: Final = 0x01000193


def _fnv_1a(data: bytes) -> int:
    """Return the 32-bit FNV-1a hash as sarama's default partitioner uses it: absolute value of a signed number."""
    found = _FNV_OFFSET
    for byte in data:
        found = (found ^ byte) * _FNV_PRIME & 0xFFFFFFFF
    return abs(found - (1 << 32) if found >> 31 else found)
