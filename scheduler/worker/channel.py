"""The parent's end of a child's socket: never blocks, whatever the child does."""

import selectors
import socket
from collections.abc import Callable
from typing import Final

from scheduler.worker.wire import Down, FrameError, Up, UpReader, frame

READ_BYTES: Final = 256 * 1024
BACKLOG_MAX_BYTES: Final = 8 * 1024 * 1024
"""What may wait for a child that does not read; one that lets more gather is given up."""


class ChannelBrokenError(Exception):
    """The child closed its end, wrote nonsense, or does not read any more."""


class Channel:
    """Frames to and from one child."""

    def __init__(
        self, selector: selectors.BaseSelector, ours: socket.socket, wake: Callable[[], None]
    ) -> None:
        """Watch `ours`; `wake` is called when `pump` has something to do."""
        self._selector = selector
        self._socket = ours
        self._wake = wake
        self._reader = UpReader()
        self._backlog = bytearray()
        ours.setblocking(False)
        selector.register(ours, selectors.EVENT_READ, wake)

    def send(self, message: Down) -> None:
        """Send a message, now or as soon as the child reads. Raises `ChannelBrokenError`."""
        self._backlog += frame(message)
        self._push()
        if len(self._backlog) > BACKLOG_MAX_BYTES:
            raise ChannelBrokenError("it does not read any more")

    def pump(self) -> list[Up]:
        """Send what waits, and return what came. Raises `ChannelBrokenError`."""
        self._push()
        try:
            data = self._socket.recv(READ_BYTES)
        except BlockingIOError:
            return []
        except OSError as error:
            raise ChannelBrokenError(str(error)) from error
        if not data:
            raise ChannelBrokenError("it closed its end")
        try:
            return self._reader.feed(data)
        except FrameError as error:
            raise ChannelBrokenError(str(error)) from error

    def close(self) -> None:
        """Stop watching and close."""
        self._selector.unregister(self._socket)
        self._socket.close()

    def _push(self) -> None:
        waited = bool(self._backlog)
        try:
            while self._backlog:
                sent = self._socket.send(self._backlog)
                del self._backlog[:sent]
        except BlockingIOError:
            pass
        except OSError as error:
            self._backlog.clear()
            raise ChannelBrokenError(str(error)) from error
        if waited:
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._backlog else 0)
            self._selector.modify(self._socket, events, self._wake)
