"""How fast a backlog drains: everything on this machine, real broker, real dispatcher, stand-in worker."""

import time
from collections.abc import Mapping

from scheduler.bench.load import Load
from scheduler.bench.site import site
from scheduler.bench.standin import StandIn
from scheduler.bench.volume import volume
from scheduler.core.notices import Lease
from scheduler.kafka.layout import Layout

_WARM_UP = 500
_STALLED_S = 60


def drain(properties: Mapping[str, str], jobs: int, slots: int) -> dict[str, float]:
    """Queue `jobs`, then let one dispatcher admit, lease and complete them.

    The worker answers nothing while jobs are queued, so they pile up as a backlog. The clock runs from when Kafka
    has them all until every job's `done` is on its way; the dispatcher's CPU counts from the first submit on, with
    admission. Warm-up jobs run before, so that start-up is in neither.
    """
    with site(properties) as place:
        load = Load(properties, place.prefix, place.shards)
        worker = StandIn(properties, place.prefix, slots=slots, shards=place.shards)
        dispatcher = place.dispatcher()
        load.publish(_WARM_UP)
        run_all(worker, _WARM_UP)
        cpu_s = dispatcher.cpu_s()
        load.publish(jobs)
        began = time.monotonic()
        run_all(worker, jobs)
        took_s, cpu_s = time.monotonic() - began, dispatcher.cpu_s() - cpu_s
        worker.close()
        dispatcher.stop()
        records, size = volume(properties, Layout(place.shards, {"default": 64}, 1, place.prefix))
    total = jobs + _WARM_UP
    return {
        "jobs": jobs,
        "seconds": round(took_s, 3),
        "jobs_per_s": round(jobs / took_s),
        "dispatcher_us_per_job": round(cpu_s / jobs * 1e6, 1),
        "records_per_job": round(records / total, 2),
        "bytes_per_job": round(size / total),
    }


def run_all(worker: StandIn, jobs: int) -> None:
    """Answer leases until `jobs` different jobs were answered."""
    seen: set[str] = set()

    def leased(lease: Lease, _at_ms: int) -> None:
        seen.add(lease.job_id)

    heard = time.monotonic()
    while len(seen) < jobs:
        if worker.step(0.05, leased):
            heard = time.monotonic()
        elif time.monotonic() - heard > _STALLED_S:
            raise RuntimeError(f"no lease for {_STALLED_S} s with {jobs - len(seen)} jobs to go")
