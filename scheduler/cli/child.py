"""A child process whose output is shown line by line under its name."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence

import click

COMMAND = (sys.executable, "-m", "scheduler")
"""The same installation as this process's, whatever is first on the path."""

_NAME_WIDTH = 10


class Child:
    """One of our own commands as a child process, in a session of its own: Ctrl-C reaches the parent alone.

    ``ended`` is called once, from another thread, when it has ended and its last line is shown.
    """

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        ended: Callable[["Child"], None],
    ) -> None:
        self.name = name
        self._ended = ended
        self._stopping = False
        self._started_s = time.monotonic()
        self._process = subprocess.Popen(
            [*COMMAND, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env={**os.environ, **environment, "PYTHONUNBUFFERED": "1"},
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._show, name=f"output of {name}", daemon=True)
        self._reader.start()

    @property
    def stopping(self) -> bool:
        """Was it told to stop?"""
        return self._stopping

    @property
    def exit_code(self) -> int:
        """How it ended; waits for that."""
        return self._process.wait()

    @property
    def age_s(self) -> float:
        """Seconds since it was started."""
        return time.monotonic() - self._started_s

    def stop(self, patience_s: float) -> None:
        """SIGTERM, and SIGKILL to it and its children after ``patience_s``; returns when its last line is shown."""
        self._stopping = True
        self._process.terminate()
        try:
            self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            say(f"the {self.name} did not stop within {patience_s:.0f} s and is killed")
            os.killpg(self._process.pid, signal.SIGKILL)
        self.wait()

    def wait(self) -> int:
        """Wait until it has ended and its last line is shown; returns its exit code."""
        code = self._process.wait()
        self._reader.join(1.0)  # a grandchild may hold the pipe open
        return code

    def _show(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                show(self.name, line.rstrip("\n"))
        self._process.wait()
        self._ended(self)


def say(text: str) -> None:
    """A line of our own among those of the children."""
    show("dev", text)


def show(name: str, line: str) -> None:
    """One line of output under a name."""
    click.echo(f"{name:<{_NAME_WIDTH}} | {line}")
