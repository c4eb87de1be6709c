"""Many shards that come and go at once: no turn opens or closes more stores than there is time for."""

import itertools

import pytest

from scheduler.dispatcher.seat import Stage
from scheduler.storage.memory import MemoryStore, MemoryStores
from tests.dispatcher.world import Dispatcher, World

SHARDS = 32
OPENING_MS = 30


class SlowStores(MemoryStores):
    """Opening one takes a while."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        self.opened = 0

    def open(self, shard: int) -> MemoryStore:
        self._world.time.ms += OPENING_MS
        self.opened += 1
        return super().open(shard)

    def still_open(self) -> int:
        return sum(store.is_open for store in self._stores.values())


@pytest.fixture
def world():
    world = World(SHARDS)
    world.start()
    world.outlive()
    yield world
    world.finish()


@pytest.fixture
def heir(world) -> Dispatcher:
    return world.join("heir", shards=(), stores=SlowStores(world))


def stores_of(dispatcher: Dispatcher) -> SlowStores:
    stores = dispatcher.stores
    assert isinstance(stores, SlowStores)
    return stores


def gain(world: World, heir: Dispatcher) -> None:
    world.group.assign("heir", range(SHARDS))
    world.until(heir.is_active, turns=1_000)


def test_each_turn_of_a_take_over_opens_a_few_stores_only(world, heir):
    world.kill("d1")
    world.group.assign("heir", range(SHARDS))
    members, asked = heir.log.members, []
    heir.log.members = lambda: (asked.append(1), members())[1]
    counts = [0]
    while not heir.is_active():
        world.turn()
        counts.append(stores_of(heir).opened)
    assert max(later - earlier for earlier, later in itertools.pairwise(counts)) == 1
    assert len(asked) == 1, "all shards came together"


def test_how_many_shards_lease_is_told_while_they_come_and_go(world, heir):
    gain(world, heir)
    told = heir.signals.leasing_shards
    assert told == sorted(told)
    assert told[-1] == SHARDS
    assert len(told) > SHARDS // 2, "one after the other, not all at the end"
    world.group.assign("d1", range(3, SHARDS))
    world.turn(3)
    assert told[-1] == 3


def test_shards_held_before_go_on_meanwhile(world, heir):
    """A job is leased while the take-over of the others has hardly begun."""
    home = world.home("a")
    world.group.assign("heir", [home])
    world.until(heir.is_active)
    world.group.assign("heir", range(SHARDS))
    world.kill("d1")
    world.turn()
    worker = world.worker()
    worker.offer()
    world.submit("a")
    world.turn(4)
    assert len(worker.leases()) == 1
    assert Stage.RESTORING in heir.stages().values()
    assert stores_of(heir).opened < SHARDS / 2
    world.until(heir.is_active, turns=1_000)


def test_each_turn_after_a_loss_closes_one_store_only(world, heir):
    gain(world, heir)
    world.group.assign("d1", range(SHARDS))
    counts = [stores_of(heir).still_open()]
    while counts[-1]:
        world.turn()
        counts.append(stores_of(heir).still_open())
    assert max(earlier - later for earlier, later in itertools.pairwise(counts)) == 1
    world.until(world.dispatchers["d1"].is_active)


def test_shards_that_come_back_soon_find_their_stores_open(world, heir):
    gain(world, heir)
    opened = stores_of(heir).opened
    world.group.assign("d1", range(SHARDS))
    world.turn(4)
    closed = SHARDS - stores_of(heir).still_open()
    assert 0 < closed < 6
    gain(world, heir)
    assert stores_of(heir).opened == opened + closed


def test_nothing_stays_open_when_the_process_leaves(world, heir):
    gain(world, heir)
    world.group.assign("d1", range(SHARDS))
    world.turn(2)
    world.dispatchers.pop("heir").engine.leave()
    assert stores_of(heir).still_open() == 0
