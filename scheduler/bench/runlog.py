"""What handlers write down themselves, apart from anything the scheduler says: one line a run's start and end.

Each process appends to a file of its own with single writes, so a killed process leaves whole lines.
"""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from scheduler.worker.context import Context

FOLDER: Final = "JOBS_DEMO_RUNS"


@contextmanager
def written_down(ctx: Context) -> Iterator[None]:
    """Write down the start of a run, and its end if it comes to one."""
    _write({"job": ctx.job_id, "epoch": ctx.epoch, "attempt": ctx.attempt, "start_ms": _now_ms()})
    try:
        yield
    finally:
        _write({"job": ctx.job_id, "epoch": ctx.epoch, "end_ms": _now_ms()})


def _write(line: dict[str, Any]) -> None:
    folder = os.environ.get(FOLDER)
    if not folder:
        return
    raw = (json.dumps(line) + "\n").encode()
    handle = os.open(Path(folder) / f"{os.getpid()}.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, raw)
    finally:
        os.close(handle)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def read_runs(folder: Path) -> list[dict[str, Any]]:
    """Return every line of all processes."""
    return [
        json.loads(line)
        for path in sorted(folder.glob("*.jsonl"))
        for line in path.read_text().splitlines()
        if line.endswith("}")
    ]
