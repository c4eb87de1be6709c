"""A broker in memory with transactions: what is pending hides what follows, what was aborted is skipped."""

from collections.abc import Iterator

from scheduler.testing.memory_broker import MemoryBroker, Stored

Place = tuple[str, int]
"""Topic and partition."""


class FaultBroker(MemoryBroker):
    """Offsets are consumed by markers and aborted records too, as on a real broker."""

    def __init__(self, partitions: int) -> None:
        super().__init__(partitions)
        self._pending: dict[Place, dict[int, str]] = {}  # offsets of open transactions, by owner
        self._touched: dict[str, dict[Place, None]] = {}  # where each owner has something pending, in order
        self._since_ms: dict[str, int] = {}  # when each open transaction began
        self.timed_out: set[str] = set()  # owners whose transaction the coordinator has ended
        self._skipped: dict[Place, set[int]] = {}  # markers and aborted records

    def add_pending(self, owner: str, topic: str, partition: int, offset: int) -> None:
        self._pending.setdefault((topic, partition), {})[offset] = owner
        self._touched.setdefault(owner, {})[topic, partition] = None

    def begin_transaction(self, owner: str, at_ms: int) -> None:
        self._since_ms[owner] = at_ms

    def end_old_transactions(self, now_ms: int, after_ms: int = 10_000) -> None:
        """Abort what has been open for too long, as the coordinator does."""
        for owner in [owner for owner, since_ms in self._since_ms.items() if now_ms - since_ms >= after_ms]:
            self.end_transaction(owner, commit=False, at_ms=now_ms)
            self.timed_out.add(owner)

    def end_transaction(self, owner: str, *, commit: bool, at_ms: int) -> None:
        """Commit or abort whatever `owner` has open."""
        self._since_ms.pop(owner, None)
        for place in self._touched.pop(owner, ()):
            offsets = self._pending[place]
            mine = [offset for offset, whose in offsets.items() if whose == owner]
            for offset in mine:
                del offsets[offset]
            if not commit:
                self._skipped.setdefault(place, set()).update(mine)
            if mine:
                marker = self.append(*place, None, None, at_ms=at_ms)
                self._skipped.setdefault(place, set()).add(marker)

    def stable_end(self, topic: str, partition: int) -> int:
        """Return the offset up to which a read-committed reader gets."""
        pending = self._pending.get((topic, partition))
        return min(pending) if pending else len(self.log(topic, partition))

    def read(self, topic: str, partition: int, start: int) -> Iterator[tuple[int, Stored]]:
        """Go through the committed records from `start` on."""
        log = self.log(topic, partition)
        skipped = self._skipped.get((topic, partition), ())
        for offset in range(start, self.stable_end(topic, partition)):
            if offset not in skipped:
                yield offset, log[offset]

    def settled(self, topic: str, partition: int, before: int) -> Iterator[tuple[int, Stored]]:
        """Go through the committed records below `before`, also behind what somebody else has open."""
        for offset, stored in self.settled_from(topic, partition, 0):
            if offset >= before:
                return
            yield offset, stored

    def settled_from(self, topic: str, partition: int, start: int) -> Iterator[tuple[int, Stored]]:
        """Go through the committed records from `start` on, also behind what somebody else has open."""
        pending = self._pending.get((topic, partition), {})
        skipped = self._skipped.get((topic, partition), ())
        log = self.log(topic, partition)
        for offset in range(start, len(log)):
            if offset not in skipped and offset not in pending:
                yield offset, log[offset]

    def committed(self, topic: str) -> list[Stored]:
        """Return the committed records of all partitions of a topic."""
        places = [place for place in self._logs if place[0] == topic]
        return [stored for place in sorted(places) for _, stored in self.read(*place, 0)]
