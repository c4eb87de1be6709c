"""Bugs that meet one job outside of its inputs: it is named and left alone, and everything else goes on."""

import logging

import msgspec
import pytest

from scheduler.core import granting, keyspace, wakeups
from scheduler.core.crash import JobCrashed
from scheduler.core.reports import ReleaseReason
from scheduler.core.settings import QueueSettings
from scheduler.dispatcher import commit, set_aside, writing
from scheduler.dispatcher.set_aside import SetAside
from scheduler.dispatcher.view import StoreView
from scheduler.storage.memory import MemoryStores
from tests.dispatcher.lives import grant, run
from tests.dispatcher.world import World


@pytest.fixture
def world():
    world = World(queues={"q": QueueSettings(keep_succeeded_ms=5_000)})
    world.start()
    world.outlive()
    yield world
    world.finish()


def about_bad(args) -> bool:
    return any(arg == "bad" or getattr(arg, "job_id", "") == "bad" for arg in args)


@pytest.fixture
def seed(monkeypatch):
    """Seed a bug: the function raises whenever it is about the job `bad`."""

    def seeded(module, name: str) -> None:
        function = getattr(module, name)

        def buggy(*args, **kwargs):
            if about_bad(args):
                raise ZeroDivisionError
            return function(*args, **kwargs)

        monkeypatch.setattr(module, name, buggy)

    return seeded


def other_in_its_shard(world: World) -> str:
    return next(f"good-{n}" for n in range(99) if world.home(f"good-{n}") == world.home("bad"))


def scheduled(world: World, worker, job_id: str) -> None:
    world.submit(job_id, run_at_ms=world.time.ms + 1_000)


def ready(world: World, worker, job_id: str) -> None:
    world.submit(job_id)


def dead_worker(world: World, worker, job_id: str) -> None:
    grant(world, worker, job_id)


def overlong(world: World, worker, job_id: str) -> None:
    run(world, worker, job_id, timeout_ms=100)


def done(world: World, worker, job_id: str) -> None:
    worker.done(grant(world, worker, job_id))


def retried(world: World, worker, job_id: str) -> None:
    worker.release(grant(world, worker, job_id), ReleaseReason.SNOOZED, delay_ms=6_000)


def lose_retry_records(d1) -> None:
    produce = d1.log.produce
    d1.log.produce = lambda records: produce(
        [record for record in records if not record.topic.startswith("retry.")]
    )


WHERE = {
    "waking": (scheduled, wakeups, "_wake", "scheduled"),
    "choosing": (ready, granting, "_startable", "ready"),
    "granting": (ready, granting, "grant", "ready"),
    "expiring": (dead_worker, wakeups, "_expire_lease", "leased"),
    "ending": (overlong, wakeups, "_end_overlong", "leased"),
    "dropping": (done, wakeups, "_forget", "succeeded"),
    "waking what was missed": (retried, wakeups, "_wake_missed", "retrying"),
    "encoding a timer's": (scheduled, writing, "encode_state", "scheduled"),
    "encoding a grant": (ready, writing, "encode_state", "ready"),
    "encoding an expiry": (dead_worker, writing, "encode_state", "leased"),
}


@pytest.mark.parametrize("where", WHERE)
def test_a_bug_that_meets_one_job_stops_no_other(world, d1, worker, seed, caplog, where):
    prepare, module, function, phase = WHERE[where]
    good = other_in_its_shard(world)
    if prepare is retried:
        lose_retry_records(d1)
    prepare(world, worker, "bad")
    prepare(world, worker, good)
    world.turn(4)
    seed(module, function)
    with caplog.at_level(logging.ERROR):
        for _ in range(100):
            worker.offer(2)
            world.wait(1_000)
            for lease in worker.leases():
                worker.done(lease)
    assert world.states().get(good) is None, "it has ended, and its keep time is over"
    assert world.state("bad").phase == phase
    assert d1.signals.failures == {"job_crashed": 1}
    assert f"shard {world.home('bad')}, job bad" in caplog.text
    assert "ZeroDivisionError" in caplog.text
    assert world.dead_letters() == []


