"""A broker in memory for one dispatcher: partitions, append time, nothing else.

It has no isolation, fencing or transactional offsets: it serves tests of jobs, not tests of the log.
"""

from typing import NamedTuple

from scheduler.core.murmur2 import murmur2


class Stored(NamedTuple):
    """One record of a partition; its index is its offset."""

    at_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, str], ...]


class MemoryBroker:
    """Topics by name, without prefix."""

    def __init__(self, partitions: int) -> None:
        """Give every topic the same number of partitions; topics come into being when first used."""
        self.partitions = partitions
        self._logs: dict[tuple[str, int], list[Stored]] = {}
        self.appended = 0  # how many records there are, over all topics

    def log(self, topic: str, partition: int) -> list[Stored]:
        """Return a partition's records."""
        return self._logs.setdefault((topic, partition), [])

    def append(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        *,
        at_ms: int,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> int:
        """Append a record, to the partition of its key if `partition` is -1; return its offset."""
        if partition < 0:
            partition = (murmur2(key or b"") & 0x7FFFFFFF) % self.partitions
        log = self.log(topic, partition)
        log.append(Stored(at_ms, key, value, headers))
        self.appended += 1
        return len(log) - 1

    def all(self, topic: str) -> list[Stored]:
        """Return the records of all partitions of a topic, in no particular order."""
        return [record for (name, _), log in self._logs.items() if name == topic for record in log]
