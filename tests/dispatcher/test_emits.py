"""What runs emit: published with the completion that is accepted, or not at all."""

import pytest

from scheduler.codec.job import encode_job
from scheduler.core import keys
from scheduler.core.reports import Emit
from scheduler.core.settings import QueueSettings
from scheduler.dispatcher.ports import TopicStuck
from scheduler.dispatcher.unpublishable import IN_A_ROW_MS, SHUT_MS
from tests.dispatcher.fault_log import abort, unknown_aborted, unknown_committed
from tests.dispatcher.lives import grant, grant_again
from tests.dispatcher.world import Dispatcher, World


@pytest.fixture
def world():
    world = World(queues={"q": QueueSettings(emits=frozenset({"video-ready", "audit-log"}))})
    world.start()
    world.outlive()
    yield world
    world.finish()


def message(topic: str = "video-ready", key: bytes = b"k", value: bytes = b"v") -> Emit:
    return Emit(topic, key, value)


def child(world: World, job_id: str, *, band: int = 1, **fields) -> Emit:
    return Emit("", job_id.encode(), encode_job(world.spec(job_id, **fields)), band)


def published(world: World, topic: str = "video-ready") -> list[tuple[bytes, bytes]]:
    return [(stored.key, stored.value) for stored in world.records(f"foreign:{topic}")]


def test_messages_and_jobs_are_published_with_the_completion(world, worker):
    lease = grant(world, worker)
    worker.done(lease, emits=(message(), message("audit-log"), child(world, "b", band=2)))
    world.turn()
    assert world.state("a").phase == "succeeded"
    assert published(world) == [(b"k", b"v")]
    assert dict(world.records("foreign:video-ready")[0].headers) == {"job_id": "a"}
    assert len(published(world, "audit-log")) == 1
    state = world.state("b")
    assert (state.phase, state.admitted.band) == ("ready", 2)


def test_a_run_that_failed_has_emitted_nothing(world, worker):
    lease = grant(world, worker)
    worker.fail(lease)
    worker.done(
        lease, emits=(message(), child(world, "b"))
    )  # whatever it says afterwards under another epoch
    world.turn(2)
    # The completion is late, and of the latest epoch: it counts, once.
    assert world.state("a").phase == "succeeded"
    assert len(published(world)) == 1


def test_a_refused_completion_emits_nothing(world, worker):
    first = grant(world, worker)
    world.until(lambda: world.state().phase == "ready", turns=1_000, every_ms=100)
    grant_again(world, worker)
    worker.done(first, emits=(message(), child(world, "b")))
    world.turn(3)
    assert published(world) == []
    assert "b" not in world.states()


@pytest.mark.parametrize("fault", [abort, unknown_aborted, unknown_committed])
def test_a_turn_that_fails_publishes_nothing_twice(world, worker, fault):
    d1 = world.dispatchers["d1"]
    lease = grant(world, worker)
    worker.done(lease, emits=(message(), child(world, "b")))
    d1.log.fail("commit", fault)
    world.turn(10)
    assert world.state("a").phase == "succeeded"
    assert len(published(world)) == 1
    assert world.state("b").phase == "ready"
    assert world.counts["repeated",] == 0


def test_a_child_for_a_foreign_shard_goes_over_kafka():
    world = World(queues={"q": QueueSettings(emits=frozenset({"video-ready"}))})
    home = world.home("a")
    away = next(job_id for job_id in (f"b{n}" for n in range(100)) if world.home(job_id) != home)
    world.start("d1", shards=[home])
    worker = world.worker()
    worker.offer(shard=home)
    world.submit("a")
    world.turn(2)
    (lease,) = worker.leases()
    worker.done(lease, emits=(child(world, away),))
    world.turn(2)
    assert len(list(world.broker.read("commands", world.home(away), 0))) == 1
    world.start("d2", shards=[world.home(away)])
    world.turn(2)
    assert world.state(away).phase == "ready"
    world.finish()


