"""The jobs of the chaos run. Each run writes its start and its end down itself, and claims its job meanwhile."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scheduler import App, Context, Retry
from tests.chaos.claim import claim
from tests.chaos.ledger import Ledger

FOLDER = "CHAOS_FOLDER"
"""The variable that names the folder of the run; below it lie `runs` and `claims`."""

CHILD = "-child"
"""What follows a job's id in the id of the job that it emits."""

RETRY_AFTER_MS = 5_000

app = App("chaos")


@app.around
@contextmanager
def written_down(ctx: Context) -> Iterator[None]:
    folder = Path(os.environ[FOLDER])
    ledger = Ledger(folder / "runs")
    run = {"job": ctx.job_id, "epoch": ctx.epoch, "attempt": ctx.attempt, "pid": os.getpid()}
    with claim(folder / "claims" / ctx.job_id) as beside:
        ledger.write({"what": "start", **run, "beside": beside})
        try:
            yield
        except BaseException as error:
            ledger.write({"what": "end", **run, "outcome": type(error).__name__})
            raise
        ledger.write({"what": "end", **run, "outcome": OK})


OK = "ok"


@app.job(queue="chaos")
def quick(work_ms: int = 20) -> None:
    time.sleep(work_ms / 1_000)


@app.job(queue="chaos", max_attempts=4, backoff={"base": "500ms", "max": "2s"})
def flaky(ctx: Context) -> None:
    """Fail twice."""
    if ctx.attempt <= 2:
        raise ConnectionError("refused")


@app.job(queue="chaos", max_attempts=2, backoff={"base": "500ms", "max": "1s"})
def hopeless() -> None:
    raise ConnectionError("refused")


@app.job(queue="chaos", max_attempts=3)
def patient(ctx: Context) -> None:
    """Fail once, and ask for a wait that goes through a retry topic."""
    if ctx.attempt == 1:
        raise Retry(f"{RETRY_AFTER_MS}ms")


@app.job(queue="chaos")
def long(ctx: Context, seconds: float) -> None:
    """Run for longer than a lease, heeding every wish to stop, from where an earlier run was."""
    for second in range(ctx.checkpoint or 0, int(seconds)):
        time.sleep(1)
        ctx.check()
        ctx.save(second + 1)


@app.job(queue="chaos")
def deaf(seconds: float) -> None:
    """Run for longer than a lease, and heed nothing."""
    time.sleep(seconds)


@app.job(queue="chaos")
def parent(ctx: Context) -> None:
    """Emit a job with the completion."""
    ctx.emit(quick.options(job_id=ctx.job_id + CHILD).request())
