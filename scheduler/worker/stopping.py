"""Signals that ask a worker to go, turned into events of the parent's loop."""

import selectors
import signal
import socket
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Final, Self

ASK_TO_STOP: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Signals:
    """Counts signals while entered: the handler only counts, the loop is woken by the wake-up descriptor.

    Outside the main thread, where Python takes no signals, it does nothing.
    """

    def __init__(self, selector: selectors.BaseSelector, asked: Callable[[], None]) -> None:
        """`asked` is called, in the main thread between two instructions, for each signal."""
        self._selector = selector
        self._asked = asked
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        """Begin to take signals."""
        if threading.current_thread() is not threading.main_thread():
            return self
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)
        self._theirs.setblocking(False)
        self._selector.register(self._ours, selectors.EVENT_READ, self._drain)
        self._wakeup_before = signal.set_wakeup_fd(self._theirs.fileno(), warn_on_full_buffer=False)
        # What nohup has ignored stays so. SIGINT is heeded always: shells ignore it for background jobs, but
        # who sends it to one by its number means it.
        heard = [
            number
            for number in ASK_TO_STOP
            if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN
        ]
        self._before = {number: signal.signal(number, self._handle) for number in heard}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give signals back."""
        if not self._before:
            return
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup_before)
        self._selector.unregister(self._ours)
        self._ours.close()
        self._theirs.close()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._asked()

    def _drain(self) -> None:
        try:
            self._ours.recv(1_024)
        except BlockingIOError:
            pass
