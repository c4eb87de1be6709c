"""Stores on disk: one RocksDB per shard, in `<directory>/shard-<n>/`.

The changelog is the truth and this is a cache of it, so nothing is written ahead: after a crash a store holds
what its last flushed memtable held. That is a prefix of the batches, with the offset of the last of them, because
there is one column family only (several flush apart) and the offset lies in the same batch as what it counts.
"""

import shutil
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from struct import Struct
from typing import Final

import msgspec
from rocksdict import (
    BlockBasedOptions,
    Cache,
    DataBlockIndexType,
    DBCompressionType,
    Options,
    Rdict,
    ReadOptions,
    WriteBatch,
    WriteBufferManager,
    WriteOptions,
)

from scheduler.core.bounds import KIB, MIB
from scheduler.dispatcher.ports import StoreUnusable

_POSITION_KEY: Final = b"\x00position"  # keys that begin with a zero byte are the store's own
_FIRST_KEY: Final = b"\x01"
_POSITION: Final = Struct(">qq")  # changelog offset to go on from, time of the write
_DAMAGED: Final = "DAMAGED"
"""A file of this name in a store's directory says: reading found damage, begin anew."""

_NOT_CURED_BY_WIPING: Final = (
    # In use, by another process or this one: its files are not ours to delete. (Not just "lock": damaged blocks are
    # told of too, and any word may be in a path.)
    "While lock file",
    "lock hold by",
    "No space left",
    "Permission denied",
    "Read-only file system",
    "Too many open files",
)


class RocksConfig(msgspec.Struct, frozen=True):
    """Sizes of the stores of one process, in bytes. The first two are shared by all its shards."""

    cache_bytes: int = 64 * MIB
    memtables_bytes: int = 96 * MIB
    memtable_bytes: int = 16 * MIB  # of one shard; a full one is flushed in the background


def _ignore(path: Path, cause: str) -> None:
    """Tell nobody that a store was wiped."""


class RocksStore:
    """An ordered store of one shard (`dispatcher.ports.Store`). Not for use by several threads at once.

    An iterator that is alive keeps a closed database locked, so none ever leaves a method.
    """

    def __init__(self, path: Path, options: Options) -> None:
        """Open or create the database; holds the interpreter while it does, 0.2 s if a lot has to be read back."""
        self._path = path
        self._write_options = WriteOptions()
        self._write_options.disable_wal = True  # type: ignore[method-assign,assignment] # a property, whatever its stub says
        self._db = Rdict(str(path), options)
        found = self._db.get(_POSITION_KEY)
        self._offset: int
        self._written_at_ms: int
        self._offset, self._written_at_ms = (-1, 0) if found is None else _POSITION.unpack(found)
        self._open = True

    @property
    def is_open(self) -> bool:
        """Whether `close` has not been called."""
        return self._open

    @property
    def offset(self) -> int:
        """The changelog offset to go on from; -1 for an empty store."""
        return self._offset

    @property
    def written_at_ms(self) -> int:
        """The `at_ms` of the last write; 0 for an empty store."""
        return self._written_at_ms

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key."""
        assert self._open, "the store is closed"
        try:
            found: bytes | None = self._db.get(key)
        except Exception as error:
            raise self._fault(error) from error
        return found

    def scan(self, start: bytes, stop: bytes, limit: int) -> Sequence[tuple[bytes, bytes]]:
        """Return at most `limit` entries with start <= key < stop, in key order."""
        assert self._open, "the store is closed"
        start = max(start, _FIRST_KEY)
        if start >= stop or limit <= 0:
            return []
        try:
            return self._scan(start, stop, limit)
        except Exception as error:
            raise self._fault(error) from error

    def _scan(self, start: bytes, stop: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        bounded = ReadOptions()
        # Without it a scan would go on through whatever was deleted behind `stop`.
        bounded.set_iterate_upper_bound(stop)
        entries: list[tuple[bytes, bytes]] = []
        # Not `Rdict.items`: that ends at a damaged block as if it were the last one.
        rows = self._db.iter(bounded)
        try:
            rows.seek(start)
            while rows.valid():
                entries.append((rows.key(), rows.value()))
                if len(entries) == limit:
                    return entries
                rows.next()
            rows.status()
        finally:
            del rows  # else the traceback of a failure would keep it alive
        return entries

    def write(
        self, puts: Iterable[tuple[bytes, bytes]], deletes: Iterable[bytes], offset: int, at_ms: int
    ) -> None:
        """Apply one batch atomically, with the changelog offset to go on from."""
        assert self._open, "the store is closed"
        batch = WriteBatch(raw_mode=True)
        put, delete = batch.put, batch.delete
        for key, value in puts:
            put(key, value)
        for key in deletes:
            delete(key)
        put(_POSITION_KEY, _POSITION.pack(offset, at_ms))
        try:
            self._db.write(batch, self._write_options)
        except Exception as error:
            raise self._fault(error) from error
        self._offset, self._written_at_ms = offset, at_ms

    def flush(self) -> None:
        """Make all writes so far survive a crash of the process."""
        assert self._open, "the store is closed"
        try:
            self._db.flush()
        except Exception as error:
            raise self._fault(error) from error

    def close(self) -> None:
        """Flush and close; the store is unusable afterwards. A second call does nothing.

        Damage that comes to light only now stops nobody: whoever opens the store next begins anew.
        """
        if not self._open:
            return
        try:
            self._finish(self._db.flush)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close without a flush."""
        self._open = False
        self._finish(self._db.close)

    def _finish(self, last: Callable[[], object]) -> None:
        try:
            last()
        except Exception as error:
            fault = self._fault(error)
            if not _is_damage(error):
                raise fault from error

    def _fault(self, error: Exception) -> StoreUnusable:
        if _is_damage(error):
            # Opening does not read all data, so it would not find this again.
            with suppress(OSError):
                (self._path / _DAMAGED).touch()
        return StoreUnusable(f"{self._path}: {error}")


