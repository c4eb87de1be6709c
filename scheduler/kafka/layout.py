"""Every topic of an installation, as data: names, partition counts, settings and why they are so."""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from scheduler.core import bounds
from scheduler.core.inputs import TOPIC_OF

MINUTE_MS: Final = bounds.MINUTE_MS
DAY_MS: Final = bounds.DAY_MS
MIB: Final = bounds.MIB

DEFAULT_PREFIX: Final = "jobs."
CHANGELOG: Final = "changelog"
LEASES: Final = "leases."
"""Lease topics are `leases.<pool>`."""

COORDINATOR_LOG: Final = "__transaction_state"
"""Kafka's own topic about transactions. It has no prefix."""

SHARED: Final = (*TOPIC_OF.values(), CHANGELOG)
"""Topics with one partition per shard; partition p of each belongs to the owner of shard p."""

WHOLE_JOB_BYTES: Final = 2 * MIB
"""What a topic must take that holds whole jobs or states: a spec of 384 KiB, a result, a checkpoint, and for
`dlq` the original bytes of any submitted record with its reasons in headers."""

SUBMIT_BYTES: Final = 1_048_588
"""Kafka's own default. Smaller than what `dlq` takes, so that every record that got in can be dead-lettered."""

DLQ_PARTITIONS: Final = 8

_POOL: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")
_PREFIX: Final = re.compile(r"[A-Za-z0-9._-]{0,100}")


class Topic(msgspec.Struct, frozen=True):
    """One topic; `name` without prefix. `counted`: another partition count would break the system."""

    name: str
    partitions: int
    configs: dict[str, str]
    counted: bool = False
    needed_bytes: int = 0  # a smaller `max.message.bytes` would break the system


class Layout(msgspec.Struct, frozen=True):
    """What an installation is made from. `shards` can't be changed later; `leases` is partitions by pool.

    Raises `ValueError` for names that Kafka would not take and for counts below one.
    """

    shards: int
    leases: Mapping[str, int]
    replication_factor: int = 1
    prefix: str = DEFAULT_PREFIX

    def __post_init__(self) -> None:
        """Check names and counts."""
        for what, count in (("shards", self.shards), ("replication factor", self.replication_factor)):
            if count < 1:
                raise ValueError(f"{what} must be at least 1, got {count}")
        for pool, count in self.leases.items():
            if count < 1:
                raise ValueError(f"pool '{pool}' needs at least 1 partition, got {count}")
            if not _POOL.fullmatch(pool):
                raise ValueError(
                    f"pool '{pool}' may have letters, digits, '.', '_' and '-', 1 to 100 of them"
                )
        if not _PREFIX.fullmatch(self.prefix):
            raise ValueError(
                f"prefix '{self.prefix}' may have letters, digits, '.', '_' and '-', at most 100"
            )

    def topics(self) -> tuple[Topic, ...]:
        """Return every topic, the shared ones first."""
        return (
            *(self._shared(name) for name in TOPIC_OF.values()),
            self._made(CHANGELOG, self.shards, _CHANGELOG, counted=True, needed_bytes=WHOLE_JOB_BYTES),
            *(self._leases(pool, count) for pool, count in self.leases.items()),
            self._made("dlq", DLQ_PARTITIONS, _deleted(30 * DAY_MS), needed_bytes=WHOLE_JOB_BYTES),
            self._made("lifecycle", self.shards, _deleted(3 * DAY_MS)),
            self._made("settings", 1, _COMPACTED, counted=True),
            self._made("beacon", 1, _SHORT_LIVED, counted=True),
            self._made("audit", 1, _deleted(365 * DAY_MS), counted=True),
        )

    def _shared(self, name: str) -> Topic:
        """Return an input of the shards."""
        needed = SUBMIT_BYTES if name.startswith("submit.") else 0
        return self._made(name, self.shards, _UNTIL_CONSUMED, counted=True, needed_bytes=needed)

    def _leases(self, pool: str, count: int) -> Topic:
        return self._made(LEASES + pool, count, _SHORT_LIVED, needed_bytes=WHOLE_JOB_BYTES)

    def _made(
        self,
        name: str,
        partitions: int,
        configs: dict[str, str],
        *,
        counted: bool = False,
        needed_bytes: int = 0,
    ) -> Topic:
        size = SUBMIT_BYTES if name.startswith("submit.") else WHOLE_JOB_BYTES
        complete = {
            **configs,
            **_COMMON,
            "max.message.bytes": str(size),
            "min.insync.replicas": str(min_insync_replicas(self.replication_factor)),
        }
        return Topic(name, partitions, complete, counted, needed_bytes)


def min_insync_replicas(replication_factor: int) -> int:
    """Return one less than the replicas, so that one broker may be away; 1 for a single copy."""
    return max(1, replication_factor - 1)


_COMMON: Final = {
    # Retention, the order of jobs and the retry delays go by when the broker got a record, never by job data.
    "message.timestamp.type": "LogAppendTime",
    "unclean.leader.election.enable": "false",
}


def _deleted(retention_ms: int) -> dict[str, str]:
    return {"cleanup.policy": "delete", "retention.ms": str(retention_ms), "retention.bytes": "-1"}


_UNTIL_CONSUMED: Final = {
    # A backlog may wait for weeks; the owner deletes what it has consumed.
    **_deleted(-1),
    # Deleted prefixes free the disk by whole segments.
    "segment.bytes": str(128 * MIB),
}
_SHORT_LIVED: Final = {
    **_deleted(10 * MINUTE_MS),
    "segment.bytes": str(16 * MIB),
    "segment.ms": str(10 * MINUTE_MS),
}
_COMPACTED: Final = {"cleanup.policy": "compact"}
_CHANGELOG: Final = {
    **_COMPACTED,
    # The active segment is never cleaned, and restores read it whole.
    "segment.bytes": str(64 * MIB),
    "min.cleanable.dirty.ratio": "0.1",
    # A local store older than half of this is wiped: tombstones behind it may be gone.
    "delete.retention.ms": str(DAY_MS),
}
