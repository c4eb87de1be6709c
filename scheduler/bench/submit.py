"""How many jobs a second one client process hands to Kafka with `submit_many`."""

import time
from collections.abc import Mapping

from scheduler.bench.site import site
from scheduler.worker.app import App

_WARM_UP = 2_000


def submit(properties: Mapping[str, str], jobs: int) -> dict[str, float]:
    """Submit `jobs` typed requests and wait until Kafka has them all."""
    with site(properties) as place:
        app = App("bench", connection=properties, prefix=place.prefix)

        @app.job(queue="bench")
        def noop(n: int, text: str) -> None:
            """Do nothing."""

        app.submit_many(noop.request(n, "x" * 100) for n in range(_WARM_UP))
        began = time.monotonic()
        refs = app.submit_many(noop.request(n, "x" * 100) for n in range(jobs))
        took_s = time.monotonic() - began
    return {"jobs": len(refs), "seconds": round(took_s, 3), "jobs_per_s": round(jobs / took_s)}
