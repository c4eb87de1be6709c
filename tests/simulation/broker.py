"""The broker of a simulated world: what others write is heard of at once, old records go, changelogs are compacted.

The lists of records stay whole, so that checks see the full history; `read` shows what a client can still read.
"""

from collections.abc import Callable, Iterator

from scheduler.testing.memory_broker import Stored
from tests.dispatcher.fault_broker import FaultBroker, Place

Committed = dict[Place, list[tuple[int, Stored]]]
"""The records of one transaction, with their offsets."""

NOT_CLEANED_MS = 45_000  # what is younger is left alone by the cleaner: the active segment


class SimulatedBroker(FaultBroker):
    """`heard` is called with each place where something new can be read, `committed` with each transaction."""

    def __init__(
        self, partitions: int, heard: Callable[[str, int], None], committed: Callable[[str, Committed], None]
    ) -> None:
        super().__init__(partitions)
        self._heard = heard
        self._on_committed = committed
        self._transactions: dict[str, int] = {}
        self._starts: dict[Place, int] = {}
        self._cleaned: dict[Place, set[int]] = {}
        self._tombstones: dict[Place, dict[int, int]] = {}  # when each was first seen by the cleaner
        self._clean_to: dict[Place, int] = {}
        self._latest: dict[Place, dict[bytes, int]] = {}

    # -- writing -----------------------------------------------------------------------------------

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
        offset = super().append(topic, partition, key, value, at_ms=at_ms, headers=headers)
        self._heard(topic, partition)
        return offset

    def begin_transaction(self, owner: str, at_ms: int) -> None:
        super().begin_transaction(owner, at_ms)
        self._transactions[owner] = self._transactions.get(owner, 0) + 1

    def transaction_of(self, owner: str) -> int:
        """Return the number of the owner's open or last transaction."""
        return self._transactions.get(owner, 0)

    def is_open(self, owner: str, transaction: int) -> bool:
        return owner in self._since_ms and self._transactions.get(owner) == transaction

    def open_transactions(self) -> list[str]:
        return list(self._since_ms)

    def end_transaction(self, owner: str, *, commit: bool, at_ms: int) -> None:
        ended: Committed = {}
        for place in self._touched.get(owner, ()):
            log = self.log(*place)
            mine = [offset for offset, whose in self._pending[place].items() if whose == owner]
            ended[place] = [(offset, log[offset]) for offset in mine]
        super().end_transaction(owner, commit=commit, at_ms=at_ms)
        if commit and ended:
            self._on_committed(owner, ended)

    # -- reading -----------------------------------------------------------------------------------

    def start(self, topic: str, partition: int) -> int:
        """Return the first offset that is still there."""
        return self._starts.get((topic, partition), 0)

    def read(self, topic: str, partition: int, start: int) -> Iterator[tuple[int, Stored]]:
        cleaned = self._cleaned.get((topic, partition), ())
        for offset, stored in super().read(topic, partition, start):
            if offset not in cleaned:
                yield offset, stored

    # -- what goes ---------------------------------------------------------------------------------

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        self._starts[topic, partition] = max(offset, self.start(topic, partition))

    def expire(self, topic: str, before_ms: int) -> None:
        """Delete what was appended before a time."""
        for place, log in self._logs.items():
            if place[0] == topic:
                start = self.start(*place)
                while start < len(log) and log[start].at_ms < before_ms:
                    start += 1
                self._starts[place] = start

    def compact(self, now_ms: int, delete_retention_ms: int) -> None:
        """Clean every changelog: superseded records go, and deletions that were seen long enough ago."""
        for shard in range(self.partitions):
            self._compact(("changelog", shard), now_ms, delete_retention_ms)

    def clean_to(self, shard: int) -> int:
        """Return up to where a changelog is compacted."""
        return self._clean_to.get(("changelog", shard), 0)

    def _compact(self, place: Place, now_ms: int, delete_retention_ms: int) -> None:
        cleaned, skipped = self._cleaned.setdefault(place, set()), self._skipped.get(place, ())
        tombstones, latest = self._tombstones.setdefault(place, {}), self._latest.setdefault(place, {})
        log, begin = self.log(*place), self._clean_to.get(place, 0)
        end, stable_end = begin, self.stable_end(*place)
        while end < stable_end and log[end].at_ms < now_ms - NOT_CLEANED_MS:
            end += 1
        for offset in range(begin, end):
            if offset in skipped:
                continue
            key = log[offset].key or b""
            if key in latest:
                cleaned.add(latest[key])
                tombstones.pop(latest[key], None)
            latest[key] = offset
            if log[offset].value is None:
                tombstones[offset] = now_ms
        self._clean_to[place] = end
        gone = [at for at, seen_ms in tombstones.items() if now_ms - seen_ms >= delete_retention_ms]
        for offset in gone:
            cleaned.add(offset)
            del tombstones[offset]
