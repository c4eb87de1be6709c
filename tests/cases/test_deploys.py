"""A deploy: every dispatcher is replaced in turn while jobs run, and no run notices."""

from tests.dispatcher.world import World

JOBS = 120


class Fleet:
    """Workers that renew what they hold, and keep every lease that they were sent."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._workers = [world.worker(inbox=number) for number in range(4)]
        self.held: dict[str, list] = {}

    def take(self) -> None:
        for worker in self._workers:
            for shard in range(self._world.shards):
                worker.offer(JOBS // 4, shard=shard)
        self._world.turn(20)
        self.hear()

    def hear(self) -> None:
        for worker in self._workers:
            for lease in worker.leases():
                self.held.setdefault(lease.job_id, []).append((worker, lease))

    def beat(self) -> None:
        self.hear()
        for leases in self.held.values():
            worker, lease = leases[-1]
            worker.beat(lease)

    def end_all(self) -> None:
        for leases in self.held.values():
            worker, lease = leases[-1]
            worker.done(lease)


def test_replacing_every_dispatcher_in_turn_grants_no_running_job_again():
    world = World(shards=8)
    for number in range(4):
        world.join(f"old-{number}", shards=(2 * number, 2 * number + 1))
    for number in range(JOBS):
        world.submit(f"job-{number}")
    fleet = Fleet(world)
    world.turn(60)
    fleet.take()
    assert len(fleet.held) == JOBS
    for number in range(4):
        fleet.beat()
        world.turn(2)
        world.dispatchers.pop(f"old-{number}").engine.leave()
        new = world.join(f"new-{number}", shards=(2 * number, 2 * number + 1))
        world.until(new.is_active)
        world.wait(5_000)
    fleet.hear()
    grants = {
        job_id: {(lease.epoch, lease.token) for _, lease in sent} for job_id, sent in fleet.held.items()
    }
    assert {len(each) for each in grants.values()} == {1}  # sent again perhaps, but the same lease
    fleet.end_all()
    world.turn(5)
    assert {state.phase for state in world.states().values()} == {"succeeded"}
    assert {state.history.losses + state.history.undelivered for state in world.states().values()} == {0}
    world.finish()