def test_a_topic_that_the_queue_may_not_emit_to_fails_the_job(world, worker):
    lease = grant(world, worker)
    worker.done(lease, emits=(message(), message("jobs.reports"), child(world, "b")), freed=worker.freed())
    world.submit("next")
    world.turn(2)
    state = world.state("a")
    assert (state.phase, state.end.reason) == ("failed", "emit_refused")
    assert published(world) == []
    assert "b" not in world.states()
    (dead,) = world.dead_letters()
    assert dead["reason"] == "emit_refused"
    assert "jobs.reports" in dead["error_message"]
    assert [lease.job_id for lease in worker.leases()] == ["next"]


def refuse(world: World, *values: bytes) -> None:
    world.dispatchers["d1"].log.refused = lambda record: record.foreign and record.value in values


def test_an_emitted_record_that_the_broker_refuses_fails_its_job_and_no_other(world, worker):
    refuse(world, b"too large")
    worker.offer(3)
    for job_id in ("a", "b", "c"):
        world.submit(job_id)
    world.turn(2)
    for lease in worker.leases():
        value = b"too large" if lease.job_id == "b" else b"fine"
        worker.done(lease, emits=(message(key=lease.job_id.encode(), value=value),))
    world.turn(6)
    assert {job_id: state.phase for job_id, state in world.states().items()} == {
        "a": "succeeded",
        "b": "failed",
        "c": "succeeded",
    }
    assert world.state("b").end.reason == "emit_refused"
    assert sorted(published(world)) == [(b"a", b"fine"), (b"c", b"fine")]
    assert world.counts["refused", "crashed_dispatcher"] == 0


@pytest.mark.parametrize("key", [b"", b"same"])
def test_jobs_that_emit_under_the_same_key_are_not_blamed_for_each_other(world, worker, key):
    refuse(world, b"too large")
    worker.offer(3)
    for job_id in ("a", "b", "c"):
        world.submit(job_id)
    world.turn(2)
    for lease in worker.leases():
        worker.done(lease, emits=(message(key=key, value=b"too large" if lease.job_id == "b" else b"fine"),))
    world.turn(20)
    assert {job_id: state.phase for job_id, state in world.states().items()} == {
        "a": "succeeded",
        "b": "failed",
        "c": "succeeded",
    }


def test_the_slot_that_such_a_completion_frees_counts(world, worker):
    refuse(world, b"too large")
    lease = grant(world, worker)
    worker.done(lease, emits=(message(value=b"too large"),), freed=worker.freed())
    world.submit("next")
    world.turn(8)
    assert world.state("a").phase == "failed"
    assert [one.job_id for one in worker.leases()] == ["next"]


def test_a_late_completion_with_a_refused_record_fails_the_job_too(world, worker):
    # The job is ready again, the run is over, and what it emitted can't be published.
    refuse(world, b"too large")
    lease = grant(world, worker)
    world.until(lambda: world.state().phase == "ready", turns=1_000, every_ms=100)
    worker.done(lease, emits=(message(value=b"too large"),))
    world.submit("b")
    world.turn(10)
    assert (world.state("a").phase, world.state("a").end.reason) == ("failed", "emit_refused")
    assert world.state("b").phase == "ready"


def test_a_stale_completion_under_blame_is_only_stale(world, worker):
    refuse(world, b"too large")
    lease = grant(world, worker)
    bad = message(value=b"too large")
    worker.done(lease, emits=(bad,))
    worker.done(lease, emits=(bad,))
    world.turn(8)
    assert world.state("a").end.reason == "emit_refused"
    assert world.counts["stale_reports", "finished"] == 1
    assert len(world.dead_letters()) == 1


def test_a_child_whose_key_is_no_text_is_still_admitted_at_home(world, worker):
    lease = grant(world, worker)
    emit = Emit("", b"\xff\xfe", encode_job(world.spec("b")), 1)
    worker.done(lease, emits=(emit,))
    world.turn(4)
    assert world.state("a").phase == "succeeded"
    assert world.state("b").phase == "ready"
    assert world.dead_letters() == []


