"""An input that kills each owner of its shard: found by its coordinates in `meta`, and quarantined."""

import itertools

import msgspec
import pytest

from scheduler.codec.meta import encode_meta
from scheduler.core import keyspace
from scheduler.core.inputs import Input
from scheduler.dispatcher.care import CAREFUL_FROM, SURVIVED_MS, TRIES
from tests.dispatcher.fault_log import abort
from tests.dispatcher.lives import grant
from tests.dispatcher.world import Dispatcher, World


class Killed(BaseException):
    """What a crash in native code does to the process: no handler sees it."""


def deadly(dispatcher: Dispatcher, job_id: str) -> None:
    """Let the dispatcher die when it tries the record of this job."""
    take = dispatcher.engine._intake.take

    def dying(shard, moment, record):
        if record.key == job_id.encode() and record.input is not Input.REPORTS:
            raise Killed
        return take(shard, moment, record)

    dispatcher.engine._intake.take = dying


def test_one_deadly_input_blames_no_other(world):
    # All shards of the process die with it, so all of them are careful; only one input is ever on trial.
    world.submit("bad")
    for number in range(30):
        world.submit(f"job-{number}")
    for number in range(1, 12):
        if not lives_and_dies(world, number):
            break
    world.turn(150)
    assert len(world.dead_letters()) == 1
    assert len(world.states()) == 30


def lives_and_dies(world: World, number: int, job_id: str = "bad") -> bool:
    """Let one more owner take over; return whether the record killed it."""
    name = f"d{number}"
    dispatcher = world.join(name)
    deadly(dispatcher, job_id)
    try:
        world.turn(60)
    except Killed:
        world.kill(name)
        return True
    return False


@pytest.fixture(params=(0, 8))
def world(request):
    world = World(completions_wait_ms=request.param)
    yield world
    world.finish()


def make_careful(world: World, shard: int) -> None:
    """Write what short-lived owners leave behind."""
    meta = msgspec.structs.replace(world.meta(shard), unclean=CAREFUL_FROM)
    world.broker.append("changelog", shard, keyspace.META, encode_meta(meta), at_ms=world.time.ms)


def test_after_a_few_owners_the_deadly_input_is_quarantined(world):
    offset = 0
    world.submit("bad")
    for number in range(5):
        world.submit(f"job-{number}")
    killed = 0
    for number in range(1, 12):
        if not lives_and_dies(world, number):
            break
        killed += 1
    assert killed <= CAREFUL_FROM + TRIES
    (dead,) = world.dead_letters()
    assert (dead["refusal"], dead["source_topic"]) == ("crashed_dispatcher", "jobs.submit.default")
    assert dead["source_offset"] == str(offset)
    world.turn(30)
    assert {f"job-{n}" for n in range(5)} == set(world.states())


def test_its_coordinates_are_committed_before_it_is_tried(world):
    world.submit("bad")
    shard = world.home("bad")
    for number in range(1, CAREFUL_FROM + 2):
        assert lives_and_dies(world, number)
    assert world.meta(shard).careful == "submit.default@0"
    assert world.meta(shard).careful_crashes == 2
    assert world.meta(shard).unclean == CAREFUL_FROM + 1


def test_an_owner_that_lives_for_a_while_resets_the_count(world):
    world.submit("bad")
    shard = world.home("bad")
    assert lives_and_dies(world, 1)
    world.join("d2")
    world.wait(SURVIVED_MS + 3_000, every_ms=1_000)
    assert world.meta(shard).unclean == 0
    assert world.meta(shard).careful == ""


