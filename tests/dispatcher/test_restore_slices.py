"""How much of its take-overs a dispatcher does between two turns."""

from collections import Counter

import msgspec
import pytest

from scheduler.codec.job import encode_job
from scheduler.codec.meta import encode_meta
from scheduler.codec.state import encode_state
from scheduler.core import keyspace
from scheduler.core.inputs import LAYOUT, Meta
from scheduler.dispatcher.config import Ground
from scheduler.dispatcher.restore import STEP
from scheduler.dispatcher.restoring import Restorer
from scheduler.dispatcher.retired import Retired
from scheduler.dispatcher.standbys import NoStandbys
from scheduler.storage.memory import MemoryStore, MemoryStores
from scheduler.testing.memory_broker import MemoryBroker
from scheduler.testing.memory_log import MemoryChangelog
from tests.dispatcher.checks import check_index, states_in
from tests.dispatcher.lives import grant
from tests.dispatcher.world import World

SHARDS = 8
JOBS = 20 * STEP
BUDGET_MS = 5


class Ticking:
    """A clock that goes on by a millisecond each time it is read: so long a step takes."""

    def __init__(self) -> None:
        self.ms = 0

    def mono_ms(self) -> int:
        self.ms += 1
        return self.ms


@pytest.fixture(scope="module")
def state():
    """The state of a job that has come as far as being leased; ids are put in."""
    world = World()
    world.start()
    grant(world, world.worker())
    return world.state("a")


@pytest.fixture
def touched(monkeypatch):
    """Count the keys that each store was asked for or given."""
    counts: Counter[str] = Counter()
    scan, write = MemoryStore.scan, MemoryStore.write

    def scanning(self, start, stop, limit):
        found = scan(self, start, stop, limit)
        counts["scanned"] += len(found)
        return found

    def writing(self, puts, deletes, offset, at_ms):
        puts, deletes = list(puts), list(deletes)
        counts["written"] += len(puts) + len(deletes)
        write(self, puts, deletes, offset, at_ms)

    monkeypatch.setattr(MemoryStore, "scan", scanning)
    monkeypatch.setattr(MemoryStore, "write", writing)
    return counts


def restorer(state, stores: MemoryStores) -> Restorer:
    broker = MemoryBroker(SHARDS)
    meta = Meta(LAYOUT, "cluster", SHARDS, {}, {})
    for shard in range(SHARDS):
        for number in range(JOBS):
            job_id = f"job-{shard}-{number:04}"
            raw = encode_state(msgspec.structs.replace(state, job_id=job_id))
            broker.append("changelog", shard, keyspace.spec_key(job_id), b"spec", at_ms=0)
            broker.append("changelog", shard, keyspace.state_key(job_id), raw, at_ms=0)
        broker.append("changelog", shard, keyspace.META, encode_meta(meta), at_ms=0)
    ground = Ground("cluster", "jobs.", SHARDS, {}, 1, 1 << 62)
    return Restorer(ground, stores, MemoryChangelog(broker), Ticking().mono_ms, NoStandbys(), Retired())


def restored(restorer: Restorer, touched: Counter[str]) -> list[int]:
    """Restore all shards; return how many keys each slice after the first touched."""
    for shard in range(SHARDS):
        restorer.begin(shard, 0, None)
    restorer.slice(BUDGET_MS, 0)  # the broker in memory hands everything over at once
    slices = []
    while restorer.running():
        touched.clear()
        restorer.slice(BUDGET_MS, 0)
        slices.append(touched.total())
    return slices


def test_a_slice_keeps_its_budget_however_many_shards_there_are(state, touched):
    stores = MemoryStores()
    slices = restored(restorer(state, stores), touched)
    assert max(slices) <= (BUDGET_MS + 1) * 4 * STEP
    assert len(slices) >= SHARDS * 2 * JOBS / STEP / (BUDGET_MS + 1)
    for shard in range(SHARDS):
        stored = dict(stores._stores[shard].scan(b"", b"\xff", 1 << 30))
        check_index(stored, states_in(stored))
        assert keyspace.INDEXED in stored


def test_so_it_does_when_it_clears_what_a_restore_given_up_has_left(state, touched):
    stores = MemoryStores()
    for shard in range(SHARDS):
        store = stores.open(shard)
        left = [keyspace.leased_key(f"ghost-{number}") for number in range(JOBS)]
        meta = encode_meta(Meta(LAYOUT, "cluster", SHARDS, {}, {}))
        store.write([*((key, b"") for key in left), (keyspace.META, meta)], (), 0, 0)
        store.close()
    slices = restored(restorer(state, stores), touched)
    assert max(slices) <= (BUDGET_MS + 1) * 4 * STEP
    for shard in range(SHARDS):
        stored = dict(stores._stores[shard].scan(b"", b"\xff", 1 << 30))
        check_index(stored, states_in(stored))


def test_all_shards_go_on_alike(state, touched):
    """One with much to do does not keep the others waiting."""
    stores = MemoryStores()
    begun = restorer(state, stores)
    for shard in range(SHARDS):
        begun.begin(shard, 0, None)
    while not (done := begun.slice(BUDGET_MS, 0)):
        pass
    indexed = [
        len(stores._contents[shard].keys.between(keyspace.LEASED, keyspace.after(keyspace.LEASED), 1 << 30))
        for shard in range(SHARDS)
    ]
    assert done
    assert min(indexed) == JOBS


def test_a_record_without_a_state_is_found_in_the_last_step_too(state, touched):
    stores = MemoryStores()
    begun = restorer(state, stores)
    spec = encode_job(World().spec("zzz"))
    begun._changelog._broker.append("changelog", 3, keyspace.spec_key("zzz"), spec, at_ms=0)
    for shard in range(SHARDS):
        begun.begin(shard, 0, None)
    done = []
    while begun.running():
        done += begun.slice(BUDGET_MS, 0)
    assert {each.number: each.orphans for each in done} == {
        **{shard: [] for shard in range(SHARDS)},
        3: [keyspace.spec_key("zzz")],
    }
