"""An application of async jobs only."""

import asyncio
import os
import signal
import time
from pathlib import Path

from scheduler import App

app = App("a")


def mark(path: str) -> None:
    Path(path).touch()


def block() -> None:
    time.sleep(1_000)


@app.job()
async def pid() -> int:
    return os.getpid()


@app.job()
async def forever(started: str) -> None:
    mark(started)
    await asyncio.Event().wait()


@app.job()
async def deaf(started: str) -> None:
    mark(started)
    block()


@app.job()
async def kill_self() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
