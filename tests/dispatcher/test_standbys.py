"""Warm copies of others' shards: what commits reaches them, nothing else does, and a take-over reads only the rest."""

import msgspec
import pytest

from scheduler.codec.job import encode_job
from scheduler.codec.meta import decode_meta, encode_meta
from scheduler.core import keyspace
from scheduler.dispatcher.ports import LogError
from scheduler.dispatcher.seat import Stage
from scheduler.storage.memory import MemoryStores
from tests.dispatcher.checks import check_index, replayed, states_in
from tests.dispatcher.fault_log import FaultLog, abort
from tests.dispatcher.lives import grant, run
from tests.dispatcher.test_restore import busy, contents, opened
from tests.dispatcher.world import Dispatcher, World

HALF_RETENTION_MS = 12 * 3_600_000


@pytest.fixture
def world():
    """Four shards of `d1`, which `d2` keeps warm copies of."""
    world = World(standby_replicas=1)
    world.start()
    world.outlive()
    world.join("d2", shards=())
    yield world
    world.finish()


@pytest.fixture
def d2(world) -> Dispatcher:
    return world.dispatchers["d2"]


def copies(dispatcher: Dispatcher) -> set[int]:
    return set(dispatcher.engine._standbys._running)


def copy_of(dispatcher: Dispatcher, shard: int) -> dict[bytes, bytes]:
    return dict(dispatcher.stores._contents[shard].values)


def caught_up(world: World, dispatcher: Dispatcher) -> bool:
    shards = copies(dispatcher)
    return (
        bool(shards)
        and shards == dispatcher.engine._standbys._wanted
        and all(
            dispatcher.stores._contents[shard].offset == world.broker.stable_end("changelog", shard)
            and copy_of(dispatcher, shard)[keyspace.INDEXED] == b""
            for shard in shards
        )
    )


def check_copies(world: World, dispatcher: Dispatcher) -> None:
    """Each copy is a prefix of what committed, and its indexes are what the states imply."""
    for shard in copies(dispatcher):
        kept = dispatcher.stores._contents[shard]
        durable = {
            key: value
            for key, value in kept.values.items()
            if key.startswith((keyspace.STATE, keyspace.SPEC, keyspace.META))
        }
        assert durable == replayed(world.broker, shard, kept.offset)
        if kept.values[keyspace.INDEXED] == b"":
            check_index(kept.values, states_in(durable))


def test_a_copy_follows_its_shard_through_all_that_happens(world, d2):
    worker = world.worker()
    check = world.check
    world.check = lambda dispatcher: (check(dispatcher), check_copies(world, d2))
    busy(world, worker)
    world.until(lambda: caught_up(world, d2))
    assert copies(d2) == set(range(world.shards))
    for shard in range(world.shards):
        assert copy_of(d2, shard) == contents(world.dispatchers["d1"], shard)


def test_a_take_over_reads_only_what_the_copy_has_not(world, d2):
    busy(world, world.worker())
    world.until(lambda: caught_up(world, d2))
    ends = {shard: len(world.broker.log("changelog", shard)) for shard in range(world.shards)}
    d2.follower.before_poll = no_answer  # what comes now is left to the take-over
    world.submit("late")
    world.turn(2)
    world.kill("d1")
    begun = opened(d2)
    world.group.assign("d2", range(world.shards))
    world.until(d2.is_active)
    assert sorted(begun) == sorted(ends.values())
    assert "late" in states_in(contents(d2, world.home("late")))


def no_answer() -> None:
    raise LogError("no broker")


def test_without_replicas_nothing_is_kept_or_asked():
    world = World()
    world.start()
    d2 = world.join("d2", shards=())
    world.wait(30_000)
    assert d2.stores._contents == {}
    assert (d2.roster.asked, d2.follower.begun) == (0, [])


def test_what_was_aborted_or_is_still_open_does_not_reach_a_copy(world, d1, d2):
    world.until(lambda: caught_up(world, d2))
    home = world.home("a")
    before = copy_of(d2, home)
    seen: list[bool] = []

    def look_and_abort(log: FaultLog) -> None:
        world.dispatchers["d2"].engine.turn()  # the records are in the log, and their fate is open
        seen.append(world.broker.stable_end("changelog", home) < len(world.broker.log("changelog", home)))
        assert copy_of(d2, home) == before
        abort(log)

    d1.log.fail("commit", look_and_abort)
    world.submit("a")
    world.turn()
    assert seen == [True]
    check_copies(world, d2)
    world.turn(3)
    world.until(lambda: caught_up(world, d2))
    check_copies(world, d2)
    assert "a" in states_in(copy_of(d2, home))


