"""Scheduled jobs: in order, never early, in bounded memory."""

import random

from scheduler.core import bounds, keyspace
from tests.dispatcher.world import World


def test_jobs_wake_in_the_order_of_their_due_times_and_never_early(world, worker):
    chance = random.Random(7)
    due = {f"job-{n}": world.time.ms + chance.randrange(1, 20_000) for n in range(60)}
    for job_id, due_ms in due.items():
        world.submit(job_id, run_at_ms=due_ms)
    started: dict[str, int] = {}
    while len(started) < len(due):
        worker.offer(100)
        world.turn(every_ms=37)
        for lease in worker.leases():
            started[lease.job_id] = world.time.ms - 37
            worker.done(lease)
    late = [started[job_id] - due_ms for job_id, due_ms in due.items()]
    assert min(late) >= 0
    assert max(late) <= 2 * 37
    assert world.time.ms < max(due.values()) + 200


def test_a_due_time_survives_a_take_over(world, worker):
    due_ms = world.time.ms + 10_000
    world.submit("a", run_at_ms=due_ms)
    world.turn(2)
    world.kill("d1")
    world.start("d2")
    while world.time.ms < due_ms:
        worker.offer()
        world.turn(every_ms=min(500, due_ms - world.time.ms))
        assert worker.leases() == []
    worker.offer()
    world.turn(2)
    assert len(worker.leases()) == 1


def test_jobs_that_came_due_while_nobody_was_there_run_once(world, worker):
    for number in range(50):
        world.submit(f"job-{number}", run_at_ms=world.time.ms + 1_000 + number)
    world.turn(2)
    world.kill("d1")
    world.time.ms += 20 * 3_600_000
    world.start("d2")
    worker.offer(100)
    world.turn(3)
    leases = worker.leases()
    assert len(leases) == 50
    for lease in leases:
        worker.done(lease)
    world.turn(2)
    worker.offer(100)
    world.wait(3_000)
    assert worker.leases() == []


def test_a_wall_clock_that_steps_back_only_delays(world, d1, worker):
    world.submit("a", run_at_ms=world.time.ms + 5_000)
    world.wait(4_000)
    d1.clock.ahead_ms = -60_000
    worker.offer()
    world.wait(3_000)
    assert worker.leases() == []
    d1.clock.ahead_ms = 0
    worker.offer()
    world.turn(2)
    assert len(worker.leases()) == 1


def test_a_new_owner_whose_wall_clock_runs_ahead_wakes_nothing_early(world):
    # The turn that reads its first own echo began with nothing but that clock.
    due_ms = world.time.ms + 20_000
    world.submit("a", run_at_ms=due_ms)
    world.turn(2)
    world.kill("d1")
    d2 = world.join("d2")
    d2.clock.ahead_ms = 3_600_000
    world.until(d2.is_active)
    world.wait(due_ms - world.time.ms - 1_100)
    assert world.state().phase == "scheduled"
    world.wait(2_000)
    assert world.state().phase == "ready"


def test_50_000_scheduled_jobs_take_bounded_memory_and_turns():
    world = World(shards=1)
    d1 = world.start()
    world.checking = False
    chance = random.Random(3)
    for start in range(0, 50_000, bounds.TURN_RECORDS):
        for number in range(start, start + bounds.TURN_RECORDS):
            world.submit(f"job-{number}", run_at_ms=world.time.ms + chance.randrange(60_000, 120_000))
        world.turn()
        assert len(d1.engine.seats[0].shard.timers._heap) <= 3_000
    world.turn(3)
    seat = d1.engine.seats[0]
    assert len(seat.store.scan(keyspace.TIMER, keyspace.after(keyspace.TIMER), 100_000)) == 50_000
    start_ms = world.time.ms
    woken = 0
    while woken < 50_000:
        world.turn(every_ms=100)
        now_woken = d1.signals.counts["woken",]
        assert now_woken - woken <= 1_000  # bounded batches
        woken = now_woken
        assert len(seat.shard.timers._heap) <= 3_000
        assert world.time.ms - start_ms < 140_000
    queue = next(iter(d1.engine._fleet.matcher._queues.values()))
    assert sum(len(head._heap) for head in queue._heads.values()) <= 3_000
    world.checking = True
    world.turn()


def test_every_shard_gets_its_part_of_the_timers(world):
    world.checking = False
    due_ms = world.time.ms + 5_000
    flood = [f"job-{n}" for n in range(24_000) if world.home(f"job-{n}") != 3]
    alone = next(f"job-{n}" for n in range(100) if world.home(f"job-{n}") == 3)
    for job_id in flood:
        world.submit(job_id, run_at_ms=due_ms)
    world.submit(alone, run_at_ms=due_ms)
    world.turn(15)
    world.time.ms = due_ms
    for number in range(1, 7):
        world.turn(every_ms=1)
        assert world.counts["woken",] <= 1_000 * number
    assert world.state(alone).phase == "ready"
