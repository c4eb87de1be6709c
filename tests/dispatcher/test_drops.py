"""How long finished jobs are remembered, and when they may go."""

import pytest

from scheduler.core import bounds, keys, keyspace
from scheduler.core.inputs import SUBMITS, TOPIC_OF, Input
from scheduler.core.settings import QueueSettings
from scheduler.core.spec import Band
from tests.dispatcher.fault_log import abort
from tests.dispatcher.lives import grant
from tests.dispatcher.world import World

HOUR, DAY = bounds.HOUR_MS, bounds.DAY_MS
KEEPS = {
    "q": QueueSettings(
        keep_succeeded_ms=10_000, keep_cancelled_ms=20_000, keep_failed_ms=30_000, keep_keys_ms=60_000
    )
}


@pytest.fixture
def short():
    world = World(queues=KEEPS)
    world.start()
    world.outlive()
    yield world
    world.finish()


def finish(world: World, how: str, job_id: str = "a", **fields) -> None:
    worker = world.worker()
    if how == "expired":
        world.submit(job_id, expires_at_ms=world.time.ms, **fields)
    else:
        lease = grant(world, worker, job_id, max_attempts=1, **fields)
        {"succeeded": worker.done, "failed": worker.fail}[how](lease)
    world.turn(2)
    assert world.state(job_id).phase == how


@pytest.mark.parametrize(("how", "keep_ms"), [("succeeded", 10_000), ("expired", 20_000), ("failed", 30_000)])
def test_a_job_goes_at_its_queues_keep_time_and_not_before(short, how, keep_ms):
    finish(short, how)
    short.wait(keep_ms - 1_000)
    assert short.state("a").phase == how
    short.wait(3_000)
    assert "a" not in short.states()
    shard = short.dispatchers["d1"].engine.seats[short.home("a")]
    assert [key for key, _ in shard.store.scan(b"", b"\xff", 100) if b"a" in key[1:]] == []


def test_what_was_dropped_is_deleted_in_the_changelog_too(short):
    finish(short, "failed")
    short.wait(33_000)
    tombstones = [one.key for one in short.records("changelog") if one.value is None]
    assert sorted(tombstones) == [keyspace.spec_key("a"), keyspace.state_key("a")]


@pytest.mark.parametrize("how", ["succeeded", "failed", "expired"])
def test_a_job_with_a_key_shrinks_to_a_stub_that_holds_the_key(short, how):
    job_id = keys.id_from_key("t", "k")
    finish(short, how, job_id, idempotency_key="k", labels={"l": "1"})
    digest = short.state(job_id).admitted.digest
    short.wait(33_000)
    state = short.state(job_id)
    assert state.end.stub
    assert (state.phase, state.admitted.digest) == (how, digest)
    assert (state.grant, state.admitted.labels, state.end.result) == (None, {}, b"")
    short.submit(job_id, idempotency_key="k")
    short.turn(2)
    assert short.counts["repeated",] == 1
    short.wait(30_000)
    assert job_id not in short.states()
    short.submit(job_id, idempotency_key="k")
    short.turn(2)
    assert short.state(job_id).phase == "ready"


@pytest.mark.parametrize("source", list(Band))
def test_nothing_goes_while_a_submit_topic_is_read_only_up_to_its_end(source):
    # A repeat that was published before the job ended may still be unread.
    world = World(queues=KEEPS)
    world.start()
    world.outlive()
    d1 = world.dispatchers["d1"]
    finish(world, "succeeded")
    topic = {
        Band.INTERACTIVE: "SUBMIT_INTERACTIVE",
        Band.DEFAULT: "SUBMIT_DEFAULT",
        Band.BULK: "SUBMIT_BULK",
    }[source]
    shard = world.home("a")
    d1.log.pause(shard, Input[topic])
    world.publish(b"unread", band=source)
    seat = d1.engine.seats[shard]
    seat.at_end.discard(Input[topic])
    seat.shard.read_up_to_ms[Input[topic]] = world.state("a").end.at_ms
    world.wait(60_000)
    assert "a" in world.states()
    d1.log.resume(shard, Input[topic], seat.positions[Input[topic]])
    world.wait(3_000)
    assert "a" not in world.states()
    world.finish()


def test_a_repeat_that_waited_for_weeks_finds_the_job_it_repeats(short):
    # All dispatchers are away while the keep time runs out; the repeat is read before anything is dropped.
    worker = short.worker()
    lease = grant(short, worker, "a")
    short.submit("a")
    short.kill("d1")
    worker.done(lease)
    short.time.ms += 21 * DAY
    d2 = short.join("d2")
    short.until(d2.is_active, every_ms=500)
    short.wait(30_000)
    worker.offer()
    short.turn(3)
    assert worker.leases() == []
    assert short.counts["repeated",] == 1


def test_a_repeat_that_was_polled_but_waits_for_a_later_turn_keeps_the_job():
    # The log has handed over everything, so the topic is read to its end; it is not acted upon to its end.
    queues = {"q": QueueSettings(keep_succeeded_ms=100)}
    world = World(queues=queues, turn_decide_ms=-1)  # each turn runs out of time after a few records
    world.start()
    world.outlive()
    worker = world.worker()
    lease = grant(world, worker, "a")
    for number in range(300):
        world.submit(f"flood-{number}", band=Band.INTERACTIVE)
    world.submit("a", payload=b"other")
    worker.done(lease)
    world.turn(4, every_ms=1_000)
    assert world.counts["conflict",] == 0  # still waiting
    world.turn(4)
    assert world.counts["conflict",] == 1
    world.wait(5_000)
    assert "a" not in world.states()
    world.finish()


def test_a_dropped_turn_takes_back_how_far_submits_were_read(short):
    d1 = short.dispatchers["d1"]
    finish(short, "succeeded")
    seat = d1.engine.seats[short.home("a")]
    short.submit("a", payload=b"other")
    d1.log.fail("commit", abort)
    short.turn()
    assert short.counts["conflict",] == 0
    assert min(seat.shard.read_up_to_ms[source] for source in SUBMITS) == 0


def test_many_jobs_go_in_bounded_batches(short):
    short.checking = False
    for number in range(2_500):
        short.submit(f"job-{number}", expires_at_ms=short.time.ms)
    short.turn(4)
    assert len(short.states()) == 2_500
    short.time.ms += 21_000
    before = 2_500
    for _ in range(6):
        short.turn()
        now = len(short.states())
        assert before - now <= 1_000
        before = now
    assert before == 0
    short.checking = True
    short.turn()


def test_consumed_prefixes_are_deleted_up_to_what_was_committed_a_period_ago(world, d1):
    world.submit("a")
    world.turn(2)
    world.wait(HOUR + 120_000, every_ms=60_000)
    first = [offsets for offsets in d1.log.deleted if offsets]
    assert len(first) == 1
    assert set(first[0].values()) == {0}  # what was committed when this owner began
    world.submit("b")
    world.wait(HOUR + 120_000, every_ms=60_000)
    second = d1.log.deleted[-1]
    assert second[world.home("a"), Input.SUBMIT_DEFAULT] >= 1
    assert (
        second[world.home("b"), Input.SUBMIT_DEFAULT]
        <= world.meta(world.home("b")).positions["submit.default"]
    )
    for (shard, source), offset in second.items():
        assert offset <= world.meta(shard).positions[TOPIC_OF[source]]
