"""Job ids and the shard that a job lives in: part of the wire contract, the same in every language."""

import uuid
from typing import Final

from scheduler.core.murmur2 import UUID_BYTES, murmur2, murmur2_of_uuid

# UUIDv5(DNS namespace, "kafka-scheduler") = 96d8e945-131f-5de8-a0f0-20d52aa2e16d
ROOT: Final = uuid.uuid5(uuid.NAMESPACE_DNS, "kafka-scheduler")


def id_from_key(tenant: str, key: str) -> str:
    """Return the id of the job that `tenant` submits under the idempotency key `key`."""
    return str(uuid.uuid5(uuid.uuid5(ROOT, f"tenant:{tenant}"), key))


def id_from_coordinates(topic: str, partition: int, offset: int) -> str:
    """Return the id of a job submitted without one; its producer can compute it from the receipt."""
    return str(uuid.uuid5(ROOT, f"{topic}/{partition}/{offset}"))


def shard_of(job_id: str, shards: int) -> int:
    """Return the shard, which is the partition, of a job id among `shards`."""
    key = job_id.encode()
    hashed = murmur2_of_uuid(key) if len(key) == UUID_BYTES else murmur2(key)
    return (hashed & 0x7FFFFFFF) % shards
