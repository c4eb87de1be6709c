"""Process groups: starting one, knowing when its leader has ended, killing it, knowing that it is gone."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from scheduler.worker.guard import kill_group

__all__ = [
    "exit_fd",
    "exit_text",
    "group_lives",
    "has_ended",
    "kill_group",
    "memory_bytes",
    "spawn_connected",
]

STANDARD_ERROR: Final = 2


def _spawn(module: str, *arguments: str, inherit: tuple[int, ...]) -> subprocess.Popen[bytes]:
    """Start `python -m module` in a session, and so a process group, of its own.

    What it prints goes to our standard error. Of our descriptors it gets `inherit` only.
    """
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=STANDARD_ERROR,
        pass_fds=inherit,
        start_new_session=True,
    )


def spawn_connected(
    module: str, *arguments: str, inherit: tuple[int, ...] = ()
) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start a process in a session, and so a process group, of its own, with one end of a socket pair as its first argument; return ours."""
    ours, theirs = socket.socketpair()
    with theirs:
        fd = theirs.fileno()
        return _spawn(module, str(fd), *arguments, inherit=(fd, *inherit)), ours


def exit_fd(pid: int) -> int | None:
    """Return a descriptor that becomes readable when the process ends, None where the system has none."""
    return os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None


def has_ended(pid: int) -> bool:
    """Say whether a child of ours has ended, without reaping it: until then its number is not used again."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def group_lives(group: int) -> bool:
    """Say whether a process of the group still runs; zombies that nobody reaps do not count."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return False
    return not _PROC.exists() or any(theirs == group for _, theirs in _running())


def memory_bytes(groups: set[int]) -> dict[int, int]:
    """Return how much memory the processes of each group hold: resident pages less those of files.

    Empty where the system does not tell. Pages that a fork shares count once for each process.
    """
    held = dict.fromkeys(groups, 0)
    for pid, group in _running():
        if group in held:
            held[group] += _resident_bytes(pid)
    return held if _PROC.exists() else {}


def exit_text(status: int) -> str:
    """Describe how a process ended, from `Popen.returncode`."""
    if status >= 0:
        return f"exit code {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"


_PROC: Final = Path("/proc/self/stat")


def _running() -> Iterator[tuple[int, int]]:
    """Go through (process, group) of what runs on this machine, zombies left out; nothing without /proc."""
    if not _PROC.exists():
        return
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            stat = Path(entry.path, "stat").read_bytes()
        except OSError:
            continue  # it has ended
        # The command stands in parentheses and may hold any byte, so count from the last one.
        fields = stat[stat.rindex(b")") + 2 :].split()
        if fields[0] not in (b"Z", b"X"):
            yield int(entry.name), int(fields[2])


def _resident_bytes(pid: int) -> int:
    try:
        fields = Path(f"/proc/{pid}/statm").read_bytes().split()
    except OSError:
        return 0
    return (int(fields[1]) - int(fields[2])) * os.sysconf("SC_PAGE_SIZE")
