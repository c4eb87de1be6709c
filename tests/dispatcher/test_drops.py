"""How long finished jobs are remembered, and when they may go."""

import pytest

from scheduler.codec.commands import encode_command
from scheduler.codec.job import encode_job
from scheduler.core import bounds, keys, keyspace
from scheduler.core.inputs import SUBMITS, TOPIC_OF, Input, band_of
from scheduler.core.outputs import SubmitsRead
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
    world = World(queues=KEEPS, forget_every_ms=1_000)
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
    short.wait(5_000)
    assert "a" not in short.states()
    shard = short.dispatchers["d1"].engine.seats[short.home("a")]
    assert [key for key, _ in shard.store.scan(b"", b"\xff", 100) if b"a" in key[1:]] == []


def test_what_was_dropped_is_deleted_in_the_changelog_too(short):
    finish(short, "failed")
    short.wait(35_000)
    tombstones = [one.key for one in short.records("changelog") if one.value is None]
    assert sorted(tombstones) == [keyspace.spec_key("a"), keyspace.state_key("a")]


@pytest.mark.parametrize("how", ["succeeded", "failed", "expired"])
def test_a_job_with_a_key_shrinks_to_a_stub_that_holds_the_key(short, how):
    job_id = keys.id_from_key("t", "k")
    finish(short, how, job_id, idempotency_key="k", labels={"l": "1"})
    digest = short.state(job_id).admitted.digest
    short.wait(35_000)
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


@pytest.mark.parametrize("source", SUBMITS)
def test_nothing_goes_while_a_submit_topic_cannot_be_read(short, source):
    # It was read to its end before its leader went out of reach: what may lie there since is not known.
    finish(short, "succeeded")
    away = (short.home("a"), source)
    short.dispatchers["d1"].log.silent.add(away)
    short.submit("a", band=band_of(source))
    short.wait(60_000)
    assert "a" in short.states()
    short.dispatchers["d1"].log.silent.discard(away)
    short.wait(8_000)
    assert short.counts["repeated",] == 1
    assert "a" not in short.states()


def test_nothing_goes_while_a_submit_topic_is_read_only_up_to_before_its_keep_time(short):
    finish(short, "succeeded")
    home, log = short.home("a"), short.dispatchers["d1"].log
    short.wait(5_000)
    log.pause(home, Input.SUBMIT_DEFAULT)
    short.publish(b"unread")
    short.submit("a")
    short.wait(60_000)
    assert "a" in short.states()
    log.resume(home, Input.SUBMIT_DEFAULT, short.meta(home).positions["submit.default"])
    short.wait(8_000)
    assert short.counts["repeated",] == 1
    assert "a" not in short.states()


def test_a_repeat_in_somebodys_open_transaction_keeps_the_job(short):
    finish(short, "succeeded")
    offset = short.publish(encode_job(short.spec("a")))
    short.broker.begin_transaction("client", short.time.ms)
    short.broker.add_pending("client", "submit.default", short.home("a"), offset)
    short.wait(60_000)
    assert "a" in short.states()
    short.broker.end_transaction("client", commit=True, at_ms=short.time.ms)
    short.wait(8_000)
    assert short.counts["repeated",] == 1
    assert "a" not in short.states()


def test_an_input_that_ends_with_an_aborted_transaction_is_read_to_its_end(short):
    finish(short, "succeeded")
    offset = short.publish(encode_job(short.spec("a")))
    short.broker.begin_transaction("client", short.time.ms)
    short.broker.add_pending("client", "submit.default", short.home("a"), offset)
    short.broker.end_transaction("client", commit=False, at_ms=short.time.ms)
    short.wait(16_000)
    assert "a" not in short.states()


@pytest.fixture
def pair():
    """Two dispatchers: d1 has the home of job "a" and others, d2 the shard `AWAY`."""
    world = World(queues=KEEPS, forget_every_ms=1_000)
    assert world.home("a") != AWAY
    world.join("d1", shards=[shard for shard in range(world.shards) if shard != AWAY])
    world.join("d2", shards=[AWAY])
    world.until(lambda: all(one.is_active() for one in world.dispatchers.values()))
    world.outlive()
    yield world
    world.finish()


AWAY = (keys.shard_of("a", 4) + 1) % 4


def test_a_repeat_that_lies_unread_in_another_shards_partition_keeps_the_job(pair):
    finish(pair, "succeeded")
    d2 = pair.dispatchers["d2"]
    d2.log.silent.add((AWAY, Input.SUBMIT_DEFAULT))
    pair.submit("a", shard=AWAY)
    pair.wait(60_000)
    assert "a" in pair.states()
    d2.log.silent.clear()
    pair.wait(8_000)
    assert (pair.counts["forwarded",], pair.counts["repeated",]) == (1, 1)
    assert "a" not in pair.states()


