"""Jobs that this process leaves alone, because deciding about them raised something unexpected.

Their keys are hidden from every index (`view`), so no timer wakes them, no slot gets them, no lease of theirs
expires, nothing drops them. Their states stay as they are, until a process without the bug takes the shard over.
What is reported of them is acted on still; their leases are left out of beats, so that the others are renewed.
"""

from typing import Final

from scheduler.core import keyspace

MOST: Final = 1_000
"""A bug that meets so many is none of single jobs: the process ends."""


class SetAside:
    """The ids of these jobs, whatever shard they are in."""

    def __init__(self) -> None:
        """Begin with none."""
        self.jobs: set[str] = set()

    def full(self) -> bool:
        """Say whether no more may be set aside."""
        return len(self.jobs) >= MOST

    def hides(self, key: bytes) -> bool:
        """Say whether an index key is one of such a job."""
        job_of = _JOB_OF.get(key[:1])
        return job_of is not None and job_of(key) in self.jobs


def _of_ready(key: bytes) -> str:
    return keyspace.job_of_ready(key, keyspace.lane_of(key))


def _of_timed(key: bytes) -> str:
    return keyspace.parse_timed(key)[1]


def _of_leased(key: bytes) -> str:
    return key[1:].decode()


_JOB_OF: Final = {
    keyspace.READY: _of_ready,
    keyspace.TIMER: _of_timed,
    keyspace.TIERED: _of_timed,
    keyspace.DROP: _of_timed,
    keyspace.LEASED: _of_leased,
}
