"""kill -9 at every named point: nothing lost, nothing completed twice, no two runs at once."""

import pytest

from tests.integration.scene import Scene

JOBS = 150

pytestmark = pytest.mark.timeout(240)


@pytest.mark.parametrize(
    ("point", "own_disk"),
    [
        ("before_commit:12", True),
        ("after_commit:12", True),
        ("after_store:12", True),
        ("after_commit:12", False),
    ],
)
def test_a_dispatcher_killed_in_its_turn(scene: Scene, point: str, own_disk: bool) -> None:
    first = scene.dispatcher("first", fail_at=point)
    scene.worker("worker")
    scene.submit(JOBS)
    scene.until_dead(first)
    scene.dispatcher("second", state_of="first" if own_disk else None)
    scene.until_done()
    verdict = scene.verdict()
    assert (verdict.lost, verdict.completed_twice, verdict.succeeded) == (0, 0, JOBS)
    # The worker lived on, so its leases were adopted: nothing had to run again.
    assert verdict.second_runs == 0
    assert scene.overlaps() == 0


def test_a_dispatcher_killed_in_its_take_over(scene: Scene) -> None:
    first = scene.dispatcher("first")
    scene.worker("worker")
    scene.submit(JOBS)
    scene.until(lambda: scene.ended() > JOBS // 5)
    first.kill()
    second = scene.dispatcher("second", fail_at="in_takeover")
    scene.until_dead(second)
    scene.dispatcher("third", state_of="second")
    scene.until_done()
    verdict = scene.verdict()
    assert (verdict.lost, verdict.completed_twice, verdict.succeeded) == (0, 0, JOBS)
    assert scene.overlaps() == 0


@pytest.mark.parametrize("point", ["lease_received:30", "after_handler:30", "done_sent:30"])
def test_a_worker_killed(scene: Scene, point: str) -> None:
    scene.dispatcher("dispatcher")
    doomed = scene.worker("doomed", fail_at=point)
    scene.submit(JOBS)
    scene.until_dead(doomed)
    scene.worker("other")
    scene.until_done()
    verdict = scene.verdict()
    assert (verdict.lost, verdict.completed_twice, verdict.succeeded) == (0, 0, JOBS)
    assert verdict.second_runs <= 8  # what it had, and nothing else
    assert scene.overlaps() == 0


def test_a_worker_killed_by_its_handler(scene: Scene) -> None:
    scene.dispatcher("dispatcher")
    doomed = scene.worker("doomed")
    scene.submit(JOBS)
    killer = scene.submit_killer()
    scene.until_dead(doomed)
    scene.worker("other")
    scene.until_done()
    verdict = scene.verdict()
    assert (verdict.lost, verdict.completed_twice, verdict.succeeded) == (0, 0, JOBS + 1)
    assert len(scene.starts(killer)) == 2
    assert verdict.second_runs <= 8
    assert scene.overlaps() == 0
