"""What a turn's transaction holds, in which order things happen, and what needs none."""

import pytest

from scheduler.codec.meta import decode_meta
from scheduler.core import keyspace
from scheduler.core.inputs import TOPIC_OF, Input
from scheduler.dispatcher.restoring import NotPrepared
from tests.dispatcher.fault_log import abort
from tests.dispatcher.lives import grant, run
from tests.dispatcher.world import World

STEPS = ("begin", "flush", "fence", "commit", "release", "echo")


def steps(d1) -> list[str]:
    return [call for call in d1.log.calls if call in STEPS]


def test_begin_flush_fence_commit_then_release(world, d1, worker):
    d1.log.calls.clear()
    d1.failpoints.clear()
    worker.offer()
    world.submit("a")
    world.turn()
    assert steps(d1)[:5] == ["begin", "flush", "fence", "commit", "release"]
    assert d1.failpoints == ["before_commit", "after_commit", "after_store"]


def test_the_store_is_written_between_commit_and_release(world, d1, worker):
    order: list[str] = []
    store = d1.engine.seats[world.home("a")].store
    write, commit, release = store.write, d1.log.commit, d1.log.release
    store.write = lambda *args: (order.append("store"), write(*args))
    d1.log.commit = lambda: (order.append("commit"), commit())
    d1.log.release = lambda records: (order.append("release"), release(records))
    worker.offer()
    world.submit("a")
    world.turn()
    assert order == ["commit", "store", "release"]


def test_every_transaction_carries_a_reports_offset_of_an_owned_shard(world, d1, worker):
    grant(world, worker)
    world.submit("later", run_at_ms=world.time.ms + 5_000)
    world.wait(20_000)
    assert d1.log.fences
    for offsets in d1.log.fences:
        driver = [shard for shard, source in offsets if source is Input.REPORTS]
        assert driver
        assert set(driver) <= set(d1.engine.seats)
        assert all(offset >= 0 for offset in offsets.values())


def test_a_turn_of_timers_alone_carries_it_too(world, d1):
    world.submit("a", run_at_ms=world.time.ms + 5_000)
    world.wait(4_900, every_ms=100)
    before = len(d1.log.fences)
    world.turn(3, every_ms=100)
    woken = d1.log.fences[before:]
    assert any((world.home("a"), Input.REPORTS) in offsets for offsets in woken)
    assert world.state("a").phase == "ready"


def test_the_changelog_holds_the_spec_before_the_state_and_meta_last(world):
    shard = world.home("a")
    before = len(world.broker.log("changelog", shard))
    world.submit("a")
    world.turn()
    keys = [stored.key for _, stored in world.broker.read("changelog", shard, before)]
    assert keys == [keyspace.spec_key("a"), keyspace.state_key("a"), keyspace.META]


def test_meta_holds_all_positions_and_who_owns_the_shard(world, d1):
    shard = world.home("a")
    world.submit("a")
    world.turn()
    meta = world.meta(shard)
    assert set(meta.positions) == set(TOPIC_OF.values())
    assert meta.positions["submit.default"] == 1
    assert (meta.owner, meta.member) == ("d1", "member-d1")
    assert (meta.cluster_id, meta.shards, meta.epoch) == ("cluster", world.shards, 0)


def test_one_meta_record_a_touched_shard_and_turn(world, d1):
    before = {shard: len(world.broker.log("changelog", shard)) for shard in range(world.shards)}
    for number in range(40):
        world.submit(f"job-{number}")
    world.turn()
    for shard in range(world.shards):
        keys = [stored.key for _, stored in world.broker.read("changelog", shard, before[shard])]
        assert keys.count(keyspace.META) == 1


def test_a_turn_that_sends_a_notice_is_committed_first(world, d1, worker):
    # Else an owner that was suspended, and is one no more, revokes live runs.
    lease = run(world, worker)
    worker.done(lease)
    world.turn(2)
    worker.hear()
    d1.log.calls.clear()
    worker.beat(lease)
    world.turn()
    assert steps(d1)[:5] == ["begin", "flush", "fence", "commit", "release"]
    assert len(worker.revokes()) == 1


def test_notices_of_a_turn_that_fails_are_never_sent(world, d1, worker):
    lease = run(world, worker)
    worker.done(lease)
    world.turn(2)
    worker.hear()
    # Suspended in mid-turn, and thrown out meanwhile.
    d1.log.fail("flush", lambda log: log.group.evicted.add("d1"))
    worker.beat(lease)
    worker.offer(3)
    world.submit("b")
    world.turn(1)
    assert worker.hear() == []
    assert "b" not in world.states()


