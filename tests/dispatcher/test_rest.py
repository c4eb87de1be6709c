"""While nothing comes in, a turn that would look at timers and the like is taken now and then only."""

import itertools

import pytest

from tests.dispatcher.world import World

REST_MS = 8


@pytest.fixture
def world() -> World:
    return World(rest_ms=REST_MS)


def looks(dispatcher) -> list[int]:
    """Return a list that grows by one time with each look at the timers."""
    seen: list[int] = []
    tidy = dispatcher.engine._housekeeping.run
    dispatcher.engine._housekeeping.run = lambda seats, moment: (
        seen.append(moment.mono_ms),
        tidy(seats, moment),
    )
    return seen


def test_turns_without_input_do_nothing_for_a_while(world):
    seen = looks(world.start())
    world.turn(20)
    seen.clear()
    world.turn(4 * REST_MS, every_ms=1)
    assert 3 <= len(seen) <= 5
    assert all(later - earlier >= REST_MS for earlier, later in itertools.pairwise(seen))


def test_a_due_job_is_late_by_no_more_than_the_rest(world):
    world.start()
    world.turn(50)
    due_ms = world.time.ms + 3_000
    world.submit("a", run_at_ms=due_ms)
    world.turn(2)
    while world.state("a").phase == "scheduled":
        world.turn(every_ms=1)
    assert due_ms <= world.time.ms <= due_ms + REST_MS + 2


def test_a_few_reports_share_one_turn(world):
    d1 = world.start()
    worker = world.worker()
    world.turn(20)
    seen = looks(d1)
    for _ in range(8 * REST_MS):
        worker.offer(0)
        world.turn(every_ms=1)
    assert 7 <= len(seen) <= 9


def test_a_submit_does_not_wait_for_reports_to_gather(world):
    world.start()
    worker = world.worker()
    world.turn(20)
    worker.offer(1)
    world.turn(every_ms=0)
    worker.offer(1)
    world.turn(every_ms=0)
    world.submit("a")
    world.turn(every_ms=0)
    assert [lease.job_id for lease in worker.leases()] == ["a"]


def test_many_reports_do_not_wait(world):
    d1 = world.start()
    workers = [world.worker() for _ in range(65)]
    world.turn(20)
    seen = looks(d1)
    for count in (1, len(workers)):
        world.turn(REST_MS)
        workers[0].offer()
        world.turn(every_ms=0)
        seen.clear()
        for worker in workers[:count]:
            worker.offer()
        world.turn(every_ms=0)
        assert len(seen) == (count > 1)