def test_an_owner_that_loses_a_shard_keeps_its_store_as_a_copy(world, d1, d2):
    busy(world, world.worker())
    world.until(lambda: caught_up(world, d2))
    ends = {shard: len(world.broker.log("changelog", shard)) for shard in range(world.shards)}
    world.group.assign("d2", range(world.shards))
    world.until(d2.is_active)
    world.until(lambda: copies(d1) == set(range(world.shards)))
    assert {shard for shard, _ in d1.follower.begun} == set(range(world.shards))
    assert all(offset >= ends[shard] - 1 for shard, offset in d1.follower.begun)  # a marker stands last
    world.until(lambda: caught_up(world, d1))
    check_copies(world, d1)
    assert copies(d2) == set()


def test_shards_that_come_and_go_at_any_time_stay_whole(world, d1, d2):
    """The copy is at any stage when its shard comes, and the owner at any stage when it goes."""
    worker = world.worker()
    d1.follower.slice_records = d2.follower.slice_records = 3
    check = world.check
    world.check = lambda dispatcher: (check(dispatcher), check_copies(world, dispatcher))
    for round_ in range(12):
        for number in range(6):
            world.submit(f"job-{round_}-{number}")
        worker.offer(3)
        world.turn(round_ % 5)
        for lease in worker.leases():
            worker.done(lease)
        shards = [shard for shard in range(world.shards) if (shard + round_) % 3 != 0]
        world.group.assign(("d1", "d2")[round_ % 2], shards)
        world.turn(round_ % 4)
    world.until(lambda: d1.is_active() and d2.is_active())
    world.until(lambda: caught_up(world, d1) and caught_up(world, d2))


def test_a_shard_that_comes_while_its_copy_is_being_indexed_is_indexed_all_the_same(world, d1, d2):
    world.checking = False
    for number in range(900):
        world.submit(f"job-{number}")
    world.turn(6)
    world.checking = True
    d3 = world.join("d3", shards=())
    world.kill("d2")
    d3.engine._standbys._index = lambda: False  # after the first step
    world.until(lambda: d3.engine._standbys._indexing)
    world.group.assign("d3", range(world.shards))
    world.until(d3.is_active)
    for shard in range(world.shards):
        check_index(contents(d3, shard), states_in(contents(d3, shard)))


def test_a_record_without_a_state_in_a_copy_is_quarantined_by_the_take_over(world, d2):
    world.until(lambda: caught_up(world, d2))
    world.checking = False
    shard = world.home("orphan")
    raw = encode_job(world.spec("orphan"))
    world.broker.append("changelog", shard, keyspace.spec_key("orphan"), raw, at_ms=world.time.ms)
    world.until(lambda: keyspace.spec_key("orphan") in copy_of(d2, shard))
    world.turn(3)
    world.kill("d1")
    world.checking = True
    world.group.assign("d2", range(world.shards))
    world.until(d2.is_active)
    (dead,) = world.dead_letters()
    assert (dead["refusal"], dead["job_id"]) == ("state_missing", "orphan")


def test_job_records_that_have_a_state_are_not_remembered(world, d2):
    world.until(lambda: caught_up(world, d2))
    for number in range(50):
        world.submit(f"job-{number}")
        world.turn()
    world.until(lambda: caught_up(world, d2))
    assert [list(each.unmatched) for each in d2.engine._standbys._running.values()] == [[]] * world.shards


@pytest.mark.parametrize("why", ["topic id", "age", "beyond the end", "before the start"])
def test_a_store_that_cannot_be_trusted_is_wiped_and_read_from_the_start(world, d2, why):
    world.submit("a")
    world.until(lambda: caught_up(world, d2))
    stores: MemoryStores = d2.stores
    world.kill("d2")
    d2.engine.close()
    home = world.home("a")
    kept = stores._contents[home]
    kept.values[keyspace.state_key("ghost")] = b"left over"
    kept.keys.add(keyspace.state_key("ghost"))
    if why == "topic id":
        meta = decode_meta(kept.values[keyspace.META])
        kept.values[keyspace.META] = encode_meta(
            msgspec.structs.replace(meta, topic_ids={"changelog": "made anew"})
        )
    elif why == "age":
        kept.written_at_ms -= HALF_RETENTION_MS
    elif why == "beyond the end":
        kept.offset = 10_000
    d3 = world.join("d3", shards=(), stores=stores)
    if why == "before the start":
        kept.offset -= 1
        d3.follower.starts[home] = kept.offset + 1
        world.checking = False
    world.until(lambda: (home, -1) in d3.follower.begun)
    world.turn(3)
    assert keyspace.state_key("ghost") not in copy_of(d3, home)
    if why != "before the start":
        check_copies(world, d3)


