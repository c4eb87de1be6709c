"""Job ids and the shard that a job lives in: part of the wire contract, the same in every language."""

import uuid
from struct import unpack_from
from typing import Final

# UUIDv5(DNS namespace, "kafka-scheduler") = 96d8e945-131f-5de8-a0f0-20d52aa2e16d
ROOT: Final = uuid.uuid5(uuid.NAMESPACE_DNS, "kafka-scheduler")

_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


def id_from_key(tenant: str, key: str) -> str:
    """Return the id of the job that `tenant` submits under the idempotency key `key`."""
    return str(uuid.uuid5(uuid.uuid5(ROOT, f"tenant:{tenant}"), key))


def id_from_coordinates(topic: str, partition: int, offset: int) -> str:
    """Return the id of a job submitted without one; its producer can compute it from the receipt."""
    return str(uuid.uuid5(ROOT, f"{topic}/{partition}/{offset}"))


def murmur2(data: bytes) -> int:
    """Return Kafka's 32-bit murmur2 of `data`, unsigned (`org.apache.kafka.common.utils.Utils.murmur2`)."""
    length = len(data)
    h = (0x9747B28C ^ length) & _MASK
    words = length >> 2
    for k in unpack_from(f"<{words}I", data):
        k = k * _M & _MASK  # noqa: PLW2901 - the mixing steps of one word
        h = (h * _M & _MASK) ^ ((k ^ (k >> 24)) * _M & _MASK)
    rest = data[words << 2 :]
    if rest:
        h = (h ^ int.from_bytes(rest, "little")) * _M & _MASK
    h = (h ^ (h >> 13)) * _M & _MASK
    return h ^ (h >> 15)


def shard_of(job_id: str, shards: int) -> int:
    """Return the shard, which is the partition, of a job id among `shards`."""
    return (murmur2(job_id.encode()) & 0x7FFFFFFF) % shards
