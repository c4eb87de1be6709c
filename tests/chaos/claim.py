"""One run of a job at a time, as the kernel sees it: a lock that dies with the process which holds it.

Start and end lines tell of an overlap only if the earlier run lived to write its end. The lock tells it of killed
runs too, and of those that go on after everybody believes them dead.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

UNKNOWN = -1
"""The holder had no time to write its id yet."""


@contextlib.contextmanager
def claim(path: Path) -> Iterator[int]:
    """Hold `path` for the length of a run, and yield 0; if another process holds it, go on without and yield its id."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield int(os.read(handle, 20) or UNKNOWN)
            return
        os.ftruncate(handle, 0)
        os.write(handle, str(os.getpid()).encode())
        yield 0
    finally:
        os.close(handle)