def test_a_copy_that_was_not_read_for_long_is_read_from_the_start(world, d2):
    """Deletions that it has not read may be gone from the log by now."""
    world.until(lambda: caught_up(world, d2))
    world.dispatchers.pop("d2")  # suspended
    for _ in range(14):
        world.wait(3_600_000, every_ms=60_000)
    world.dispatchers["d2"] = d2
    d2.follower.begun.clear()
    world.submit("a")
    world.until(lambda: (world.home("a"), -1) in d2.follower.begun)
    world.until(lambda: caught_up(world, d2))
    check_copies(world, d2)


def test_a_broker_that_does_not_answer_stops_no_turns(world, d1, d2):
    d2.follower.before_poll = no_answer
    world.wait(3_000)
    world.group.assign("d2", [0])
    world.until(lambda: d2.stages() == {0: Stage.ACTIVE})


def test_how_far_copies_are_behind_is_told(world, d1, d2):
    world.until(lambda: caught_up(world, d2))
    world.wait(2_000)
    assert d2.signals.standbys == dict.fromkeys(range(world.shards), 0)
    d2.follower.before_poll = no_answer
    run(world, world.worker(), "a")
    world.wait(2_000)
    assert d2.signals.standbys[world.home("a")] > 0
    world.group.assign("d2", range(world.shards))
    world.wait(2_000)
    assert d2.signals.standbys == {}


def test_copies_take_a_share_of_the_time_only(world, d1, d2):
    world.until(lambda: caught_up(world, d2))
    standbys = d2.engine._standbys
    for number in range(40):
        grant(world, world.worker(), f"job-{number}")
        world.turn()
    d2.follower.slice_records = 1
    clock = [standbys._mono_ms()]
    polls = [0]

    def passing() -> None:
        clock[0] += 1  # so long a slice takes
        polls[0] += 1

    standbys._mono_ms = lambda: clock[0]
    standbys._rests_until_ms, standbys._worked_at_ms = 0, clock[0]
    for shard in range(world.shards):
        d2.follower.next[shard] = 0  # all over again
    d2.follower.before_poll = passing
    clock[0] += 30
    standbys.go_on(())
    assert polls == [6]
    clock[0] += 10_000
    standbys.go_on(())
    assert polls == [6 + d2.engine._config.standby_slice_ms]


def test_a_copy_that_was_cut_short_is_gone_on_with_though_the_log_names_itself_last(world, d1, d2):
    """In a compacted changelog `meta` stands at the end: who has read only half knows all the same whose it is."""
    home = world.home("a")
    for number in range(60):
        world.submit(f"job-{number}")
    world.turn(3)
    log = world.broker.log("changelog", home)
    metas = [offset for offset, stored in enumerate(log) if stored.key == keyspace.META]
    world.broker._skipped[("changelog", home)].update(metas[:-1])
    d3 = world.join("d3", shards=())
    world.kill("d2")
    d3.follower.slice_records = 5
    take = d3.engine._standbys._take

    def cut_short(restore, restored):
        take(restore, restored)
        if restore.number == home:
            raise LogError("cut short")

    d3.engine._standbys._take = cut_short
    world.until(lambda: home in d3.stores._contents and d3.stores._contents[home].offset > 0)
    kept = d3.stores._contents[home]
    offset = kept.offset
    assert keyspace.META not in kept.values
    d3.engine.close()
    world.kill("d3")
    d4 = world.join("d4", shards=(), stores=d3.stores)
    world.until(lambda: home in dict(d4.follower.begun))
    assert next(begun for begun in d4.follower.begun if begun[0] == home) == (home, offset)
    world.until(lambda: caught_up(world, d4))
    check_copies(world, d4)
