"""Whatever happens to a store's files: it holds what it held up to some write, and says which, or nothing."""

from collections.abc import Callable
from pathlib import Path

import pytest

from scheduler.core.bounds import KIB
from scheduler.dispatcher.ports import StoreUnusable
from scheduler.storage.rocks import RocksConfig, RocksStores

ENTRIES = [(b"s%06d" % n, b"%07d" % n * 20) for n in range(20_000)]


def oldest_table(path: Path) -> Path:
    return min(path.glob("*.sst"))


def newest_table(path: Path) -> Path:
    return max(path.glob("*.sst"))


def manifest(path: Path) -> Path:
    return next(path.glob("MANIFEST-*"))


def current(path: Path) -> Path:
    return path / "CURRENT"


def truncate(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0xFF
    file.write_bytes(content)


def delete(file: Path) -> None:
    file.unlink()


@pytest.mark.parametrize("damage", [truncate, flip, delete])
@pytest.mark.parametrize("which", [oldest_table, newest_table, manifest, current])
def test_it_holds_a_prefix_and_says_how_long_it_is(
    tmp_path: Path, which: Callable[[Path], Path], damage: Callable[[Path], None]
) -> None:
    stores = RocksStores(tmp_path, RocksConfig(memtable_bytes=256 * KIB))
    store = stores.open(0)
    for end in range(500, len(ENTRIES) + 1, 500):
        store.write(ENTRIES[end - 500 : end], [], end, 1)
    store.close()
    assert oldest_table(stores.path(0)) != newest_table(stores.path(0))
    damage(which(stores.path(0)))
    held, offset = read(stores)
    assert held == ENTRIES[: max(offset, 0)]  # a restore goes on from there


def read(stores: RocksStores) -> tuple[list[tuple[bytes, bytes]], int]:
    """Read all, as the process does that comes after one which damage has ended."""
    store = stores.open(0)
    try:
        held = list(store.scan(b"s", b"t", 1 << 30))
    except StoreUnusable:
        store.close()
        store = stores.open(0)
        held = list(store.scan(b"s", b"t", 1 << 30))
    offset = store.offset
    store.close()
    return held, offset
