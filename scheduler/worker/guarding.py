"""The guard process as the parent holds it."""

import selectors
import subprocess
from types import TracebackType
from typing import Final, Self

from scheduler.worker import processes
from scheduler.worker.deadlines import DeadlineTable
from scheduler.worker.guard import READY

START_S: Final = 10.0
STOP_S: Final = 2.0


class GuardDiedError(Exception):
    """The guard process has ended: without it nobody would stop children in time, so the worker must end too."""


class Guard:
    """Starts the guard on entering, and lets it end on leaving: it kills what is left in the table."""

    def __init__(self, table: DeadlineTable, selector: selectors.BaseSelector) -> None:
        """Take the table to be watched."""
        self._table = table
        self._selector = selector
        self._heard = False

    def __enter__(self) -> Self:
        """Start it, and wait until it watches."""
        self._process, self._socket = processes.spawn_connected(
            "scheduler.worker.guard", str(self._table.fd), inherit=(self._table.fd,)
        )
        self._socket.settimeout(START_S)
        if self._socket.recv(1) != READY:
            raise GuardDiedError("the guard process did not start")
        self._selector.register(self._socket, selectors.EVENT_READ, self._hear)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let it go; what is still in the table is killed."""
        self._selector.unregister(self._socket)
        self._socket.close()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._table.close()

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    def _hear(self) -> None:
        self._heard = True  # it has nothing more to say, so this is the end of file

    def check(self) -> None:
        """Raise `GuardDiedError` if it has ended."""
        if self._heard:
            raise GuardDiedError("the guard process has ended; so does this worker")
