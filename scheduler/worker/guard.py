"""The guard of one worker process: runs no user code, and kills children that nobody else may stop in time.

It kills the process group of a child whose deadline has passed, though the worker's parent process be stopped
or swapped out, and every group when the parent is gone. (An alarm inside the child would kill a healthy one
that holds the interpreter lock, and a parent-death signal would spare grandchildren.)

    python -m scheduler.worker.guard PARENT_FD TABLE_FD

The parent holds the other end of PARENT_FD, and no other process does; its end of file says that the parent
is gone. One byte is written there once the guard watches.
"""

import os
import select
import signal
import sys
from typing import Final

from scheduler.worker.clock import mono_ms
from scheduler.worker.deadlines import DeadlineTable

LOOK_EVERY_MS: Final = 100
"""How often the table is looked at. Deadlines lie at least a second before anybody may rely on them."""

READY: Final = b"r"


def watch(table: DeadlineTable, parent: int) -> None:
    """Kill what is overdue until the parent is gone; then kill everything, and return."""
    wait_ms = 0
    while True:
        readable, _, _ = select.select([parent], [], [], wait_ms / 1_000)
        if readable and not os.read(parent, 1):
            for group in table.groups():
                kill_group(group)
            return
        wait_ms = _kill_overdue(table)


def kill_group(group: int) -> None:
    """Kill all processes of a group; one that is gone is left (macOS answers EPERM for a group of zombies)."""
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def _kill_overdue(table: DeadlineTable) -> int:
    """Kill what is overdue; return how long nothing more can be due."""
    now_ms = mono_ms()
    wait_ms = LOOK_EVERY_MS
    for group, deadline_ms in table.deadlines():
        if deadline_ms <= now_ms:
            kill_group(group)
        else:
            wait_ms = min(wait_ms, deadline_ms - now_ms)
    return wait_ms


def main() -> None:
    """Watch as the command line says."""
    parent, table = int(sys.argv[1]), DeadlineTable(int(sys.argv[2]))
    os.write(parent, READY)
    watch(table, parent)


if __name__ == "__main__":
    main()