def test_the_ends_of_all_inputs_reset_the_count_though_never_met_at_once(world):
    # Under a steady load there is always something new in one of them.
    d1 = world.join("d1")
    inputs, begin = list(Input), d1.engine._reading.begin

    def one_at_end(seats, polled):
        begin(seats, polled)
        for seat in seats.values():
            seat.at_end = {inputs[world.time.ms // 1_000 % len(inputs)]}

    d1.engine._reading.begin = one_at_end
    world.until(d1.is_active)
    world.wait((len(inputs) - 2) * 1_000, every_ms=100)
    assert [world.meta(shard).unclean for shard in range(world.shards)] == [1] * world.shards
    world.wait(5_000, every_ms=100)
    assert len(inputs) * 1_000 + 4_000 < SURVIVED_MS
    assert [world.meta(shard).unclean for shard in range(world.shards)] == [0] * world.shards


def test_an_owner_that_leaves_cleanly_resets_the_count(world):
    d1 = world.start()
    d1.engine.leave()
    assert [world.meta(shard).unclean for shard in range(world.shards)] == [0] * world.shards
    assert "commit" in d1.log.calls


def test_leaving_commits_what_was_read(world):
    d1 = world.start()
    worker = world.worker()
    lease = grant(world, worker)
    worker.beat(lease)
    world.turn()
    worker.beat(lease)
    world.turn()
    d1.engine.leave()
    end = len(world.broker.log("reports", lease.shard))
    assert world.meta(lease.shard).positions["reports"] == end


def test_a_careful_shard_takes_everything_one_by_one_and_in_order(world):
    jobs = [f"job-{n}" for n in range(400) if world.home(f"job-{n}") == 0][:20]
    for job_id in jobs:
        world.submit(job_id)
    make_careful(world, 0)
    world.join("d1")
    seen: list[int] = []
    for _ in range(60):
        world.turn()
        seen.append(len(world.states()))
    assert max(later - earlier for earlier, later in itertools.pairwise(seen)) == 1
    assert set(world.states()) == set(jobs)


def test_a_crash_elsewhere_loses_no_record_of_a_careful_shard(world):
    # Those that wait for their turn are rewound with all others.
    make_careful(world, 0)
    d2 = world.join("d2")
    careful = [f"job-{n}" for n in range(400) if world.home(f"job-{n}") == 0][:6]
    bad = next(f"bad-{n}" for n in range(100) if world.home(f"bad-{n}") == 1)
    take = d2.engine._intake.take

    def crashing(shard, moment, record):
        if record.key == bad.encode():
            raise ZeroDivisionError
        return take(shard, moment, record)

    d2.engine._intake.take = crashing
    for job_id in careful:
        world.submit(job_id)
    world.submit(bad)
    world.turn(60)
    assert set(world.states()) == set(careful)
    assert len(world.dead_letters()) == 1


def test_an_abort_of_the_announcement_is_no_crash(world):
    world.submit("a")
    make_careful(world, world.home("a"))
    d2 = world.join("d2")
    world.until(lambda: "echo" in d2.log.calls)  # claimed; nothing is read yet
    for _ in range(TRIES + 3):
        d2.log.fail("commit", abort)
    world.turn(60)
    assert d2.signals.failures["abort"] == TRIES + 3
    assert world.dead_letters() == []
    assert world.state().phase == "ready"


def test_a_careful_shard_with_a_backlog_does_not_slow_the_others():
    world = World(turn_records=100)
    make_careful(world, 0)
    d2 = world.join("d2")
    flood = [f"job-{n}" for n in range(14_000) if world.home(f"job-{n}") == 0][:300]
    others = [f"job-{n}" for n in range(1_000) if world.home(f"job-{n}") != 0][:300]
    world.checking = False
    for job_id in (*flood, *others):
        world.submit(job_id)
    world.turn(14)
    assert d2.engine.seats[0].care.needed
    assert sum(world.home(job_id) != 0 for job_id in world.states()) == 300
    assert len(d2.engine._reading.pending) < 100
    for _ in range(100):
        world.turn(10, every_ms=1)
        if not d2.engine.seats[0].care.needed:
            break
    world.turn(10)
    world.checking = True
    world.turn()
    assert len(world.states()) == 600
    world.finish()


def test_a_healthy_rebalance_makes_nobody_careful(world):
    # Every process lives; shards only move, and soon after the start at that.
    world.start("d1")
    for number in range(2, 6):
        world.join(f"d{number}", shards=range(world.shards))
        world.until(world.dispatchers[f"d{number}"].is_active)
        world.turn(20)
    for job_id in (f"job-{n}" for n in range(200)):
        world.submit(job_id)
    world.turn(3)
    assert len(world.states()) == 200
