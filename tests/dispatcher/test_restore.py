"""Taking over a shard: from an own disk, from nothing, from a disk that can't be trusted, behind an open transaction."""

import itertools

import msgspec
import pytest

from scheduler.codec.job import encode_job
from scheduler.codec.meta import decode_meta, encode_meta
from scheduler.core import keyspace
from scheduler.core.inputs import TOPIC_OF
from scheduler.core.reports import ReleaseReason
from scheduler.core.settings import QueueSettings
from scheduler.dispatcher.ports import ANYBODY, LogError, PositionLost, Restored
from scheduler.dispatcher.restoring import NotPrepared
from scheduler.dispatcher.seat import Stage
from scheduler.storage.memory import MemoryStores
from tests.dispatcher.checks import check_index, replayed, states_in
from tests.dispatcher.fault_log import FaultLog, abort, fenced
from tests.dispatcher.lives import grant, run
from tests.dispatcher.world import Dispatcher, World


def busy(world: World, worker) -> None:
    """Bring jobs into every state there is."""
    world.submit("scheduled", run_at_ms=world.time.ms + 3_600_000)
    world.submit("expired", expires_at_ms=world.time.ms)
    worker.done(grant(world, worker, "succeeded"))
    worker.fail(grant(world, worker, "failed", max_attempts=1))
    worker.release(grant(world, worker, "tiered"), ReleaseReason.SNOOZED, delay_ms=40_000)
    worker.release(grant(world, worker, "timed"), ReleaseReason.SNOOZED, delay_ms=4_000)
    run(world, worker, "leased")
    world.submit("ready")
    world.turn(3)
    phases = {state.job_id: str(state.phase) for state in world.states().values()}
    assert phases == {
        "scheduled": "scheduled",
        "expired": "expired",
        "succeeded": "succeeded",
        "failed": "failed",
        "tiered": "retrying",
        "timed": "retrying",
        "leased": "leased",
        "ready": "ready",
    }


def contents(dispatcher: Dispatcher, shard: int) -> dict[bytes, bytes]:
    return dict(dispatcher.engine.seats[shard].store.scan(b"", b"\xff", 1 << 30))


def without_meta(values: dict[bytes, bytes]) -> dict[bytes, bytes]:
    return {key: value for key, value in values.items() if key != keyspace.META}


def opened(dispatcher: Dispatcher) -> list[int]:
    """Note at which offset each restore begins."""
    begun: list[int] = []
    begin = dispatcher.changelog.begin
    dispatcher.changelog.begin = lambda shard, offset: (begun.append(offset), begin(shard, offset))[1]
    return begun


def closed(dispatcher: Dispatcher) -> MemoryStores:
    """Return the stores of a dispatcher that died, as the next process finds them."""
    for seat in dispatcher.engine.seats.values():
        if seat.store is not None:
            seat.store.close()
    return dispatcher.stores


def test_a_store_rebuilt_from_nothing_equals_the_one_that_was_live(world, worker):
    busy(world, worker)
    d1 = world.kill("d1")
    live = {shard: without_meta(contents(d1, shard)) for shard in range(world.shards)}
    d2 = world.join("d2")
    world.until(lambda: d2.engine.seats and Stage.RESTORING not in d2.stages().values())
    for shard in range(world.shards):
        assert without_meta(contents(d2, shard)) == live[shard]


def test_a_store_that_lags_reads_only_the_rest_and_equals_a_rebuilt_one(world, worker):
    busy(world, worker)
    d1 = world.kill("d1")
    stores = closed(d1)
    ends = {stores._contents[shard].offset for shard in range(world.shards)}
    d2 = world.start("d2")
    worker.hear()
    worker.done(grant(world, worker, "more"))
    world.turn(2)
    world.kill("d2")
    d3 = world.join("d3", stores=stores)
    begun = opened(d3)
    world.until(d3.is_active)
    assert set(begun) == ends
    for shard in range(world.shards):
        assert without_meta(contents(d3, shard)) == without_meta(contents(d2, shard))
        check_index(contents(d3, shard), states_in(replayed(world.broker, shard)))


