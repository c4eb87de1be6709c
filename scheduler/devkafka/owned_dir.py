"""A directory of one process: locked while that lives, left running on purpose, or else a left-over.

owner            locked by the process that owns the directory
processes.json   processes that it started here, in the order in which they are to end
*/pid.json       one that has a folder of its own, a broker; these end last
left-running     the owner is gone on purpose, and what runs here goes on
"""

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Self

from scheduler.devkafka.ownership import Ownership, owner_of
from scheduler.devkafka.process import ProcessIdentity

_PATIENCE_S = 10.0
_PROCESSES = "processes.json"
_LEFT_RUNNING = "left-running"


class OwnedDir:
    """A directory that this process owns until ``leave_running``, ``release`` or ``remove``."""

    def __init__(self, path: Path, ownership: Ownership) -> None:
        self.path = path
        self._ownership = ownership

    @classmethod
    def throwaway(cls, parent: Path, kind: str) -> Self:
        """A new directory ``kind-…`` that nobody needs when its owner is gone. Clears those of killed runs first."""
        with _only_one_at_a_time(parent):
            _clear_left_overs(parent)
            path = Path(tempfile.mkdtemp(prefix=f"{kind}-", dir=parent))
            ownership = Ownership.take(path)
        assert ownership is not None
        return cls(path, ownership)

    def note(self, processes: Mapping[str, int]) -> None:
        """Note what runs here (name to process id), in the order in which it is to end if we are killed."""
        identities = [(name, ProcessIdentity.of(pid)) for name, pid in processes.items()]
        noted = [{"name": name, **asdict(identity)} for name, identity in identities if identity]
        new = self.path / f"{_PROCESSES}.new"
        new.write_text(json.dumps(noted))
        new.replace(self.path / _PROCESSES)

    def leave_running(self) -> None:
        """Say that what runs here goes on without us, and give the directory free."""
        (self.path / _LEFT_RUNNING).touch()
        self.release()

    def release(self) -> None:
        """Give the directory free and keep what is in it."""
        self._ownership.release()

    def remove(self) -> None:
        """Give the directory free and remove it."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._ownership.release()


def is_left_running(path: Path) -> bool:
    """Was something left running on purpose in this directory, and does it still run?"""
    return (path / _LEFT_RUNNING).exists() and any(identity.is_alive() for identity in _processes(path))


def end_processes(path: Path) -> int:
    """End what runs in a directory that nobody owns. Returns how many processes ran."""
    running = [identity for identity in _processes(path) if identity.is_alive()]
    for identity in running:
        identity.end(_PATIENCE_S)
    for note in [path / _LEFT_RUNNING, path / _PROCESSES, *path.glob("*/pid.json")]:
        note.unlink(missing_ok=True)
    return len(running)


def clear_left_overs(parent: Path) -> None:
    """Remove the directories in ``parent`` whose owner is gone, and end what runs there; not what was left on purpose."""
    with _only_one_at_a_time(parent):
        _clear_left_overs(parent)


def directories(parent: Path) -> list[Path]:
    """The directories in ``parent``; none if it does not exist."""
    return sorted(path for path in parent.glob("*") if path.is_dir())


def _clear_left_overs(parent: Path) -> None:
    for path in directories(parent):
        if owner_of(path) is None and not is_left_running(path):
            end_processes(path)
            shutil.rmtree(path, ignore_errors=True)


def _processes(path: Path) -> list[ProcessIdentity]:
    brokers = (ProcessIdentity.read(note) for note in sorted(path.glob("*/pid.json")))
    return [*_noted(path), *(identity for identity in brokers if identity)]


def _noted(path: Path) -> list[ProcessIdentity]:
    try:
        noted = json.loads((path / _PROCESSES).read_text())
        return [ProcessIdentity(each["pid"], each["started"]) for each in noted]
    except (OSError, ValueError, KeyError, TypeError):
        return []


@contextlib.contextmanager
def _only_one_at_a_time(parent: Path) -> Iterator[None]:
    """Between the making of a directory and its locking another run would take it for a left-over."""
    parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(parent / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
