"""A run in this process: the production child's side of it, with the way to the parent shortened to a call."""

import threading
from collections.abc import Callable

from scheduler.worker.liverun import LiveRun
from scheduler.worker.upstream import Upstream
from scheduler.worker.wire import Begin, DownReader, Up, UpReader, frame


class RunKilled(BaseException):
    """Unwinds a handler whose process is dead: killed at its timeout, or gone with its worker.

    In production nothing of it would run any more; here its `finally` blocks do.
    """


class Loopback(Upstream):
    """Says everything to a function of this process, framed and read back as it would be over the socket."""

    def __init__(self, hear: Callable[[Up], None]) -> None:
        """Say it to `hear`; there is no socket."""
        self._reader = UpReader()
        self._said = hear
        self._turn = threading.RLock()

    def send(self, message: Up) -> None:
        """Say a message; whatever answers it has been said when this returns."""
        with self._turn:
            for heard in self._reader.feed(frame(message)):
                self._said(heard)


class MemoryRun(LiveRun):
    """One run. Once it is `over`, whatever its handler asks for raises `RunKilled`."""

    def __init__(self, begin: Begin, upstream: Upstream, saved: Callable[[int], None]) -> None:
        """Take what the parent said; `saved` is told how many checkpoints of this run are durable, at each."""
        (received,) = DownReader().feed(frame(begin))
        assert isinstance(received, Begin)
        super().__init__(received, upstream)
        self._saved = saved
        self._count = 0
        self.over = False
        self.told: tuple[float, str] | None = None

    def save(self, data: bytes) -> None:
        """Keep a checkpoint; it is durable when this returns."""
        self.insist()
        super().save(data)
        self._count += 1
        self._saved(self._count)
        self.insist()

    def progress(self, fraction: float, note: str) -> None:
        """Keep progress."""
        self.insist()
        self.told = (fraction, note)
        super().progress(fraction, note)

    def stopping(self) -> str:
        """Return why the run has to end, or an empty string."""
        self.insist()
        return super().stopping()

    def remaining_s(self) -> float:
        """Return the seconds left until the run is ended."""
        self.insist()
        return super().remaining_s()

    def insist(self) -> None:
        """Raise `RunKilled` if the run is over."""
        if self.over:
            raise RunKilled
