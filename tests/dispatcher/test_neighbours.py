"""A job that kills whole workers, again and again: what its neighbours suffer is bounded."""

import pytest

from tests.dispatcher.lives import grant, grant_again

OTHERS = tuple(f"other-{number}" for number in range(9))


def one_more_worker(world, *, beats: bool) -> None:
    """Take ten slots' work; die of the killer before anything has ended, or end it all."""
    worker = world.worker()
    worker.offer(10, takes_suspect=True)
    world.turn(2)
    leases = worker.leases()
    if "killer" not in {lease.job_id for lease in leases}:
        for lease in leases:
            worker.done(lease)
        world.turn(2)
        return
    if beats:
        worker.beat(*leases)
    world.until(lambda: not any(state.phase == "leased" for state in world.states().values()), every_ms=500)


@pytest.mark.parametrize("beats", [True, False], ids=["after a beat", "before any beat"])
def test_a_job_that_kills_workers_takes_no_neighbour_with_it(world, beats):
    for job_id in ("killer", *OTHERS):
        world.submit(job_id)
    for _ in range(25):
        one_more_worker(world, beats=beats)
    assert {job_id: world.state(job_id).phase for job_id in OTHERS} == dict.fromkeys(OTHERS, "succeeded")
    assert [dead["job_id"] for dead in world.dead_letters()] == ["killer"]


def test_one_lost_notice_makes_no_suspect_and_two_do(world, worker):
    grant(world, worker)
    for suspect in (False, True):
        world.until(lambda: world.state().phase == "ready", turns=300, every_ms=50)
        lease = grant_again(world, worker, takes_suspect=True)
        assert lease.suspect is suspect
