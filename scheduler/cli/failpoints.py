"""Failpoints: named places where a test has the process killed, as an accident would.

`JOBS_FAILPOINT=name[:n]` sends SIGKILL at the n-th passage (the first) of that place.

dispatcher  before_commit  after_commit  after_store  in_takeover
worker      lease_received  after_handler  done_sent
"""

import os
import signal
from collections.abc import Callable, Mapping

from scheduler.core.notices import Lease
from scheduler.core.reports import Done, Report
from scheduler.worker.ports import Joined, Link, LinkEvent, Received


def failpoint_from(environ: Mapping[str, str]) -> Callable[[str], None]:
    """Return what to call with the name of each place that is passed."""
    name, _, count = environ.get("JOBS_FAILPOINT", "").partition(":")
    left = int(count or 1)

    def pass_by(point: str) -> None:
        nonlocal left
        if point == name:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return pass_by


class FailingLink:
    """A worker's link with failpoints where leases come in and completions go out."""

    def __init__(self, link: Link, failpoint: Callable[[str], None]) -> None:
        """Pass everything on to `link`."""
        self._link = link
        self._failpoint = failpoint

    def join(self, pool: str, boot_id: bytes) -> Joined:
        """See `Link`."""
        return self._link.join(pool, boot_id)

    def fileno(self) -> int:
        """See `Link`."""
        return self._link.fileno()

    def take(self) -> list[LinkEvent]:
        """See `Link`."""
        taken = self._link.take()
        for event in taken:
            if isinstance(event, Received) and isinstance(event.notice, Lease):
                self._failpoint("lease_received")
        return taken

    def send(self, ticket: int, partition: int, report: Report) -> None:
        """See `Link`."""
        if not isinstance(report, Done):
            self._link.send(ticket, partition, report)
            return
        self._failpoint("after_handler")
        self._link.send(ticket, partition, report)
        self._failpoint("done_sent")

    def close(self, timeout_ms: int) -> bool:
        """See `Link`."""
        return self._link.close(timeout_ms)