def test_a_repeat_that_was_forwarded_and_not_read_yet_keeps_the_job(pair):
    finish(pair, "succeeded")
    home, d1 = pair.home("a"), pair.dispatchers["d1"]
    d1.log.silent.add((home, Input.COMMANDS))
    pair.submit("a", shard=AWAY)
    pair.wait(60_000)
    assert pair.counts["forwarded",] == 1
    assert "a" in pair.states()
    d1.log.silent.clear()
    pair.wait(8_000)
    assert pair.counts["repeated",] == 1
    assert "a" not in pair.states()


def test_word_between_shards_of_one_owner_goes_behind_what_earlier_owners_forwarded(pair):
    finish(pair, "succeeded")
    unread = (pair.home("a"), Input.COMMANDS)
    pair.dispatchers["d1"].log.silent.add(unread)
    pair.submit("a", shard=AWAY)
    pair.wait(5_000)
    assert pair.counts["forwarded",] == 1
    pair.kill("d1")
    pair.kill("d2")
    d3 = pair.join("d3")
    d3.log.silent.add(unread)
    pair.wait(60_000)
    assert "a" in pair.states()
    d3.log.silent.clear()
    pair.wait(12_000)
    assert pair.counts["repeated",] == 1
    assert "a" not in pair.states()


def test_nothing_goes_while_a_shard_has_no_owner(pair):
    finish(pair, "succeeded")
    pair.submit("a", shard=AWAY)
    pair.kill("d2")
    pair.wait(60_000)
    assert "a" in pair.states()
    pair.join("d3", shards=[AWAY])
    pair.wait(12_000)
    assert pair.counts["repeated",] == 1
    assert "a" not in pair.states()


def test_shards_that_nobody_speaks_of_for_long_are_named(pair, caplog):
    pair.wait(15_000)
    pair.dispatchers["d2"].log.silent.add((AWAY, Input.SUBMIT_BULK))
    pair.wait(15_000)
    assert "acted upon" not in caplog.text
    pair.wait(15_000)
    assert f"the submits of shards [{AWAY}] were acted upon" in caplog.text
    pair.dispatchers["d2"].log.silent.clear()
    pair.wait(5_000)
    caplog.clear()
    pair.wait(5_000)
    assert "acted upon" not in caplog.text


def test_a_new_owner_forgets_nothing_before_it_has_heard_of_every_shard(pair):
    finish(pair, "succeeded")
    pair.submit("a", shard=AWAY)
    pair.dispatchers["d2"].log.silent.add((AWAY, Input.SUBMIT_DEFAULT))
    pair.kill("d1")
    pair.join("d3", shards=[shard for shard in range(pair.shards) if shard != AWAY])
    pair.wait(60_000)
    assert "a" in pair.states()
    pair.dispatchers["d2"].log.silent.clear()
    pair.wait(12_000)
    assert pair.counts["repeated",] == 1
    assert "a" not in pair.states()


def test_a_dropped_turn_takes_back_what_was_heard(pair):
    d1 = pair.dispatchers["d1"]
    shard = d1.engine.seats[pair.home("a")].shard
    pair.wait(5_000)
    assert shard.forgets_up_to_ms > 0
    finish(pair, "succeeded")
    pair.until(lambda: pair.broker.stable_end("commands", pair.home("a")) > position_of(d1, pair.home("a")))
    pair.submit("a")
    d1.log.fail("commit", abort)
    d1.engine.turn()
    assert shard.forgets_up_to_ms == 0
    pair.wait(5_000)
    assert shard.forgets_up_to_ms > 0


def position_of(dispatcher, shard: int) -> int:
    return dispatcher.engine.seats[shard].reached(Input.COMMANDS)


def test_word_of_shards_that_do_not_exist_is_passed_over(short):
    shard = short.dispatchers["d1"].engine.seats[0].shard
    before = shard.forgets_up_to_ms
    word = SubmitsRead((short.shards, -1, 1 << 20), short.time.ms + DAY)
    short.broker.append("commands", 0, None, encode_command(word), at_ms=short.time.ms)
    short.turn(2)
    assert shard.forgets_up_to_ms < short.time.ms and shard.forgets_up_to_ms >= before
    assert short.dead_letters() == []


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
    world = World(
        queues=queues, turn_decide_ms=-1, forget_every_ms=1_000
    )  # each turn runs out of time after a few records
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
    world.wait(10_000, every_ms=100)
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
    for _ in range(9):
        short.turn(every_ms=1_000)
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
