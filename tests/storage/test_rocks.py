"""What a store on disk survives."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from scheduler.dispatcher.ports import StoreUnusable
from scheduler.storage.rocks import RocksConfig, RocksStores

BATCH = 50

WRITER = f"""
import sys
from pathlib import Path
from scheduler.core.bounds import MIB
from scheduler.storage.rocks import RocksConfig, RocksStores

store = RocksStores(Path(sys.argv[1]), RocksConfig(memtable_bytes=MIB // 4)).open(0)
batch = 0
while True:
    # Each batch writes its number under all of its keys, and the numbers go round.
    store.write([(b"k%04d" % (n + batch % 7 * {BATCH}), b"%010d" % batch * 8) for n in range({BATCH})],
                [b"only%d" % (batch - 1)] if batch else [], batch, batch)
    store.write([(b"only%d" % batch, b"")], [], batch, batch)
    batch += 1
    if batch % 500 == 0:
        print(batch, flush=True)
"""


@pytest.mark.parametrize("batches", [1_000, 3_000])
def test_a_killed_store_comes_back_as_a_prefix(tmp_path: Path, batches: int):
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        for line in writer.stdout:
            if int(line) >= batches:
                writer.send_signal(signal.SIGKILL)
                break
    store = RocksStores(tmp_path).open(0)
    last = store.offset
    assert 0 <= last <= writer_end(store, last)
    entries = dict(store.scan(b"k", b"l", 10_000))
    for lane in range(7):
        batch = last - (last - lane) % 7  # the last one up to `last` that wrote these keys
        values = {entries.get(b"k%04d" % (n + lane * BATCH)) for n in range(BATCH)}
        assert values == ({b"%010d" % batch * 8} if batch >= 0 else {None})
    store.close()


def writer_end(store, last: int) -> int:
    """Both halves of a batch have one offset, so the end is the last one or still the one before."""
    only = [key for key, _ in store.scan(b"only", b"onlz", 10)]
    assert only in ([b"only%d" % last], []), only
    return last


def test_flushed_writes_survive_without_a_close(tmp_path: Path):
    script = """
import os, sys
from pathlib import Path
from scheduler.storage.rocks import RocksStores
store = RocksStores(Path(sys.argv[1])).open(0)
store.write([(b"a", b"1")], [], 7, 70)
store.flush()
store.write([(b"b", b"2")], [], 8, 80)
os._exit(1)
"""
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    store = RocksStores(tmp_path).open(0)
    assert (store.offset, store.written_at_ms, store.get(b"a"), store.get(b"b")) == (7, 70, b"1", None)
    store.close()


@pytest.fixture
def wiped():
    return []


@pytest.fixture
def stores(tmp_path: Path, wiped):
    return RocksStores(tmp_path, RocksConfig(), lambda path, cause: wiped.append((path, cause)))


def fill(stores: RocksStores, shard: int = 0) -> Path:
    store = stores.open(shard)
    store.write([(b"s%06d" % n, b"v" * 100) for n in range(20_000)], [], 5, 5)
    store.close()
    return stores.path(shard)


def test_layout_on_disk(stores, tmp_path):
    assert fill(stores, 17) == tmp_path / "shard-17"
    assert (tmp_path / "shard-17" / "CURRENT").exists()


def damage_manifest(path: Path) -> None:
    next(path.glob("MANIFEST-*")).write_bytes(b"junk" * 10)


def damage_current(path: Path) -> None:
    (path / "CURRENT").write_bytes(b"")


def remove_tables(path: Path) -> None:
    for table in path.glob("*.sst"):
        table.unlink()


def damage_first_block(path: Path) -> None:
    """Opening reads the store's position, which is the first key."""
    for table in path.glob("*.sst"):
        content = bytearray(table.read_bytes())
        content[100:2_000] = bytes(1_900)
        table.write_bytes(content)


DAMAGES = [damage_manifest, damage_current, remove_tables, damage_first_block]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_store_is_wiped_once_and_told(stores, wiped, damage):
    path = fill(stores)
    damage(path)
    store = stores.open(0)
    assert (store.offset, store.get(b"s000001")) == (-1, None)
    assert [told for told, _ in wiped] == [path]
    assert wiped[0][1]
    store.close()


def corrupt_tables(path: Path) -> None:
    for table in path.glob("*.sst"):
        content = bytearray(table.read_bytes())
        content[1_000:60_000] = bytes(59_000)
        table.write_bytes(content)


@pytest.mark.parametrize(
    "read",
    [lambda store: store.scan(b"s", b"t", 100_000), lambda store: store.get(b"s000100")],
    ids=["scan", "get"],
)
def test_damage_found_by_reading_is_no_end_of_the_data(stores, wiped, read):
    path = fill(stores)
    corrupt_tables(path)
    store = stores.open(0)
    with pytest.raises(StoreUnusable, match=r"shard-0.*Corruption"):
        read(store)
    store.close()
    again = stores.open(0)
    assert (again.offset, [told for told, _ in wiped]) == (-1, [path])
    again.close()


def test_a_store_in_use_elsewhere_is_left_alone(stores, wiped, tmp_path):
    store = stores.open(0)
    store.write([(b"a", b"1")], [], 1, 1)
    with pytest.raises(StoreUnusable, match="shard-0"):
        RocksStores(tmp_path, on_wiped=lambda path, cause: wiped.append((path, cause))).open(0)
    assert store.get(b"a") == b"1"
    assert wiped == []
    store.close()


@pytest.mark.parametrize("damage", DAMAGES)
def test_whatever_its_folder_is_called(tmp_path, wiped, damage):
    stores = RocksStores(tmp_path / "locks", on_wiped=lambda path, cause: wiped.append(path))
    path = fill(stores)
    damage(path)
    stores.open(0).close()
    assert wiped == [path]


def test_a_store_in_use_by_another_process_is_left_alone(stores, wiped, tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        with pytest.raises(StoreUnusable, match="lock"):
            stores.open(0)
        writer.kill()
    assert wiped == []


def test_a_path_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreUnusable, match="shard-0"):
        RocksStores(tmp_path / "file").open(0)
