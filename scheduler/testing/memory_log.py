"""The dispatcher's `Log` and `Changelog` over a broker in memory."""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from scheduler.core.inputs import TOPIC_OF, Input
from scheduler.dispatcher.ports import Budget, Outgoing, Polled, Record, Restored
from scheduler.testing.memory_broker import MemoryBroker

FOREIGN: Final = "foreign:"
"""What begins the names of the users' own topics in the broker: they may be called as ours are without prefix."""


class MemoryLog:
    """One dispatcher that owns all shards from its first poll on; transactions always commit."""

    def __init__(self, broker: MemoryBroker, wall_ms: Callable[[], int]) -> None:
        """Read and write `broker`; `wall_ms` gives append times."""
        self._broker = broker
        self._wall_ms = wall_ms
        self._next: dict[tuple[int, Input], int] = {}
        self._ended: set[tuple[int, Input]] = set()
        self._paused: set[tuple[int, Input]] = set()
        self._asked: list[tuple[int, Input]] = []
        self._transaction: list[Outgoing] = []
        self._joined = False
        self.owner = "memory"
        self.member = "memory"

    def poll(self, budget: Budget, wait_ms: int) -> Polled:
        """Read what is there; never waits."""
        gained = [] if self._joined else list(range(self._broker.partitions))
        self._joined = True
        polled = Polled([], gained, [], [])
        for key in sorted(self._next, key=lambda key: (key[1], key[0])):
            if key not in self._paused:
                self._read(key, budget.records - len(polled.records), polled)
        polled.ends = self._answer()
        return polled

    def ask_ends(self, inputs: Collection[tuple[int, Input]]) -> None:
        """Have the next poll say where these inputs end."""
        self._asked = list(inputs)

    def _answer(self) -> dict[tuple[int, Input], int]:
        asked, self._asked = self._asked, []
        return {(shard, source): len(self._broker.log(TOPIC_OF[source], shard)) for shard, source in asked}

    def _read(self, key: tuple[int, Input], limit: int, polled: Polled) -> None:
        shard, source = key
        log = self._broker.log(TOPIC_OF[source], shard)
        offset = self._next[key]
        for stored in log[offset : offset + limit]:
            polled.records.append(Record(source, shard, offset, stored.at_ms, stored.key, stored.value))
            offset += 1
            self._ended.discard(key)
        self._next[key] = offset
        if offset == len(log) and key not in self._ended:
            self._ended.add(key)
            polled.ended.append((shard, source, offset))

    def unread(self) -> bool:
        """Say whether a poll would return records."""
        return bool(self._asked) or any(
            offset < len(self._broker.log(TOPIC_OF[source], shard))
            for (shard, source), offset in self._next.items()
            if (shard, source) not in self._paused
        )

    def metadata(self) -> object:
        """Return nothing of use: nobody is fenced here."""
        return None

    def begin(self) -> None:
        """Begin a transaction."""
        self._transaction = []

    def produce_changelog(self, shard: int, entries: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Add everything that a shard's changelog gets in this transaction."""
        self._transaction.extend(Outgoing("changelog", shard, key, value) for key, value in entries)

    def produce(self, records: Iterable[Outgoing]) -> None:
        """Add records of other topics to the transaction."""
        self._transaction.extend(records)

    def flush(self) -> dict[int, int]:
        """Append everything; return the last changelog offset by shard."""
        last: dict[int, int] = {}
        for record in self._transaction:
            offset = self._append(record)
            if record.topic == "changelog" and not record.foreign:
                last[record.partition] = offset
        return last

    def fence(self, offsets: dict[tuple[int, Input], int], metadata: object) -> None:
        """Check what a real broker would be given."""
        assert any(source is Input.REPORTS for _, source in offsets)
        assert all(offset >= 0 for offset in offsets.values())

    def commit(self) -> None:
        """Commit the transaction."""

    def abort(self) -> None:
        """Nothing aborts here."""
        raise AssertionError("a transaction in memory never fails")

    def rewind(self, offsets: dict[tuple[int, Input], int]) -> None:
        """Read again from these offsets."""
        self._next.update(offsets)
        self._ended.difference_update(offsets)

    def follow(
        self, shard: int, offsets: dict[Input, int], leader_epochs: dict[Input, int] | None = None
    ) -> None:
        """Begin to read."""
        self._next.update({(shard, source): offset for source, offset in offsets.items()})

    def leader_epochs(self, shard: int, offsets: dict[Input, int]) -> dict[Input, int]:
        """Return nothing: no leader ever changes."""
        return {}

    def unfollow(self, shard: int) -> None:
        """Stop to read."""
        for key in [key for key in self._next if key[0] == shard]:
            del self._next[key]

    def pause(self, shard: int, source: Input) -> None:
        """Read no more of one input."""
        self._paused.add((shard, source))

    def resume(self, shard: int, source: Input, offset: int) -> None:
        """Read an input again."""
        self._paused.discard((shard, source))
        self._next[shard, source] = offset

    def release(self, records: Iterable[Outgoing]) -> None:
        """Append outside any transaction."""
        for record in records:
            self._append(record)

    def echo(self, shard: int, value: bytes) -> None:
        """Append to `reports`."""
        self._broker.append("reports", shard, None, value, at_ms=self._wall_ms())

    def reopen(self) -> None:
        """Nothing to reopen."""

    def members(self) -> frozenset[str]:
        """Return the one member."""
        return frozenset({self.member})

    def group_offsets(self, shards: Collection[int]) -> dict[tuple[int, Input], int]:
        """Return nothing: no group keeps any."""
        return {}

    def partitions(self) -> dict[str, int]:
        """Return nothing: nobody can change them."""
        return {}

    def fence_owner(self, owner: str, member: str) -> bool:
        """Nobody else is here."""
        return False

    def delete_before(self, offsets: dict[tuple[int, Input], int]) -> None:
        """Keep everything: tests look at it."""

    def close(self) -> None:
        """Nothing to close."""

    def _append(self, record: Outgoing) -> int:
        topic = FOREIGN + record.topic if record.foreign else record.topic
        return self._broker.append(
            topic, record.partition, record.key, record.value, at_ms=self._wall_ms(), headers=record.headers
        )


class MemoryChangelog:
    """Reads the changelogs of a broker in memory back, each in one slice."""

    def __init__(self, broker: MemoryBroker) -> None:
        """Read `broker`."""
        self._broker = broker
        self._begun: dict[int, int] = {}

    def begin(self, shard: int, offset: int) -> None:
        """Start at `offset`, -1 for the start of the log."""
        if offset > len(self._broker.log("changelog", shard)):
            raise ValueError(f"offset {offset} is beyond the end")
        self._begun[shard] = max(offset, 0)

    def poll(self, wait_ms: int) -> list[Restored]:
        """Return everything."""
        slices = []
        for shard, offset in self._begun.items():
            log = self._broker.log("changelog", shard)
            entries = [(stored.key or b"", stored.value) for stored in log[offset:]]
            slices.append(Restored(shard, entries, len(log), done=True))
        self._begun.clear()
        return slices

    def held_back(self, shard: int) -> bool:
        """Nothing is held back."""
        return False

    def stop(self, shard: int) -> None:
        """Forget a shard."""
        self._begun.pop(shard, None)

    def close(self) -> None:
        """Nothing to close."""