@pytest.mark.parametrize("why", ["cluster", "shards", "topic id", "layout", "age", "beyond"])
def test_a_store_that_cannot_be_trusted_is_wiped(world, worker, why):
    busy(world, worker)
    stores = closed(world.kill("d1"))
    for shard in range(world.shards):
        kept = stores._contents[shard]
        meta = decode_meta(kept.values[keyspace.META])
        changes = {
            "cluster": {"cluster_id": "another"},
            "shards": {"shards": 3},
            "topic id": {"topic_ids": {"changelog": "made anew"}},
            "layout": {"layout": 99},
        }.get(why, {})
        kept.values[keyspace.META] = encode_meta(msgspec.structs.replace(meta, **changes))
        kept.values[keyspace.state_key("ghost")] = b"left over"
        if not kept.keys.between(keyspace.state_key("ghost"), keyspace.state_key("ghost") + b"\0", 1):
            kept.keys.add(keyspace.state_key("ghost"))
        if why == "beyond":
            kept.offset = 10_000
    if why == "age":
        world.time.ms += 13 * 3_600_000  # half of `delete.retention.ms` is 12 h
    d2 = world.join("d2", stores=stores)
    begun = opened(d2)
    world.until(d2.is_active, every_ms=1)
    assert begun[-1] == -1
    assert "ghost" not in world.states()
    assert keyspace.state_key("ghost") not in contents(d2, 0)


def test_a_store_that_gets_too_old_while_it_waits_for_its_end_is_not_used(world, worker):
    # Tombstones behind it may have gone before it was read: it is looked at again when the end is reached.
    busy(world, worker)
    stores = closed(world.kill("d1"))
    world.time.ms += 11 * 3_600_000
    d2 = world.join("d2", stores=stores)
    poll = d2.changelog.poll
    d2.changelog.poll = lambda budget_ms: []
    world.turn(3)
    world.time.ms += 2 * 3_600_000
    d2.changelog.poll = poll
    begun = opened(d2)
    world.until(d2.is_active, every_ms=1)
    assert -1 in begun


def unanswered(dispatcher: Dispatcher, times: int) -> list[int]:
    """Let the next questions where a changelog ends go without an answer; return when they were asked."""
    asked: list[int] = []
    begin = dispatcher.changelog.begin

    def beginning(shard: int, offset: int) -> None:
        asked.append(dispatcher.clock.mono_ms())
        if len(asked) <= times:
            raise LogError("no answer")
        begin(shard, offset)

    dispatcher.changelog.begin = beginning
    return asked


def test_a_changelog_that_does_not_say_where_it_ends_is_asked_again_in_a_while(world):
    world.kill("d1")
    d2 = world.join("d2")
    asked = unanswered(d2, times=3)
    world.wait(5_000, every_ms=50)
    assert d2.is_active()
    assert min(later - earlier for earlier, later in itertools.pairwise(asked[:4])) >= 1_000


def test_a_restore_whose_position_is_gone_begins_anew_even_if_nobody_answers_at_first(world):
    world.submit("a")
    world.turn(2)
    world.kill("d1")
    d2 = world.join("d2")
    poll = d2.changelog.poll

    def lost(wait_ms: int) -> list[Restored]:
        d2.changelog.poll = poll
        raise PositionLost("changelog", world.home("a"), 0, -1, -1)

    world.turn()
    d2.changelog.poll = lost
    asked = unanswered(d2, times=1)
    world.wait(3_000, every_ms=50)
    assert len(asked) >= 2
    assert d2.is_active()
    assert d2.engine.seats[world.home("a")].shard.state("a") is not None


def test_a_restore_goes_on_in_slices_while_other_shards_work(world, worker):
    home = world.home("a")
    other = next(shard for shard in range(world.shards) if shard != home)
    for number in range(300):
        world.submit(f"job-{number}")
    world.turn(3)
    world.group.assign("d1", [home])
    d2 = world.join("d2", shards=[other])
    d2.changelog._slice_records = 10
    world.turn()
    turns = 0
    while not d2.is_active():
        world.turn()
        turns += 1
    assert turns > 10


