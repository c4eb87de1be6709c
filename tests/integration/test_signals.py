"""However a dispatcher is asked to stop, and whatever it is doing: it leaves cleanly, says 0, and nothing is lost."""

import os
import signal

import pytest

from tests.integration.scene import Scene

JOBS = 60
ASKED = {
    "SIGTERM": (signal.SIGTERM,),
    "SIGINT": (signal.SIGINT,),
    "SIGHUP": (signal.SIGHUP,),
    "two at once": (signal.SIGTERM, signal.SIGINT),
}
pytestmark = pytest.mark.timeout(240)


def ends(scene: Scene, process, numbers) -> int:
    for number in numbers:
        os.kill(process.pid, number)
    scene.until(lambda: not process.alive(), 30)
    return process.stop()


def test_it_leaves_cleanly_idle_at_work_and_in_a_take_over(scene: Scene) -> None:
    scene.worker("worker")
    idle = scene.dispatcher("idle")
    scene.until(idle.ready)
    assert ends(scene, idle, ASKED["SIGTERM"]) == 0
    for name, numbers in ASKED.items():
        busy = scene.dispatcher(name.replace(" ", "-"))
        had = scene.ended()
        scene.submit(JOBS)
        scene.until(lambda had=had: scene.ended() > had + JOBS // 5)
        assert ends(scene, busy, numbers) == 0
        assert scene.judge.unfinished(scene.expected), "it was in the midst of them"
    young = scene.dispatcher("young")
    scene.until(young.ready)  # its shards are still to come
    assert ends(scene, young, ASKED["SIGTERM"]) == 0
    scene.dispatcher("last")
    scene.until_done()
    verdict = scene.verdict()
    assert (verdict.lost, verdict.completed_twice, verdict.succeeded) == (0, 0, len(ASKED) * JOBS)
    assert (verdict.second_runs, scene.overlaps()) == (0, 0)
