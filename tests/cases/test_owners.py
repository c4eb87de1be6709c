"""What a shard's owner knows and does is not lost with it: the runs under way, and the care for dead workers."""

from tests.dispatcher.lives import run
from tests.dispatcher.world import World


def test_the_one_that_still_runs_is_known_after_all_behind_it_have_ended():
    world = World(shards=1)
    world.start()
    worker = world.worker()
    jobs = [f"job-{number}" for number in range(10)]
    for job_id in jobs:
        world.submit(job_id)
    worker.offer(10)
    world.turn(3)
    leases = {lease.job_id: lease for lease in worker.leases()}
    for job_id in jobs:
        (worker.beat if job_id == "job-5" else worker.done)(leases[job_id])
    world.turn(2)
    world.kill("d1")
    world.start("d2")  # on another disk
    worker.offer(10)
    world.turn(3)
    assert worker.leases() == [leases["job-5"]]  # sent again, and nothing beside it
    world.until(lambda: world.state("job-5").phase == "ready", turns=400, every_ms=100)
    worker.offer(10, takes_suspect=True)
    world.turn(2)
    (again,) = worker.leases()
    assert (again.job_id, again.epoch > leases["job-5"].epoch) == ("job-5", True)
    assert {world.state(job_id).phase for job_id in jobs if job_id != "job-5"} == {"succeeded"}
    world.finish()


def test_a_suspended_owner_takes_no_care_of_dead_workers_and_its_heir_does():
    world = World()
    suspended = world.start("d1")
    worker = world.worker()
    lease = run(world, worker)
    world.wait(15_000)
    world.dispatchers.pop("d1")  # it takes no turns
    world.group.evicted.add("d1")
    world.start("d2")
    assert worker.leases() == [lease]  # adopted
    world.until(lambda: world.state().phase == "ready", turns=400, every_ms=100)
    worker.offer(takes_suspect=True)
    world.turn(2)
    (again,) = worker.leases()
    assert again.epoch > lease.epoch
    for _ in range(20):  # it goes on, with nothing that is its own any more
        suspended.engine.turn()
    assert suspended.stages() == {}
    assert world.state().grant.token == again.token
    assert worker.hear() == []
    world.finish()


def test_leases_that_were_granted_all_at_once_are_not_taken_back_before_anybody_could_beat():
    world = World()
    world.start()
    workers = [world.worker(inbox=number % 4) for number in range(5)]
    for number in range(100):
        world.submit(f"job-{number}")
    for worker in workers:
        worker.offer(20)
    world.turn(3)
    held = [(worker, lease) for worker in workers for lease in worker.leases()]
    assert len(held) == 100
    world.wait(9_500)  # the first beats come late
    for worker, lease in held:
        worker.beat(lease)
    world.wait(15_000)
    states = world.states()
    assert {states[lease.job_id].epoch == lease.epoch for _, lease in held} == {True}
    assert {state.phase for state in states.values()} == {"leased"}
    world.finish()
