"""kill -9 at every named point: nothing lost, nothing completed twice, no two runs at once.

Each story waits most of its time, for sessions and leases to run out. So those that were chosen are played at once, a
few at a time on one broker, and each test is told how its own went.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.integration.scene import Scene, scene_on

JOBS = 150
AT_ONCE = 3

pytestmark = pytest.mark.timeout(400)

Told = Callable[..., None]


@pytest.fixture(scope="module")
def played(request: pytest.FixtureRequest, kafka: str) -> Iterator[dict[str, Future[None]]]:
    """Play the story of each chosen test: the function of the test's name without `test_`."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        chosen = [item for item in request.session.items if item.parent is request.node]
        yield {
            item.name: pool.submit(_play, kafka, item) for item in chosen if isinstance(item, pytest.Function)
        }


def _play(kafka: str, item: pytest.Function) -> None:
    story = getattr(item.module, item.originalname.removeprefix("test_"))
    with scene_on(kafka) as scene:
        story(scene, *(item.callspec.params.values() if hasattr(item, "callspec") else ()))


@pytest.fixture
def told(request: pytest.FixtureRequest, played: dict[str, Future[None]]) -> Told:
    """Return what raises whatever this test's story raised."""
    return lambda *_: played[request.node.name].result()


def a_dispatcher_killed_in_its_turn(scene: Scene, point: str, own_disk: bool) -> None:
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


@pytest.mark.parametrize(
    ("point", "own_disk"),
    [
        ("before_commit:12", True),
        ("after_commit:12", True),
        ("after_store:12", True),
        ("after_commit:12", False),
    ],
)
def test_a_dispatcher_killed_in_its_turn(told: Told, point: str, own_disk: bool) -> None:
    told(point, own_disk)


def a_dispatcher_killed_in_its_take_over(scene: Scene) -> None:
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


def test_a_dispatcher_killed_in_its_take_over(told: Told) -> None:
    told()


def a_worker_killed(scene: Scene, point: str) -> None:
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


@pytest.mark.parametrize("point", ["lease_received:30", "after_handler:30", "done_sent:30"])
def test_a_worker_killed(told: Told, point: str) -> None:
    told(point)


def a_worker_killed_by_its_handler(scene: Scene) -> None:
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


def test_a_worker_killed_by_its_handler(told: Told) -> None:
    told()
