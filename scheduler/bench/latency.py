"""How long from submit to start at a steady rate: real broker, real dispatcher, stand-in worker."""

import time
from collections.abc import Mapping

from scheduler.bench.drain import run_all
from scheduler.bench.figures import percentile
from scheduler.bench.load import Load
from scheduler.bench.site import site
from scheduler.bench.standin import StandIn
from scheduler.core.notices import Lease

_WARM_UP = 300


def latency(properties: Mapping[str, str], rate: int, seconds: int) -> dict[str, float]:
    """Submit `rate` jobs a second, open loop, and take the time from submit to the lease's arrival at the worker."""
    with site(properties) as place:
        load = Load(properties, place.prefix, place.shards, linger_ms=0)
        worker = StandIn(properties, place.prefix, slots=64, shards=place.shards)
        place.dispatcher()
        load.publish(_WARM_UP)
        run_all(worker, _WARM_UP)
        waits_ms = _open_loop(load, worker, rate, rate * seconds)
        worker.close()
        load.close()
    return {
        "jobs": len(waits_ms),
        "rate": rate,
        "p50_ms": round(percentile(waits_ms, 0.50), 2),
        "p99_ms": round(percentile(waits_ms, 0.99), 2),
        "max_ms": round(max(waits_ms), 2),
    }


def _open_loop(load: Load, worker: StandIn, rate: int, jobs: int) -> list[float]:
    sent: dict[str, float] = {}
    waits_ms: list[float] = []

    def leased(lease: Lease, _at_ms: int) -> None:
        submitted = sent.pop(lease.job_id, None)
        if submitted is not None:
            waits_ms.append((time.monotonic() - submitted) * 1000)

    began, submitted = time.monotonic(), 0
    while len(waits_ms) < jobs:
        due = began + submitted / rate
        now = time.monotonic()
        if submitted < jobs and now >= due:
            sent[load.one()] = now
            submitted += 1
            continue
        worker.step(min(max(due - now, 0.0), 0.05) if submitted < jobs else 0.05, leased)
    return waits_ms
