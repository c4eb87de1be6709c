"""The broker dies and comes back: work is taken up by itself."""

from collections.abc import Iterator

import pytest

from scheduler import devkafka
from tests.integration.scene import Scene

JOBS = 60
pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def cluster() -> Iterator[devkafka.Cluster]:
    try:
        started = devkafka.start()
    except devkafka.DevKafkaError as error:
        pytest.skip(f"no broker: {error}")
    with started:
        yield started


def test_work_goes_on_after_the_broker_was_killed(cluster, fresh_prefix) -> None:
    (node,) = cluster.nodes
    scene = Scene(cluster.bootstrap, fresh_prefix)
    try:
        dispatcher, worker = scene.dispatcher("dispatcher"), scene.worker("worker")
        scene.submit(JOBS)
        scene.until_done()
        node.kill()
        node.start()
        scene.submit(JOBS)
        scene.until_done()
        assert dispatcher.alive() and worker.alive(), scene.logs()
        verdict = scene.verdict()
        assert (verdict.lost, verdict.completed_twice, verdict.succeeded) == (0, 0, 2 * JOBS)
        assert scene.overlaps() == 0
    finally:
        scene.judge.close()
        scene.site.close()
