"""Opening a scheduler in memory for the time of one test."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from scheduler.testing.jobs import Jobs
from scheduler.testing.seams import connected


@contextmanager
def in_memory() -> Iterator[Jobs]:
    """Let whatever the block submits land in a scheduler of its own: what the fixture `jobs` does, without pytest.

    Blocks may be nested: the innermost one takes the jobs.
    """
    jobs = Jobs(time.time_ns() // 1_000_000)
    with connected(jobs.scheduler, jobs.submitter):
        try:
            yield jobs
        finally:
            jobs.scheduler.close()
