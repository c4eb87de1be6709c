"""What every ordered store promises, whatever holds it."""

import random
from pathlib import Path

import pytest

from scheduler.dispatcher.ports import Store, Stores
from scheduler.storage.memory import MemoryStores
from scheduler.storage.rocks import RocksStores


@pytest.fixture(params=["memory", "rocks"])
def stores(request, tmp_path: Path) -> Stores:
    return MemoryStores() if request.param == "memory" else RocksStores(tmp_path)


@pytest.fixture
def store(stores):
    opened = stores.open(3)
    yield opened
    opened.close()


def put(store: Store, offset: int = 0, **entries: bytes) -> None:
    store.write([(key.encode(), value) for key, value in entries.items()], [], offset, 0)


def keys(store: Store, start: bytes, stop: bytes, limit: int = 100) -> list[bytes]:
    return [key for key, _ in store.scan(start, stop, limit)]


def test_a_new_store_is_empty(store):
    assert (store.offset, store.written_at_ms) == (-1, 0)
    assert store.get(b"a") is None
    assert list(store.scan(b"", b"\xff", 10)) == []


def test_what_was_written_is_read(store):
    store.write([(b"a", b"1"), (b"b", b"")], [], 17, 1_700_000_000_000)
    assert (store.get(b"a"), store.get(b"b"), store.get(b"c")) == (b"1", b"", None)
    assert (store.offset, store.written_at_ms) == (17, 1_700_000_000_000)


def test_a_batch_replaces_and_deletes(store):
    put(store, a=b"1", b=b"2", c=b"3")
    store.write([(b"a", b"9")], [b"b", b"never there"], 2, 0)
    assert list(store.scan(b"a", b"z", 10)) == [(b"a", b"9"), (b"c", b"3")]


def test_a_deleted_key_can_return(store):
    put(store, a=b"1")
    store.write([], [b"a"], 1, 0)
    assert store.get(b"a") is None
    put(store, a=b"2")
    assert list(store.scan(b"a", b"b", 10)) == [(b"a", b"2")]


def test_an_empty_batch_moves_the_offset(store):
    put(store, a=b"1")
    store.write([], [], 99, 5)
    assert (store.offset, store.written_at_ms, store.get(b"a")) == (99, 5, b"1")


@pytest.mark.parametrize(
    ("start", "stop", "limit", "found"),
    [
        (b"b", b"d", 10, b"bc"),  # start is in, stop is not
        (b"a", b"zz", 2, b"ab"),
        (b"bb", b"dd", 10, b"cd"),
        (b"c", b"c", 10, b""),
        (b"d", b"b", 10, b""),
        (b"x", b"z", 10, b""),
        (b"a", b"z", 0, b""),
        (b"", b"\xff", 10, b"abcde"),
    ],
)
def test_scans_keep_to_their_bounds(store, start, stop, limit, found):
    put(store, e=b"5", c=b"3", a=b"1", d=b"4", b=b"2")
    assert b"".join(keys(store, start, stop, limit)) == found


def test_scans_see_none_of_the_store_s_own_keys(store):
    put(store, a=b"1")
    assert keys(store, b"", b"\xff") == [b"a"]


def test_keys_are_in_byte_order(store):
    names = [b"\x01", b"\x01\x00", b"\x7f", b"\x80", b"a", b"a\x00", b"a\x00b", b"aa", b"\xff\xff"]
    store.write([(name, b"") for name in reversed(names)], [], 0, 0)
    assert keys(store, b"", b"\xff\xff\xff") == sorted(names)


def test_a_closed_store_refuses(stores):
    store = stores.open(1)
    store.close()
    store.close()
    for use in (lambda: store.get(b"a"), lambda: store.scan(b"", b"z", 1), lambda: store.write([], [], 0, 0)):
        with pytest.raises(AssertionError, match="closed"):
            use()


def test_a_reopened_store_holds_what_it_held(stores):
    store = stores.open(1)
    put(store, offset=41, a=b"1", b=b"2")
    store.scan(b"a", b"z", 1)  # an iterator left behind would keep the database locked
    store.close()
    again = stores.open(1)
    assert (again.offset, list(again.scan(b"a", b"z", 10))) == (41, [(b"a", b"1"), (b"b", b"2")])
    again.close()


def test_an_open_shard_is_not_opened_twice(stores):
    store = stores.open(1)
    with pytest.raises(AssertionError, match="open already"):
        stores.open(1)
    store.close()


def test_shards_are_apart(stores):
    one, two = stores.open(1), stores.open(2)
    put(one, a=b"1")
    assert (one.get(b"a"), two.get(b"a")) == (b"1", None)
    one.close()
    two.close()


def test_a_wiped_store_is_new(stores):
    store = stores.open(1)
    put(store, offset=41, a=b"1")
    store.flush()
    wiped = stores.wipe(1)
    assert (wiped.offset, wiped.get(b"a")) == (-1, None)
    with pytest.raises(AssertionError, match="closed"):
        store.get(b"a")
    wiped.close()


def test_wiping_does_not_need_the_store_open(stores):
    store = stores.open(1)
    put(store, a=b"1")
    store.close()
    wiped = stores.wipe(1)
    assert wiped.get(b"a") is None
    wiped.close()


@pytest.mark.parametrize("seed", range(5))
def test_it_behaves_like_a_sorted_dict(stores, seed):
    draw = random.Random(seed)
    model: dict[bytes, bytes] = {}
    store = stores.open(1)
    for offset in range(150):
        puts = {
            draw.randbytes(draw.randint(1, 3)).replace(b"\0", b"\1"): draw.randbytes(4) for _ in range(40)
        }
        deletes = [key for key in draw.sample(sorted(model), len(model) // 20) if key not in puts]
        store.write(puts.items(), deletes, offset, offset)
        model.update(puts)
        for key in deletes:
            del model[key]
        start, stop = sorted((draw.randbytes(2), draw.randbytes(2)))
        limit = draw.randint(1, 100)
        wanted = sorted((key, value) for key, value in model.items() if start <= key < stop)[:limit]
        assert list(store.scan(start, stop, limit)) == wanted
        if offset % 50 == 49:
            store.close()
            store = stores.open(1)
            assert store.offset == offset
    assert list(store.scan(b"", b"\xff" * 4, 10**6)) == sorted(model.items())
    store.close()


def test_a_long_queue_is_taken_from_its_head(store):
    """Deleting what a scan returned, again and again, as matching does."""
    store.write([(b"r%06d" % n, b"") for n in range(20_000)], [], 0, 0)
    taken = []
    while batch := keys(store, b"r", b"s", 500):
        store.write([], batch, 0, 0)
        taken += batch
    assert taken == [b"r%06d" % n for n in range(20_000)]
