"""Many scheduled jobs: how much memory they take, whether any starts early, how late they start."""

import time
from collections.abc import Mapping

from scheduler.bench.drain import run_all
from scheduler.bench.figures import percentile
from scheduler.bench.load import Load
from scheduler.bench.site import Process, site
from scheduler.bench.standin import StandIn
from scheduler.core.notices import Lease

_PER_S = 2_500
_LEAD_MS = 5_000
_WARM_UP = 100


def scheduled(properties: Mapping[str, str], jobs: int) -> dict[str, float]:
    """Submit `jobs` that fall due at 2,500 a second, beginning after all are submitted, and run them."""
    with site(properties) as place:
        load = Load(properties, place.prefix, place.shards)
        worker = StandIn(properties, place.prefix, slots=512, shards=place.shards)
        dispatcher = place.dispatcher()
        load.publish(_WARM_UP)
        run_all(worker, _WARM_UP)
        first_ms = _now_ms() + _LEAD_MS + jobs // 20  # time to submit them all
        due = {}
        ids = load.publish(jobs, lambda n: first_ms + n * 1000 // _PER_S)
        for n, job_id in enumerate(ids):
            due[job_id] = first_ms + n * 1000 // _PER_S
        late_ms, peak_mb = _run(worker, dispatcher, due)
        worker.close()
    return {
        "jobs": jobs,
        "dispatcher_rss_mb": round(peak_mb, 1),
        "early": sum(late < 0 for late in late_ms),
        "lateness_p50_ms": round(percentile(late_ms, 0.50), 1),
        "lateness_p99_ms": round(percentile(late_ms, 0.99), 1),
    }


def _run(worker: StandIn, dispatcher: Process, due: dict[str, int]) -> tuple[list[float], float]:
    late_ms: list[float] = []
    peak_mb = dispatcher.rss_mb()

    def leased(lease: Lease, at_ms: int) -> None:
        due_ms = due.pop(lease.job_id, None)
        if due_ms is not None:
            late_ms.append(at_ms - due_ms)

    looked = time.monotonic()
    while due:
        worker.step(0.05, leased)
        if time.monotonic() - looked > 1:
            looked = time.monotonic()
            peak_mb = max(peak_mb, dispatcher.rss_mb())
    return late_ms, peak_mb


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
