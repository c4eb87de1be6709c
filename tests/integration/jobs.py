"""Jobs for integration tests; each run is written down by the handler itself."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scheduler import App, Context
from scheduler.bench.runlog import FOLDER, read_runs, written_down

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


@app.job(queue="it")
def kill_the_worker(ctx: Context) -> int:
    """Kill the parent of this process, once."""
    if ctx.epoch and not _was_here(ctx):
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(60)
    return ctx.attempt


def _was_here(ctx: Context) -> bool:
    runs = [
        line
        for line in read_runs(Path(os.environ[FOLDER]))
        if line["job"] == ctx.job_id and "start_ms" in line
    ]
    return len(runs) > 1