def test_a_restore_that_is_cut_short_by_a_rebalance_is_kept(world, worker):
    for number in range(300):
        world.submit(f"job-{number}")
    world.turn(3)
    stores = MemoryStores()
    world.group.assign("d1", range(world.shards))
    d2 = world.join("d2", shards=[1], stores=stores)
    d2.changelog._slice_records = 10
    world.turn(4)
    assert d2.stages() == {1: Stage.RESTORING}
    world.group.assign("d1", [1])
    world.turn(2)
    assert d2.stages() == {}
    offset = stores._contents[1].offset
    assert offset > 0
    begun = opened(d2)
    world.group.assign("d2", [1])
    world.turn(2)
    assert begun == [offset]
    world.until(d2.is_active)


def test_what_was_restored_twice_over_has_the_right_indexes():
    # The first restore was cut short while it built them; the log went on since.
    world = World(restore_slice_ms=0)  # one step a turn
    world.start()
    worker = world.worker()
    jobs = [f"job-{n}" for n in range(6_000) if world.home(f"job-{n}") == 1][:1_300]
    world.checking = False
    for job_id in jobs:
        world.submit(job_id)
    world.turn(4)
    world.checking = True
    stores = MemoryStores()
    d2 = world.join("d2", shards=[1], stores=stores)
    d2.changelog._slice_records = 100_000
    world.turn(3)  # the log is read, and the first indexes are there
    assert d2.stages() == {1: Stage.RESTORING}
    assert any(key.startswith(keyspace.READY) for key in stores._contents[1].values)
    world.group.assign("d1", [1])
    world.until(world.dispatchers["d1"].is_active)
    worker.offer(900)
    world.turn(2)
    for lease in worker.leases():
        worker.done(lease)
    world.turn(3)
    world.group.assign("d2", [1])
    world.until(d2.is_active)
    world.finish()
    check_index(contents(d2, 1), states_in(replayed(world.broker, 1)))


def die_in_transaction(log: FaultLog) -> None:
    raise KeyboardInterrupt


def test_an_open_transaction_of_an_owner_that_left_is_ended_soon(world, worker):
    d1 = world.dispatchers["d1"]
    lease = grant(world, worker)
    worker.done(lease)
    d1.log.fail("commit", die_in_transaction)
    with pytest.raises(KeyboardInterrupt):
        world.turn()
    world.kill("d1")
    d2 = world.join("d2")
    start = world.time.ms
    world.until(d2.is_active, every_ms=50)
    assert 300 <= world.time.ms - start <= 1_500
    assert "fence_owner" in d2.log.calls
    assert world.state().phase == "succeeded"  # read again, since that transaction never was
    assert len(world.lifecycle()) == 1


def test_an_owner_that_is_still_a_member_is_not_fenced(world, worker):
    d1 = world.dispatchers["d1"]
    world.submit("a")
    d1.log.fail("commit", die_in_transaction)
    with pytest.raises(KeyboardInterrupt):
        world.turn()
    world.dispatchers.pop("d1")  # suspended: its member is still there
    d2 = world.join("d2")
    world.wait(5_000, every_ms=100)
    assert Stage.RESTORING in d2.stages().values()
    world.group.evicted.add("d1")
    world.until(d2.is_active, every_ms=100)
    world.turn(2)
    assert world.state().phase == "ready"


def test_one_that_stays_open_all_the_same_is_told(world, worker, caplog):
    """Brokers that lost track of a transaction: its owner is fenced once as one that left, once as whoever it is by now."""
    d1 = world.dispatchers["d1"]
    lease = grant(world, worker)
    worker.done(lease)
    d1.log.fail("commit", die_in_transaction)
    with pytest.raises(KeyboardInterrupt):
        world.turn()
    world.kill("d1")
    world.checking = False
    d2 = world.join("d2")
    asked: list[tuple[str, str]] = []
    d2.log.fence_owner = lambda *who: bool(asked.append(who)) or True
    world.wait(190_000, every_ms=500)
    assert asked == [(d1.log.owner, d1.log.member), (d1.log.owner, ANYBODY)]
    told = [record.getMessage() for record in caplog.records if "find-hanging" in record.getMessage()]
    assert ["waited for 60 s" in told[0], "waited for 120 s" in told[1], len(told)] == [True, True, 3]
    stages = d2.stages()
    assert [shard for shard, stage in stages.items() if stage is Stage.RESTORING] == [lease.shard]


