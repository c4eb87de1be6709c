"""A dispatcher that keeps warm copies takes a killed one's shards over by reading their last records only."""

import re

from scheduler.bench.site import Process
from scheduler.core.keys import shard_of
from scheduler.kafka.admin import Admin
from tests.integration.scene import Scene

JOBS = 300
RECORDS_A_JOB = 4  # at least: its record and state, and what is left of them when it has ended
LAST_JOBS = 40
SHARDS = 4


def dispatcher(scene: Scene, name: str) -> Process:
    return scene.site.dispatcher(name, settings=scene.settings, environ={"JOBS_STANDBY_REPLICAS": "1"})


def told(process: Process, what: str) -> dict[int, int]:
    """Return how many records were read by shard, the last time that a dispatcher said `what` of it."""
    found = re.findall(rf"shard (\d+) {what}: (\d+) records read", process.log.read_text())
    return {int(shard): int(records) for shard, records in found}


def test_a_take_over_reads_only_the_tail_of_what_is_kept_warm(scene):
    admin = Admin(scene.site.properties)
    victim = dispatcher(scene, "victim")
    scene.worker("worker")
    scene.submit(JOBS)
    scene.until_done()
    heir = dispatcher(scene, "heir")
    scene.until(lambda: admin.shares(f"{scene.site.prefix}dispatcher") == [SHARDS // 2] * 2)
    scene.until(lambda: len(told(heir, "is kept warm").keys() - told(heir, "restored")) == SHARDS // 2)
    kept = told(heir, "is kept warm").keys() - told(heir, "restored")
    ended = sum(shard_of(job_id, SHARDS) in kept for job_id in scene.expected)

    scene.submit(LAST_JOBS)
    scene.until(lambda: scene.ended() > JOBS)
    victim.kill()
    scene.until_done()
    read = told(heir, "restored")
    assert sum(read[shard] for shard in kept) < ended * RECORDS_A_JOB / 3, (read, kept)
    verdict = scene.verdict()
    assert (verdict.lost, verdict.completed_twice) == (0, 0), scene.logs()
