"""Lines of JSON that processes leave behind: one file a process, one write a line, so a killed one leaves whole lines."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class Ledger:
    """The file of this process in a folder."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / f"{os.getpid()}.jsonl"

    def write(self, line: dict[str, Any]) -> None:
        """Append a line, stamped with both clocks in milliseconds."""
        raw = json.dumps({**line, "boot_ms": boot_ms(), "wall_ms": time.time_ns() // 1_000_000}) + "\n"
        handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(handle, raw.encode())
        finally:
            os.close(handle)


def lines(folder: Path) -> Iterator[dict[str, Any]]:
    """Return every line of all processes, file by file."""
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            yield json.loads(line)


def boot_ms() -> int:
    """Return the milliseconds since the machine started: a clock that neither steps nor stands still."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