def test_one_that_is_still_a_member_is_fenced_when_no_transaction_of_it_can_be_open(world, worker):
    """It committed, and does not know that the brokers have lost sight of that."""
    d1 = world.dispatchers["d1"]
    worker.done(grant(world, worker))
    d1.log.fail("commit", die_in_transaction)
    with pytest.raises(KeyboardInterrupt):
        world.turn()
    world.dispatchers.pop("d1")
    d2 = world.join("d2")
    d2.log.fence_owner = lambda owner, member: (
        member == ANYBODY and world.broker.end_transaction(owner, commit=True, at_ms=world.time.ms) is None
    )
    world.wait(30_000, every_ms=100)
    assert Stage.RESTORING in d2.stages().values()
    world.until(d2.is_active, every_ms=100, turns=400)


def test_an_own_open_transaction_is_not_waited_for(world):
    d1 = world.dispatchers["d1"]
    world.submit("a")
    d1.log.fail("flush", fenced)
    world.turn()
    world.until(d1.is_active)
    assert "fence_owner" not in d1.log.calls


def test_a_record_without_a_state_is_quarantined_and_never_run(world, worker):
    shard = world.home("orphan")
    raw = encode_job(world.spec("orphan"))
    world.kill("d1")
    world.broker.append("changelog", shard, keyspace.spec_key("orphan"), raw, at_ms=world.time.ms)
    world.start("d2")
    world.turn(2)
    worker.offer(5)
    world.turn(3)
    assert worker.leases() == []
    (dead,) = world.dead_letters()
    assert (dead["refusal"], dead["job_id"]) == ("state_missing", "orphan")
    assert world.records("dlq")[0].value == raw
    assert keyspace.spec_key("orphan") not in contents(world.dispatchers["d2"], shard)


def test_a_job_that_came_and_went_while_nobody_looked_is_no_orphan():
    """Its record is read back in one slice, and that it is gone in another."""
    keep = QueueSettings(keep_succeeded_ms=1_000)
    world = World(queues={"q": keep}, forget_every_ms=1_000)
    d1 = world.start()
    worker = world.worker()
    old = copied(d1)
    worker.done(grant(world, worker))
    world.wait(5_000)
    assert not world.states()
    world.kill("d1")
    d2 = world.join("d2", stores=old)
    d2.changelog._slice_records = 1
    world.until(d2.is_active)
    assert not world.dead_letters()


def copied(dispatcher: Dispatcher) -> MemoryStores:
    """Return the stores as they are, for a process that wakes up to them later."""
    stores = MemoryStores()
    for shard, seat in dispatcher.engine.seats.items():
        store = stores.open(shard)
        store.write(contents(dispatcher, shard).items(), (), seat.store.offset, seat.store.written_at_ms)
        store.close()
    return stores


def test_such_a_record_is_found_behind_a_store_that_lags_too(world, worker):
    stores = closed(world.kill("d1"))
    shard = world.home("orphan")
    raw = encode_job(world.spec("orphan"))
    world.broker.append("changelog", shard, keyspace.spec_key("orphan"), raw, at_ms=world.time.ms)
    world.start("d2", stores=stores)
    world.turn(2)
    assert [dead["refusal"] for dead in world.dead_letters()] == ["state_missing"]


def test_such_a_record_is_not_forgotten_when_the_claim_fails(world, worker):
    shard = world.home("orphan")
    world.kill("d1")
    world.broker.append(
        "changelog", shard, keyspace.spec_key("orphan"), encode_job(world.spec("orphan")), at_ms=world.time.ms
    )
    d2 = world.join("d2")
    d2.log.fail("commit", abort)
    world.checking = False
    world.until(d2.is_active)
    world.checking = True
    world.turn(3)
    assert len(world.dead_letters()) == 1