def test_a_child_that_is_no_job_is_quarantined_and_the_completion_stands(world, worker):
    lease = grant(world, worker)
    worker.done(
        lease, emits=(Emit("", b"b", b"rubbish", 1), child(world, "c", priority=99), child(world, ""))
    )
    world.turn(4)
    assert world.state("a").phase == "succeeded"
    assert set(world.states()) == {"a"}
    dead = world.dead_letters()
    assert sorted(one["refusal"] for one in dead) == ["framing", "out_of_bounds", "out_of_bounds"]
    assert {one["source_topic"] for one in dead} == {"job:a"}


def test_a_child_that_was_emitted_before_is_a_repeat(world, worker):
    world.submit("b")
    lease = grant(world, worker)
    worker.done(lease, emits=(child(world, "b"),))
    world.turn(2)
    assert world.counts["repeated",] == 1


def test_ids_by_key_work_for_children_too(world, worker):
    job_id = keys.id_from_key("t", "k")
    lease = grant(world, worker)
    worker.done(lease, emits=(child(world, job_id, idempotency_key="k"),))
    world.turn(2)
    assert world.state(job_id).admitted.has_key


# -- topics that take nothing ---------------------------------------------------------------------------------


class Stuck:
    """A topic whose records time out; each time costs 10 s."""

    def __init__(self, world: World, topic: str = "video-ready") -> None:
        self.times = 0
        self.mended = False
        d1: Dispatcher = world.dispatchers["d1"]
        flush = d1.log.flush

        def flushing():
            if not self.mended and any(out.foreign and out.topic == topic for out in d1.log._transaction):
                self.times += 1
                world.time.ms += 10_000
                raise TopicStuck(f"{topic} timed out", topic=topic)
            return flush()

        d1.log.flush = flushing


def emitting(world: World, worker, job_id: str, topic: str = "video-ready") -> None:
    """Let a job end with a message; it may take a few turns."""
    lease = grant(world, worker, job_id)
    worker.done(lease, emits=(message(topic, key=job_id.encode()),))
    world.turn(8)


def test_a_topic_that_times_out_once_gets_its_records_later(world, worker):
    stuck = Stuck(world)
    lease = grant(world, worker)
    worker.done(lease, emits=(message(),))
    world.turn()
    assert stuck.times == 1
    stuck.mended = True
    world.turn(6)
    assert world.state("a").phase == "succeeded"
    assert len(published(world)) == 1


def test_a_topic_that_times_out_again_fails_those_that_emit_to_it_and_holds_up_nobody_else(world, worker):
    stuck = Stuck(world)
    for job_id in ("a", "b", "c"):
        emitting(world, worker, job_id)
    emitting(world, worker, "d", "audit-log")
    assert stuck.times == 2
    assert {job_id: state.phase for job_id, state in world.states().items()} == {
        **dict.fromkeys("abc", "failed"),
        "d": "succeeded",
    }
    assert {one["reason"] for one in world.dead_letters()} == {"emit_refused"}
    assert all("video-ready" in one["error_message"] for one in world.dead_letters())
    assert published(world) == []
    assert world.counts["refused", "crashed_dispatcher"] == 0


def test_it_is_tried_again_after_a_while(world, worker):
    stuck = Stuck(world)
    emitting(world, worker, "a")
    world.wait(SHUT_MS + 1_000, every_ms=5_000)
    emitting(world, worker, "b")
    emitting(world, worker, "c")
    assert stuck.times == 3
    assert (world.state("b").phase, world.state("c").phase) == ("failed", "failed")
    stuck.mended = True
    world.wait(SHUT_MS + 1_000, every_ms=5_000)
    emitting(world, worker, "d")
    assert world.state("d").phase == "succeeded"
    assert published(world) == [(b"d", b"v")]


def test_a_time_out_of_long_ago_does_not_count(world, worker):
    stuck = Stuck(world)
    for job_id in ("a", "b"):
        stuck.mended = False
        worker.done(grant(world, worker, job_id), emits=(message(),))
        world.turn()
        stuck.mended = True
        world.turn(6)
        assert world.state(job_id).phase == "succeeded"
        world.wait(IN_A_ROW_MS + 1_000, every_ms=10_000)
    assert stuck.times == 2
