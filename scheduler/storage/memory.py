"""Stores in memory: for tests and simulations, and for a dispatcher without a disk."""

from collections.abc import Iterable, Sequence
from typing import Final

from scheduler.storage.sorted_keys import SortedKeys

_EMPTY: Final = -1


class _Contents:
    """What outlives an open store, like a directory does."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}
        self.keys = SortedKeys()
        self.offset = _EMPTY
        self.written_at_ms = 0


class MemoryStore:
    """An ordered store of one shard (`dispatcher.ports.Store`)."""

    def __init__(self, contents: _Contents) -> None:
        """Open what `contents` holds."""
        self._contents = contents
        self._open = True

    @property
    def is_open(self) -> bool:
        """Whether `close` has not been called."""
        return self._open

    @property
    def offset(self) -> int:
        """The changelog offset to go on from; -1 for an empty store."""
        return self._contents.offset

    @property
    def written_at_ms(self) -> int:
        """The `at_ms` of the last write; 0 for an empty store."""
        return self._contents.written_at_ms

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key."""
        assert self._open, "the store is closed"
        return self._contents.values.get(key)

    def scan(self, start: bytes, stop: bytes, limit: int) -> Sequence[tuple[bytes, bytes]]:
        """Return at most `limit` entries with start <= key < stop, in key order."""
        assert self._open, "the store is closed"
        values = self._contents.values
        return [(key, values[key]) for key in self._contents.keys.between(start, stop, limit)]

    def write(
        self, puts: Iterable[tuple[bytes, bytes]], deletes: Iterable[bytes], offset: int, at_ms: int
    ) -> None:
        """Apply one batch, with the changelog offset to go on from."""
        assert self._open, "the store is closed"
        values, keys = self._contents.values, self._contents.keys
        for key, value in puts:
            if key not in values:
                keys.add(key)
            values[key] = value
        for key in deletes:
            if values.pop(key, None) is not None:
                keys.remove(key)
        self._contents.offset = offset
        self._contents.written_at_ms = at_ms

    def flush(self) -> None:
        """Do nothing: memory is as durable as it gets."""

    def close(self) -> None:
        """Make the store unusable; `MemoryStores.open` finds its contents again."""
        self._open = False


class MemoryStores:
    """Stores of shards in memory (`dispatcher.ports.Stores`); they last as long as this object."""

    def __init__(self) -> None:
        """Begin without any."""
        self._contents: dict[int, _Contents] = {}
        self._stores: dict[int, MemoryStore] = {}

    def open(self, shard: int) -> MemoryStore:
        """Open a shard's store, empty if it is new."""
        assert shard not in self._stores or not self._stores[shard].is_open, f"shard {shard} is open already"
        store = MemoryStore(self._contents.setdefault(shard, _Contents()))
        self._stores[shard] = store
        return store

    def wipe(self, shard: int) -> MemoryStore:
        """Close and empty a shard's store and open it anew."""
        if shard in self._stores:
            self._stores[shard].close()
        self._contents.pop(shard, None)
        return self.open(shard)
