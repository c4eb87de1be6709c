"""Jobs for integration tests; each run is written down by the handler itself."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from scheduler import App, Context
from scheduler.bench.runlog import written_down

app = App("it")


@app.around
@contextmanager
def ledger(ctx: Context) -> Iterator[None]:
    with written_down(ctx):
        yield


@app.job(queue="it")
def work(n: int, work_ms: int = 20) -> int:
    time.sleep(work_ms / 1000)
    return n
