"""The disk of one dispatcher: it outlives the process, and may have lost the newest writes when that is killed.

The stores have no write-ahead log, so what a killed process leaves is a prefix of its batches.
"""

import random
from collections.abc import Iterable

from scheduler.storage.memory import MemoryStore, MemoryStores, _Contents

Batch = tuple[list[tuple[bytes, bytes]], list[bytes], int, int]
FLUSH_EVERY = 200  # batches


class JournaledStore(MemoryStore):
    """A store that knows which keys were written since somebody looked, and what is not flushed."""

    def __init__(self, contents: _Contents) -> None:
        super().__init__(contents)
        self.written: dict[bytes, None] = {}
        self.flushed = copy_of(contents)
        self.batches: list[Batch] = []

    @property
    def contents(self) -> _Contents:
        return self._contents

    def write(
        self, puts: Iterable[tuple[bytes, bytes]], deletes: Iterable[bytes], offset: int, at_ms: int
    ) -> None:
        batch = (list(puts), list(deletes), offset, at_ms)
        super().write(*batch)
        self.written.update(dict.fromkeys(key for key, _ in batch[0]))
        self.written.update(dict.fromkeys(batch[1]))
        self.batches.append(batch)
        if len(self.batches) >= FLUSH_EVERY:
            self.flush()

    def flush(self) -> None:
        self.flushed = copy_of(self._contents)
        self.batches.clear()

    def close(self) -> None:
        self.batches.clear()  # closing flushes
        super().close()


class Disk(MemoryStores):
    """The stores of one process; `after_kill` and `copy` give those of a later one."""

    def open(self, shard: int) -> JournaledStore:
        known = self._stores.get(shard)
        assert known is None or not known.is_open, f"shard {shard} is open already"
        store = JournaledStore(self._contents.setdefault(shard, _Contents()))
        self._stores[shard] = store
        return store

    def after_kill(self, chance: random.Random) -> "Disk":
        """Return what a kill leaves: of each store some prefix of its batches."""
        left = Disk()
        for shard, contents in self._contents.items():
            store = self._stores.get(shard)
            if isinstance(store, JournaledStore) and store.is_open:
                survived = chance.choice((0, len(store.batches), chance.randrange(len(store.batches) + 1)))
                contents = prefix_of(store, survived)
            left._contents[shard] = contents
        return left

    def copy(self) -> "Disk":
        """Return an image of the disk as it is now, as a backup keeps it."""
        image = Disk()
        image._contents = {shard: copy_of(contents) for shard, contents in self._contents.items()}
        return image


def copy_of(contents: _Contents) -> _Contents:
    copy = _Contents()
    copy.values = dict(contents.values)
    for key in copy.values:
        copy.keys.add(key)
    copy.offset, copy.written_at_ms = contents.offset, contents.written_at_ms
    return copy


def prefix_of(store: JournaledStore, batches: int) -> _Contents:
    replay = MemoryStore(copy_of(store.flushed))
    for batch in store.batches[:batches]:
        replay.write(*batch)
    return replay._contents