@pytest.mark.parametrize("where", WHERE)
def test_an_owner_without_the_bug_goes_on_with_that_job(world, d1, worker, monkeypatch, where):
    prepare, module, function, _ = WHERE[where]
    if prepare is retried:
        lose_retry_records(d1)
    prepare(world, worker, "bad")
    world.turn(4)
    with monkeypatch.context() as patched:
        patched.setattr(module, function, lambda *_: 1 // 0)
        worker.offer(2)
        world.wait(70_000, every_ms=1_000)
    assert d1.signals.failures == {"job_crashed": 1}
    world.kill("d1")
    world.start("d2")
    for _ in range(100):
        worker.offer(2)
        world.wait(1_000)
        for lease in worker.leases():
            worker.done(lease)
    assert "bad" not in world.states()
    assert "succeeded" in {told.event for told in world.lifecycle()}


def test_a_submit_whose_state_can_not_be_encoded_is_quarantined(world, d1, worker, seed):
    seed(writing, "encode_state")
    good = other_in_its_shard(world)
    world.submit("bad")
    world.submit(good)
    world.turn(40)
    (dead,) = world.dead_letters()
    assert (dead["refusal"], dead["source_topic"]) == ("crashed_dispatcher", "jobs.submit.default")
    assert set(world.states()) == {good}
    world.submit("more")
    world.turn()
    assert set(world.states()) == {good, "more"}


def test_a_report_whose_outcome_can_not_be_encoded_is_quarantined(world, d1, worker, seed):
    lease = run(world, worker, "bad")
    seed(writing, "encode_state")
    worker.done(lease)
    world.turn(40)
    (dead,) = world.dead_letters()
    assert (dead["refusal"], dead["source_topic"]) == ("crashed_dispatcher", "jobs.reports")
    assert world.state("bad").phase == "leased"


def test_a_beat_that_names_such_a_job_renews_the_others(world, d1, worker, seed):
    good = other_in_its_shard(world)
    leases = [grant(world, worker, "bad"), grant(world, worker, good)]
    seed(writing, "encode_state")  # the first beat sets `started`
    for _ in range(30):
        worker.beat(*leases)
        world.wait(2_000)
    assert world.state(good).phase == "leased"
    assert world.state("bad").phase == "leased"
    assert world.dead_letters() == []
    assert d1.signals.failures == {"job_crashed": 1}


def test_a_command_that_crashes_the_handler_costs_the_input_that_brought_it(world, d1, worker, monkeypatch):
    apply = d1.engine._intake._admit

    def crashing(shard, moment, command):
        if b"bad" in command.spec:
            raise ZeroDivisionError
        apply(shard, moment, command)

    d1.engine._intake._admit = crashing
    world.submit("bad", shard=(world.home("bad") + 1) % world.shards)
    for number in range(10):
        world.submit(f"job-{number}", shard=(world.home(f"job-{number}") + 1) % world.shards)
    world.turn(120)
    (dead,) = world.dead_letters()
    assert (dead["refusal"], dead["source_topic"]) == ("crashed_dispatcher", "jobs.submit.default")
    assert set(world.states()) == {f"job-{number}" for number in range(10)}


def test_an_output_that_can_not_be_encoded_names_its_job(world, d1, worker, seed):
    lease = run(world, worker, "bad")
    seed(writing, "encode_lifecycle")
    worker.done(lease)
    world.turn(40)
    (dead,) = world.dead_letters()
    assert dead["refusal"] == "crashed_dispatcher"


def test_a_lease_that_can_not_be_encoded_never_arrives_and_expires(world, d1, worker, monkeypatch, caplog):
    released = commit.encode_released

    def buggy(notice):
        if notice.notice.job_id == "bad":
            raise ZeroDivisionError
        return released(notice)

    monkeypatch.setattr(commit, "encode_released", buggy)
    good = other_in_its_shard(world)
    world.submit("bad", payload=b'"secret"')
    world.submit(good)
    worker.offer(2)
    world.turn(2)
    assert [lease.job_id for lease in worker.leases()] == [good]
    assert "job bad" in caplog.text
    assert "secret" not in caplog.text
    world.wait(12_000)
    assert (world.state("bad").phase, world.state("bad").history.undelivered) == ("ready", 1)


def test_a_bug_met_in_the_last_commit_does_not_keep_the_process_from_leaving(world, d1, worker, seed):
    lease = run(world, worker, "bad")
    worker.done(lease)
    d1.engine._config = msgspec.structs.replace(d1.engine._config, completions_wait_ms=1_000)
    world.turn()
    seed(writing, "encode_state")
    d1.engine.leave()
    assert d1.engine.seats == {}
    world.kill("d1")


def test_a_bug_that_meets_every_job_ends_the_process(world, d1, monkeypatch):
    monkeypatch.setattr(set_aside, "MOST", 2)
    for number in range(4):
        world.submit(f"job-{number}", run_at_ms=world.time.ms + 1_000)
    world.turn(2)
    monkeypatch.setattr(wakeups, "_wake", lambda *_: 1 // 0)
    with pytest.raises(JobCrashed, match=r"shard \d, job job-\d"):
        world.wait(3_000, every_ms=50)
    assert len(d1.engine._intake._set_aside.jobs) == 2


def test_a_crash_of_nothing_that_is_known_ends_the_process(world, d1):
    with pytest.raises(JobCrashed):
        d1.engine._recovery.job_crashed(JobCrashed(0, ""))


def test_what_hides_a_job_shows_as_many_others_as_were_asked_for():
    store = MemoryStores().open(0)
    keys = [keyspace.timed_key(keyspace.TIMER, number, f"job-{number}") for number in range(10)]
    store.write([(key, b"") for key in keys], [], 0, 0)
    hidden = SetAside()
    hidden.jobs |= {"job-0", "job-1", "job-5"}
    view = StoreView(store, hidden)

    def scan(limit: int) -> list[bytes]:
        return [key for key, _ in view.scan(keyspace.TIMER, keyspace.after(keyspace.TIMER), limit)]

    shown = [key for number, key in enumerate(keys) if number not in (0, 1, 5)]
    assert [scan(limit) for limit in (1, 3, 4, 7, 20)] == [shown[:1], shown[:3], shown[:4], shown, shown]