RUBBISH = {
    "a key of nobody": (b"zzz", b"value"),
    "no key": (None, b"value"),
    "a state that is none": (keyspace.state_key("leased"), b"rubbish"),
    "a state of nobody": (keyspace.state_key("ghost"), b"rubbish"),
    "a meta that is none": (keyspace.META, b"rubbish"),
    "no meta any more": (keyspace.META, None),
    "an index key": (keyspace.leased_key("ghost"), b""),
}


@pytest.mark.parametrize("what", list(RUBBISH))
@pytest.mark.parametrize("disk", ["empty", "own"])
def test_a_polluted_changelog_stops_nobody(caplog, what, disk):
    world = World()
    world.start()
    world.outlive()
    busy(world, world.worker())
    d1 = world.kill("d1")
    stores = closed(d1) if disk == "own" else None
    key, value = RUBBISH[what]
    for shard in range(world.shards):
        world.broker.append("changelog", shard, key, value, at_ms=world.time.ms)
    before = {state.job_id for state in d1.engine.seats[0].shard.live()}
    world.checking = False  # what the rubbish overwrote in the log is not what a live store holds
    d2 = world.start("d2", stores=stores)
    world.submit("more")
    world.turn(3)
    assert d2.is_active()
    assert "polluted" in caplog.text
    shard = d2.engine.seats[world.home("more")].shard
    assert shard.state("more").phase == "ready"
    assert d2.engine.seats[0].shard.state("ghost") is None
    if disk == "own":
        assert {state.job_id for state in d2.engine.seats[0].shard.live()} == before


@pytest.mark.parametrize("unanswered_times", [0, 1])
def test_a_suspended_restore_whose_meta_was_superseded_and_cleaned_reads_on(unanswered_times):
    world = World(shards=1)
    d1 = world.join("d1")
    poll, d1.changelog.poll = d1.changelog.poll, lambda wait_ms: []
    asked = opened(d1)
    world.turn(3)
    assert asked == [-1]  # begun, and nothing read yet
    log, meta = world.broker.log("changelog", 0), encode_meta(world.meta(0))
    world.broker._skipped.setdefault(("changelog", 0), set()).update(range(len(log)))  # by the cleaner
    for n in range(150):  # more than it gets at once
        world.broker.append("changelog", 0, keyspace.STATE + b"%d" % n, None, at_ms=world.time.ms)
    world.broker.append("changelog", 0, keyspace.META, meta, at_ms=world.time.ms)
    d1.changelog.poll = poll
    again = unanswered(d1, times=unanswered_times)
    world.wait(3_000, every_ms=50)
    assert d1.is_active()
    assert len(again) == 1 + unanswered_times
    assert (asked[1] == -1) is bool(unanswered_times)  # without an answer everything is read again


@pytest.mark.parametrize(
    "changes",
    [{"cluster_id": "another"}, {"shards": 3}, {"topic_ids": {"reports": "made anew"}}, {"layout": 99}],
    ids=lambda changes: next(iter(changes)),
)
def test_a_shard_that_was_made_for_other_topics_is_refused(changes):
    world = World(shards=2)
    meta = msgspec.structs.replace(world.meta(0), **changes)
    world.broker.append("changelog", 0, keyspace.META, encode_meta(meta), at_ms=world.time.ms)
    world.config.ground.topic_ids["reports"] = "id-9"
    d1 = world.join("d1")
    with pytest.raises(NotPrepared):
        for _ in range(5):
            d1.engine.turn()


def test_group_offsets_are_never_asked_meta_is_the_truth(world, worker):
    world.submit("a")
    world.turn(2)
    positions = {shard: world.meta(shard).positions for shard in range(world.shards)}
    world.kill("d1")
    d2 = world.join("d2")
    followed: dict[int, dict] = {}
    follow = d2.log.follow
    d2.log.follow = lambda shard, offsets, epochs: (
        followed.update({shard: dict(offsets)}),
        follow(shard, offsets, epochs),
    )[1]
    world.until(d2.is_active)
    for shard in range(world.shards):
        assert {TOPIC_OF[source]: offset for source, offset in followed[shard].items()} == positions[shard]