def _is_damage(error: Exception) -> bool:
    return "Corruption" in str(error)


class RocksStores:
    """Stores of shards on disk (`dispatcher.ports.Stores`), with one cache and one memtable budget for all."""

    def __init__(
        self,
        directory: Path,
        config: RocksConfig | None = None,
        on_wiped: Callable[[Path, str], None] = _ignore,
    ) -> None:
        """Keep stores below `directory`; `on_wiped` is told the path and the cause of each damaged one."""
        config = config or RocksConfig()
        self._directory = directory
        self._on_wiped = on_wiped
        self._cache = Cache(config.cache_bytes)
        self._memtables = WriteBufferManager(config.memtables_bytes, allow_stall=False)
        self._options = _options(config, self._cache, self._memtables)
        self._stores: dict[int, RocksStore] = {}

    def path(self, shard: int) -> Path:
        """Return the directory of a shard's store."""
        return self._directory / f"shard-{shard}"

    def open(self, shard: int) -> RocksStore:
        """Open a shard's store, empty if it is new. A damaged one is wiped once; then `StoreUnusable`.

        Blocks, so call it outside of callbacks.
        """
        assert shard not in self._stores or not self._stores[shard].is_open, f"shard {shard} is open already"
        path = self.path(shard)
        if (path / _DAMAGED).exists():
            return self._begin_anew(shard, "reading it found damage")
        try:
            return self._opened(shard)
        except Exception as error:
            if any(cause in str(error) for cause in _NOT_CURED_BY_WIPING):
                raise StoreUnusable(f"{path}: {error}") from error
            cause = str(error)
        return self._begin_anew(shard, cause)

    def wipe(self, shard: int) -> RocksStore:
        """Close and empty a shard's store and open it anew."""
        store = self._stores.pop(shard, None)
        if store is not None and store.is_open:
            store.abandon()
        try:
            if self.path(shard).exists():
                shutil.rmtree(self.path(shard))
            return self._opened(shard)
        except Exception as error:
            raise StoreUnusable(f"{self.path(shard)}: {error}") from error

    def _begin_anew(self, shard: int, cause: str) -> RocksStore:
        self._on_wiped(self.path(shard), cause)
        return self.wipe(shard)

    def _opened(self, shard: int) -> RocksStore:
        path = self.path(shard)
        path.mkdir(parents=True, exist_ok=True)
        store = RocksStore(path, self._options)
        self._stores[shard] = store
        return store


def _options(config: RocksConfig, cache: Cache, memtables: WriteBufferManager) -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_size(config.memtable_bytes)
    options.set_max_write_buffer_number(3)
    options.set_write_buffer_manager(memtables)
    # Most look-ups are of ids that are new, so a miss must be cheap in memory as well as on disk.
    options.set_memtable_whole_key_filtering(True)
    options.set_memtable_prefix_bloom_ratio(0.02)
    options.set_block_based_table_factory(_tables(cache))
    options.set_compression_type(DBCompressionType.lz4())
    options.set_level_compaction_dynamic_level_bytes(True)
    options.set_target_file_size_base(config.memtable_bytes)
    options.set_max_bytes_for_level_base(8 * config.memtable_bytes)
    # Ready jobs are a queue: what is taken from its head leaves marks of deletion that scans step over.
    options.add_compact_on_deletion_collector_factory(1_024, 256, 0.5)
    options.set_max_background_jobs(2)  # threads are shared by all stores of the process
    options.set_max_open_files(256)
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(MIB)
    options.set_stats_dump_period_sec(0)
    options.set_stats_persist_period_sec(0)
    return options


def _tables(cache: Cache) -> BlockBasedOptions:
    tables = BlockBasedOptions()
    tables.set_block_cache(cache)
    tables.set_block_size(4 * KIB)
    tables.set_data_block_index_type(DataBlockIndexType.binary_and_hash())  # look-ups in a block: 2 µs, not 3
    tables.set_data_block_hash_ratio(0.75)
    tables.set_bloom_filter(10, block_based=False)
    tables.set_cache_index_and_filter_blocks(True)  # else they would come on top of the cache's size
    tables.set_pin_l0_filter_and_index_blocks_in_cache(True)
    return tables
