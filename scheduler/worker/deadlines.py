"""The table through which the parent tells the guard until when each child may live.

Shared memory of signed 64-bit words. Row 0 holds how many rows were ever used; each other row is a process
group (0: free) and its deadline (milliseconds of `clock`; 0: none). The parent writes, the guard reads; a word
is written in one store.

A row is reused, so its two words must not be mixed up: the guard could see an old, passed deadline beside
the group of a new child, and kill it. So the parent clears the deadline before it names a group, and clears
the group before anything else when a child is gone; and the guard reads group, deadline, group again, and
acts only if both readings of the group agree (pids come round far slower than that).
"""

import mmap
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self

ROWS: Final = 4_096
_WORD: Final = 8
SIZE_BYTES: Final = ROWS * 2 * _WORD


class DeadlineTable:
    """One end of the table; `fd` may be inherited by another process, which opens its own end."""

    def __init__(self, fd: int) -> None:
        """Map the table behind a descriptor."""
        self.fd = fd
        self._map = mmap.mmap(fd, SIZE_BYTES)
        self._view = memoryview(self._map).cast("q")

    @classmethod
    def new(cls) -> Self:
        """Make an empty table."""
        fd = _shared_file()
        os.ftruncate(fd, SIZE_BYTES)
        return cls(fd)

    def close(self) -> None:
        """Unmap the table and close the descriptor."""
        self._view.release()
        self._map.close()
        os.close(self.fd)

    # -- the parent's side -------------------------------------------------------------------------

    def enter(self, row: int, group: int) -> None:
        """Give a row to a process group, without a deadline yet."""
        assert 0 < row < ROWS
        self._view[2 * row + 1] = 0
        self._view[2 * row] = group
        self._view[0] = max(self._view[0], row)

    def set_deadline(self, row: int, deadline_ms: int) -> None:
        """Let the row's group live until `deadline_ms`; 0: for ever."""
        self._view[2 * row + 1] = deadline_ms

    def leave(self, row: int) -> None:
        """Free a row. Must come before its process is reaped: until then nobody else can have its number."""
        self._view[2 * row] = 0
        self._view[2 * row + 1] = 0

    # -- the guard's side --------------------------------------------------------------------------

    def groups(self) -> Iterator[int]:
        """Go through all process groups."""
        for row in range(1, self._view[0] + 1):
            group = self._view[2 * row]
            if group:
                yield group

    def deadlines(self) -> Iterator[tuple[int, int]]:
        """Go through (group, deadline) of the rows that have one."""
        for row in range(1, self._view[0] + 1):
            group = self._view[2 * row]
            if not group:
                continue
            deadline_ms = self._view[2 * row + 1]
            if deadline_ms and self._view[2 * row] == group:
                yield group, deadline_ms


def _shared_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("jobs-deadlines", 0)
    fd, path = tempfile.mkstemp(prefix="jobs-deadlines-")
    Path(path).unlink()
    return fd