def test_offers_beats_and_echoes_alone_are_not_committed(world, d1, worker):
    lease = run(world, worker)
    world.wait(1_100)
    world.turn(2)
    d1.log.calls.clear()
    for _ in range(5):
        worker.offer(1)
        worker.beat(lease)
        world.turn(every_ms=10)
    assert "begin" not in d1.log.calls


def test_positions_go_out_after_a_second(world, d1, worker):
    world.wait(1_100)
    world.turn(2)
    start = world.time.ms
    worker.offer(1)
    end = len(world.broker.log("reports", 0))
    world.until(lambda: world.meta(0).positions["reports"] == end, every_ms=50)
    assert 900 <= world.time.ms - start <= 1_150


def test_a_quiet_dispatcher_commits_little(world, d1):
    """Once a minute the position of an echo, and word to all shards with the positions of that."""
    world.wait(3_000)
    d1.log.calls.clear()
    words = len(world.records("commands"))
    world.wait(60_000)
    assert d1.log.calls.count("echo") == 1
    assert d1.log.calls.count("begin") <= 4
    assert len(world.records("commands")) - words == world.shards


def test_the_first_transaction_of_an_owner_is_meta_alone_before_any_input_is_read(world):
    world.kill("d1")
    world.submit("a")
    world.group.evicted.discard("d1")
    before = {shard: len(world.broker.log("changelog", shard)) for shard in range(world.shards)}
    d2 = world.join("d2")
    reads: list[str] = []
    take = d2.engine._intake.take
    d2.engine._intake.take = lambda shard, moment, record: (
        reads.append(world.meta(shard.number).owner),
        take(shard, moment, record),
    )[1]
    world.until(d2.is_active)
    for shard in range(world.shards):
        first = next(iter(world.broker.read("changelog", shard, before[shard])))[1]
        assert first.key == keyspace.META
        assert decode_meta(first.value).owner == "d2"
        (fence,) = [offsets for offsets in d2.log.fences[:1] if (shard, Input.REPORTS) in offsets]
        assert fence[shard, Input.REPORTS] >= 0
    assert set(reads) == {"d2"}


def test_other_group_offsets_go_out_every_five_seconds_only(world, d1):
    d1.log.fences.clear()
    for number in range(40):
        world.submit(f"job-{number}")
        world.turn(every_ms=500)
    full = [offsets for offsets in d1.log.fences if any(source is not Input.REPORTS for _, source in offsets)]
    assert 3 <= len(full) <= 5
    assert len(d1.log.fences) >= 40


def test_lag_tools_see_no_lag_on_a_quiet_dispatcher(world, d1):
    # What the last turns of a busy time read goes out too, although nothing else has to be committed.
    world.wait(6_000)
    for number in range(20):
        world.submit(f"job-{number}")
        world.turn(every_ms=100)
    world.wait(7_000)
    told: dict[tuple[int, Input], int] = {}
    for offsets in d1.log.fences:
        told |= offsets
    for seat in d1.engine.seats.values():
        for source, offset in seat.positions.items():
            assert told[seat.number, source] == offset, (seat.number, source)
    commits = d1.signals.commits
    world.wait(30_000)
    assert d1.signals.commits <= commits + 4  # of an echo, and of word to all shards


def test_a_crash_after_the_commit_and_before_the_store_loses_nothing(world, d1, worker):
    # The store is behind the changelog then; the restore reads the rest.
    store = d1.engine.seats[world.home("a")].store
    store.write = lambda *args: (_ for _ in ()).throw(KeyboardInterrupt)
    worker.offer()
    world.submit("a")
    try:
        d1.engine.turn()
    except KeyboardInterrupt:
        pass
    del store.write
    world.kill("d1")
    d1.engine.close()
    world.start("d2", stores=d1.stores)
    assert world.state("a").phase == "leased"
    assert [lease.job_id for lease in worker.leases()] == ["a"]


def test_a_shard_without_meta_is_not_prepared():
    world = World(shards=1)
    world.broker.log("changelog", 0).clear()
    d1 = world.join("d1")
    with pytest.raises(NotPrepared, match="topics apply"):
        for _ in range(5):
            d1.engine.turn()


def test_positions_of_an_aborted_turn_are_not_in_any_meta(world, d1):
    world.submit("a")
    d1.log.fail("commit", abort)
    world.turn()
    assert world.meta(world.home("a")).positions["submit.default"] == 0
    world.turn(3)
    assert world.meta(world.home("a")).positions["submit.default"] == 1
