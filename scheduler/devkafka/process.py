"""Processes that outlive the one that started them, told apart from strangers with the same number."""

import contextlib
import json
import os
import signal
import subprocess
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

_POLL_S = 0.02


@dataclass(frozen=True)
class ProcessIdentity:
    """A process: its id, and when it started (opaque text), since ids are given out again."""

    pid: int
    started: str

    @classmethod
    def of(cls, pid: int) -> Self | None:
        """The identity of the live process ``pid``; None if there is none."""
        started = _started(pid)
        return cls(pid, started) if started else None

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """What ``write`` left in ``path``; None if that is missing or torn."""
        try:
            fields = json.loads(path.read_text())
            return cls(int(fields["pid"]), str(fields["started"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, path: Path) -> None:
        """Put this identity into ``path``, whole or not at all."""
        new = path.with_name(path.name + ".new")
        new.write_text(json.dumps(asdict(self)))
        new.replace(path)

    def is_alive(self) -> bool:
        """Does this very process still run? A zombie does not."""
        return _started(self.pid) == self.started

    def send(self, number: signal.Signals) -> None:
        """Send a signal; nothing happens if the process is gone."""
        if self.is_alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def wait_gone(self, timeout_s: float) -> bool:
        """Wait until the process has ended; False if it has not after ``timeout_s``."""
        deadline_s = time.monotonic() + timeout_s
        while self.is_alive():
            if time.monotonic() >= deadline_s:
                return False
            time.sleep(_POLL_S)
        return True

    def end(self, patience_s: float) -> None:
        """Ask the process to end (SIGTERM), and after ``patience_s`` make it (SIGKILL)."""
        self.send(signal.SIGTERM)
        self.send(signal.SIGCONT)  # a stopped process would see the SIGTERM only when continued
        if not self.wait_gone(patience_s):
            self.send(signal.SIGKILL)
            self.wait_gone(5.0)


def _started(pid: int) -> str | None:
    """When the kernel says the process started: clock ticks since boot on Linux, a date elsewhere."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None if Path("/proc/self/stat").exists() else _started_says_ps(pid)
    return None if fields[0] in "ZX" else fields[19]


def _started_says_ps(pid: int) -> str | None:
    shown = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)],
        capture_output=True,
        text=True,
        check=False,
        env={"LC_ALL": "C"},
    ).stdout.strip()
    state, _, started = shown.partition(" ")
    return None if not started or state.startswith("Z") else started.strip()
