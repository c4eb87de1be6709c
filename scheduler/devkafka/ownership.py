"""Which process owns a cluster's directory: the one that holds the lock on a file in it.

The kernel drops a lock when its holder dies, however it dies, so a free lock beside live brokers means that they are
left-overs of a killed run.
"""

import fcntl
import json
import os
import time
from pathlib import Path
from typing import Self

from scheduler.devkafka.process import ProcessIdentity

_LOCK = "owner"
_RETRY_S = 0.01


class Ownership:
    """A held lock on a directory. Freed by ``release`` or by the death of this process."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    @classmethod
    def take(cls, directory: Path) -> Self | None:
        """Lock ``directory``, which must exist; None if a live process holds it."""
        descriptor = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if not _lock(descriptor, directory):
            os.close(descriptor)
            return None
        me = ProcessIdentity.of(os.getpid())
        assert me is not None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps({"pid": me.pid, "started": me.started}).encode(), 0)
        return cls(descriptor)

    def release(self) -> None:
        """Give the directory free. A second call does nothing."""
        if self._descriptor is not None:
            fcntl.flock(
                self._descriptor, fcntl.LOCK_UN
            )  # a forked child may still hold a copy of the descriptor
            os.close(self._descriptor)
            self._descriptor = None


def _lock(descriptor: int, directory: Path) -> bool:
    """Lock, unless a live process holds it. A look by ``owner_of`` may hold it too, for a moment."""
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = ProcessIdentity.read(directory / _LOCK)
            if holder is not None and holder.is_alive():
                return False
            time.sleep(_RETRY_S)
        else:
            return True


def owner_of(directory: Path) -> ProcessIdentity | None:
    """The live process that owns ``directory``; None if nobody does."""
    try:
        descriptor = os.open(directory / _LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return ProcessIdentity.read(directory / _LOCK)
    finally:
        os.close(descriptor)
    return None
