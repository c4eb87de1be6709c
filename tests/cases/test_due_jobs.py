"""Jobs that come due while their owners die one after the other: each runs once, and none before its time."""

import itertools

import pytest

from scheduler.core import bounds
from scheduler.core.settings import QueueSettings
from tests.dispatcher.fault_log import FaultLog
from tests.dispatcher.world import World

JOBS = 100
HOUR_MS = 3_600_000


class Killed(BaseException):
    """kill -9: no code of the dispatcher's catches it."""


def killed(log: FaultLog) -> None:
    raise Killed


def killed_with_the_commit_made(log: FaultLog) -> None:
    log._end(commit=True)
    raise Killed


POINTS = {
    "with the outputs written": ("flush", killed),
    "before the offsets are sent": ("fence", killed),
    "before the commit": ("commit", killed),
    "before the store is written": ("commit", killed_with_the_commit_made),
    "before leases leave": ("release", killed),
}


class Runs:
    """A worker that ends every run at once. A lease that comes again under its epoch is no other run."""

    def __init__(self, world: World) -> None:
        self._worker = world.worker()
        self.epochs: dict[str, set[int]] = {}

    def go_on(self) -> None:
        for lease in self._worker.leases():
            self.epochs.setdefault(lease.job_id, set()).add(lease.epoch)
            self._worker.done(lease)
        self._worker.offer(10)


def comes(world: World, name: str, stores):
    """Wait out what the last owner has left open."""
    owner = world.join(name, stores=stores)
    world.until(owner.is_active, every_ms=20)
    return owner


def lead_to_its_death(world: World, name: str, stores, point: str, runs: Runs):
    """Let an owner wake and grant some, and die at that point of the turn after."""
    owner = comes(world, name, stores)
    runs.go_on()
    world.turn(2)
    runs.go_on()
    step, fault = POINTS[point]
    owner.log.fail(step, fault)
    with pytest.raises(Killed):
        world.turn(400)
    world.kill(name)
    owner.engine.close()
    return owner.stores


@pytest.mark.parametrize("own_disk", [True, False], ids=["same disk", "another disk"])
@pytest.mark.parametrize("point", POINTS)
def test_jobs_that_became_due_while_nobody_was_there_run_once_however_often_their_owner_dies(
    point, own_disk, monkeypatch
):
    monkeypatch.setattr(bounds, "TURN_TIMERS", 20)  # so that deaths come in the midst of them
    world = World()
    first = world.start()
    for number in range(JOBS):
        world.submit(f"job-{number}", run_at_ms=world.time.ms + 1_000 + number)
    world.turn(5)
    world.kill("d1").engine.close()
    world.time.ms += 20 * HOUR_MS

    now_ms = world.time.ms
    runs, stores = Runs(world), first.stores
    for life in range(2, 5):
        stores = lead_to_its_death(world, f"d{life}", stores if own_disk else None, point, runs)
    assert 0 < len(runs.epochs) < JOBS
    last = comes(world, "last", stores if own_disk else None)
    while len(world.lifecycle()) < JOBS and world.time.ms < now_ms + 60_000:
        runs.go_on()
        world.turn()
    runs.go_on()
    assert {state.phase for state in world.states().values()} == {"succeeded"}
    assert len(world.states()) == len(world.lifecycle()) == JOBS
    assert {job_id: len(epochs) for job_id, epochs in runs.epochs.items()} == dict.fromkeys(world.states(), 1)
    # What was granted and had not left is sent again at once; nobody waits for it to expire.
    assert {state.history.undelivered for state in world.states().values()} == {0}
    assert last.is_active()
    world.finish()


def test_a_job_that_waits_for_its_time_is_handed_out_once_whoever_owns_it_meanwhile():
    world = World(queues={"q": QueueSettings(lease_ms=10_000)})
    world.join("d1", shards=(0, 1))
    world.join("d2", shards=(2, 3))
    workers = [world.worker(inbox=number) for number in range(4)]
    due_ms = world.time.ms + 60_000
    world.submit(run_at_ms=due_ms)
    home = world.home("a")
    owner, names = world.group.owners[home], itertools.count(3)
    leases = []
    for second in range(75):
        if second in (20, 40):
            shards = world.group.shards_of(owner)
            world.kill(owner)
            owner = f"d{next(names)}"
            world.join(owner, shards=shards)
        for worker in workers:
            worker.offer(shard=home)
        world.turn(4, every_ms=250)
        leases += [(world.time.ms, worker, lease) for worker in workers for lease in worker.leases()]
        if leases:
            leases[-1][1].beat(leases[-1][2])
    ((at_ms, _, lease),) = leases
    assert at_ms >= due_ms
    assert (lease.job_id, lease.attempt) == ("a", 1)
    world.finish()
