"""A run without a worker: what a plain call of a job, in a test or a script, gives its handler as `ctx`."""

import math
from typing import Final

from scheduler.client.ids import uuid7
from scheduler.worker.context import Context, RunInfo


class DetachedRun:
    """Keeps nothing, tells nobody, is never stopped."""

    def save(self, data: bytes) -> None:
        """Forget the checkpoint; the context itself shows it."""

    def progress(self, fraction: float, note: str) -> None:
        """Tell nobody."""

    def stopping(self) -> str:
        """Never."""
        return ""

    def remaining_s(self) -> float:
        """No end in sight."""
        return math.inf

    def shield(self, seconds: float) -> None:
        """Nothing to be shielded from."""


_RUN: Final = DetachedRun()


def detached_context(job_type: str, tenant: str, queue: str, max_attempts: int) -> Context:
    """Return the context of a first attempt that no worker knows of."""
    info = RunInfo(uuid7(), tenant, job_type, queue, attempt=1, max_attempts=max_attempts, epoch=1)
    return Context(info, _RUN)
