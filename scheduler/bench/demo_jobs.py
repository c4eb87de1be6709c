"""The jobs of the demo: most go well, some fail, one kills its process each time."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

from scheduler import App, Context, Fail
from scheduler.bench.runlog import written_down

app = App("demo")

QUICK_BACKOFF_MAX = "2s"


@app.around
@contextmanager
def ledger(ctx: Context) -> Iterator[None]:
    """Write each run down where the judge reads it."""
    with written_down(ctx):
        yield


@app.job(queue="email")
def send_email(to: str, work_ms: int = 5) -> str:
    """Stand for a quick call to another service."""
    time.sleep(work_ms / 1000)
    return f"sent to {to}"


@app.job(queue="reports", timeout="30s")
def build_report(ctx: Context, pages: int) -> int:
    """Stand for longer work that saves how far it is."""
    for page in range(ctx.checkpoint or 0, pages):
        ctx.check()
        time.sleep(0.02)
        ctx.save(page + 1)
        ctx.progress((page + 1) / pages, f"page {page + 1}")
    return pages


@app.job(queue="webhooks", max_attempts=5, backoff={"base": "500ms", "max": QUICK_BACKOFF_MAX})
def deliver(ctx: Context, url: str) -> int:
    """Fail twice, then succeed."""
    if ctx.attempt <= 2:
        raise ConnectionError(f"{url} refused the connection")
    return ctx.attempt


@app.job(queue="webhooks", max_attempts=3, backoff={"base": "500ms", "max": QUICK_BACKOFF_MAX})
def deliver_to_nobody(url: str) -> None:
    """Fail every time."""
    raise ConnectionError(f"{url} refused the connection")


@app.job(queue="webhooks", max_attempts=5)
def deliver_to_gone(url: str) -> None:
    """Give up at once."""
    raise Fail(f"{url} is gone for good")


@app.job(queue="images")
def crash(path: str) -> None:  # noqa: ARG001 - what it would have worked on
    """Kill the process that runs it, every time."""
    os.kill(os.getpid(), signal.SIGKILL)


@app.job(queue="orders")
def place_order(ctx: Context, customer: str) -> str:
    """Hand on a follow-up job with the completion."""
    ctx.emit(send_email.request(to=customer))
    return customer
