"""How the last process with a state directory ended: told by a file in it, which outlives the process."""

import logging
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

_log = logging.getLogger(__name__)

RUNNING: Final = "running"
STOPPED: Final = "stopped"  # as it was asked to
FAILED: Final = "failed"
STUCK: Final = "stuck"
KILLED: Final = "killed"

_REASON_MAX_CHARS: Final = 16_384
_UNSAID: Final = "it ended without a word: killed, out of memory, or its machine went down"


class Exit(msgspec.Struct, frozen=True):
    """How a process ended, or that it has not: one of the words above, when, and why."""

    how: str
    at: str  # ISO 8601, UTC
    pid: int
    reason: str = ""


class LastExit:
    """The file `last-exit.json` of a state directory. It is a help, so trouble with it is told and stops nobody."""

    def __init__(self, directory: Path) -> None:
        """Use the file in `directory`."""
        self._path = directory / "last-exit.json"

    def begun(self) -> Exit | None:
        """Note that this process runs; return how the last one here ended, None if there is no word of one."""
        last = self._read()
        self._write(RUNNING, "")
        if last is not None and last.how == RUNNING:
            return Exit(KILLED, last.at, last.pid, _UNSAID)
        return last

    def ended(self, how: str, reason: str = "") -> None:
        """Note how this process ends."""
        self._write(how, reason[-_REASON_MAX_CHARS:])

    def _read(self) -> Exit | None:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=Exit)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError) as error:
            _log.warning("%s can't be read: %s", self._path, error)
            return None

    def _write(self, how: str, reason: str) -> None:
        at = datetime.now(UTC).isoformat(timespec="seconds")
        new = self._path.with_suffix(".new")
        try:
            new.write_bytes(msgspec.json.encode(Exit(how, at, os.getpid(), reason)))
            new.replace(self._path)
        except OSError as error:
            _log.warning("%s can't be written: %s", self._path, error)
