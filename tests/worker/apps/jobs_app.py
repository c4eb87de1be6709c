"""The application that the workers under test run."""

import asyncio
import ctypes
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from scheduler import App, Context, Fail, Message, Retry, Snooze

app = App("t")
LOG = logging.getLogger("jobs_app")


def mark(path: str, text: str = "") -> None:
    """Make a file appear whole."""
    part = Path(f"{path}.part")
    part.write_text(text)
    part.rename(path)


def wait_for(path: str) -> None:
    while not Path(path).exists():
        time.sleep(0.005)


@app.job()
def add(a: int, b: int) -> int:
    return a + b


@app.job()
def until(started: str, go_on: str) -> str:
    mark(started, str(os.getpid()))
    wait_for(go_on)
    return "done"


@app.job()
def polite(ctx: Context, started: str) -> None:
    mark(started)
    while True:
        ctx.check()
        time.sleep(0.005)


@app.job()
def stubborn(ctx: Context, started: str) -> None:
    mark(started, str(os.getpid()))
    threading.Event().wait()


@app.job()
def kill_self() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@app.job()
def exit_zero() -> None:
    os._exit(0)


@app.job()
def segfault() -> None:
    ctypes.string_at(0)


@app.job()
def sys_exit() -> None:
    sys.exit(3)


@app.job(memory="100MB")
def hog(started: str) -> None:
    held = bytearray(200_000_000)
    for page in range(0, len(held), 4096):
        held[page] = 1
    mark(started)
    threading.Event().wait()


@app.job()
def hold_gil(started: str, seconds: int) -> str:
    mark(started, str(os.getpid()))
    ctypes.PyDLL(None).sleep(seconds)
    return "slept"


@app.job()
def parent_of(started: str) -> None:
    child = subprocess.Popen(["sleep", "1000"])
    mark(started, f"{os.getpid()} {child.pid}")
    child.wait()


@app.job()
def leaves_a_child(started: str) -> None:
    mark(started, str(subprocess.Popen(["sleep", "1000"]).pid))
    os._exit(0)


@app.job()
def checkpoints(ctx: Context, started: str, go_on: str) -> int:
    before = ctx.checkpoint or 0
    mark(started)
    ctx.save(before + 1)
    mark(go_on)
    return before


@app.job()
def progress(ctx: Context, started: str, go_on: str) -> None:
    ctx.progress(0.5, "half way")
    mark(started)
    wait_for(go_on)


@app.job()
def emits(ctx: Context) -> None:
    ctx.emit(Message("out", b"value", key="key"))


@app.job()
def emits_nonsense(ctx: Context) -> None:
    ctx.emit(Message("\ud800", b"value"))


@app.job()
def fails(what: str) -> None:
    if what == "retry":
        raise Retry("7s", "later")
    if what == "snooze":
        raise Snooze("9s")
    if what == "fail":
        raise Fail("never")
    raise ValueError("secret 😀" * 100_000)


@app.job()
def big() -> str:
    return "x" * 100_000


@app.job()
def pid_and_log(ctx: Context) -> int:
    LOG.warning("hello from a job")
    print("printed by a job")
    return os.getpid()


@app.job()
async def awaited(a: int) -> int:
    await asyncio.sleep(0)
    return a


@app.job()
def shielded(ctx: Context, started: str, go_on: str) -> str:
    with ctx.shield("10s"):
        mark(started)
        wait_for(go_on)
    return "whole"
