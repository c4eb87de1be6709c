"""Short ways to bring a job into a state that a test starts from."""

from scheduler.core.notices import Lease
from tests.dispatcher.worker import Worker
from tests.dispatcher.world import World


def grant(world: World, worker: Worker, job_id: str = "a", **fields) -> Lease:
    """Submit a job and return its first lease."""
    world.submit(job_id, **fields)
    return grant_again(world, worker)


def grant_again(world: World, worker: Worker, *, takes_suspect: bool = False, wait_ms: int = 0) -> Lease:
    """Offer one slot and return the lease that comes for it."""
    if wait_ms:
        world.wait(wait_ms)
    worker.offer(takes_suspect=takes_suspect)
    world.turn(2)
    (lease,) = worker.leases()
    return lease


def run(world: World, worker: Worker, job_id: str = "a", **fields) -> Lease:
    """Submit a job and let it run: its first beat has been read."""
    lease = grant(world, worker, job_id, **fields)
    worker.beat(lease)
    world.turn(2)
    return lease
