"""A child's socket to its parent."""

import os
import select
import signal
import socket
import threading
from collections.abc import Callable
from typing import Final, NoReturn

from scheduler.worker.wire import Down, DownReader, Up, frame

READ_BYTES: Final = 64 * 1024
PULSE_S: Final = 0.5


class Upstream:
    """Sends from any thread; a thread of its own reads, so that a busy handler still hears the parent."""

    def __init__(self, fd: int) -> None:
        """Take the inherited descriptor; programs that handlers start do not inherit it."""
        self._socket = socket.socket(fileno=fd)
        self._socket.set_inheritable(False)
        self._lock = threading.Lock()
        self._hear: Callable[[Down], None] | None = None
        self._pulse: Callable[[], bool] | None = None
        self._early: list[Down] = []

    def listen(self) -> None:
        """Begin to read; until `hand_to` is called messages wait."""
        threading.Thread(target=self._read, name="jobs-parent", daemon=True).start()

    def hand_to(self, hear: Callable[[Down], None], pulse: Callable[[], bool]) -> None:
        """Give messages to `hear`, and call `pulse` twice a second while it returns true or anything is said."""
        with self._lock:
            early, self._early = self._early, []
            self._hear, self._pulse = hear, pulse
            for message in early:
                hear(message)

    def send(self, message: Up) -> None:
        """Send a message whole. A parent that is gone ends this process."""
        data = frame(message)
        with self._lock:
            try:
                self._socket.sendall(data)
            except OSError:
                die()

    def _read(self) -> None:
        reader = DownReader()
        busy = False
        while True:
            readable, _, _ = select.select([self._socket], [], [], PULSE_S if busy else None)
            if readable:
                try:
                    data = self._socket.recv(READ_BYTES)
                except OSError:
                    data = b""
                if not data:
                    die()
                for message in reader.feed(data):
                    self._give(message)
            busy = self._pulse is not None and self._pulse()

    def _give(self, message: Down) -> None:
        hear = self._hear
        if hear is None:
            with self._lock:
                if self._hear is None:
                    self._early.append(message)
                    return
                hear = self._hear
        hear(message)


def die() -> NoReturn:
    """End this process and everything that it started: the parent is gone, so nobody keeps the leases."""
    os.killpg(0, signal.SIGKILL)
    os._exit(1)  # not reached
