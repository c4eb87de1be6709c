"""What the dispatcher has committed about jobs, read from its changelog."""

from heapq import heappop, heappush

from scheduler.codec.job import decode_job
from scheduler.codec.state import decode_state
from scheduler.core import keyspace
from scheduler.core.job import JobState, Phase
from scheduler.core.spec import JobSpec
from scheduler.testing.memory_broker import MemoryBroker

_WAITING = frozenset({Phase.SCHEDULED, Phase.RETRYING, Phase.READY})


class Ledger:
    """The newest full state of each job, also of those that the dispatcher has dropped since, and their records.

    `read` brings it up to date; it goes on where the last call ended.
    """

    def __init__(self, broker: MemoryBroker) -> None:
        """Read the changelogs of `broker`."""
        self._broker = broker
        self._next = [0] * broker.partitions
        self._due: list[tuple[int, str]] = []
        self.states: dict[str, JobState] = {}
        self.specs: dict[str, tuple[JobSpec, int]] = {}
        """By job id, in the order of admission: the record, and when it was admitted (Unix milliseconds)."""

    def read(self) -> None:
        """Take in what was committed since the last call."""
        for partition in range(self._broker.partitions):
            log = self._broker.log("changelog", partition)
            for stored in log[self._next[partition] :]:
                if stored.key and stored.value:
                    self._take(stored.key[:1], stored.key[1:].decode(), stored.value, stored.at_ms)
            self._next[partition] = len(log)

    def next_due_ms(self, after_ms: int) -> int | None:
        """Return when a job becomes due next, or expires, after `after_ms` (Unix milliseconds)."""
        self.read()
        while self._due:
            at_ms, job_id = self._due[0]
            if at_ms > after_ms and at_ms in _looks_at(self.states[job_id]):
                return at_ms
            heappop(self._due)
        return None

    def _take(self, namespace: bytes, job_id: str, value: bytes, at_ms: int) -> None:
        if namespace == keyspace.SPEC:
            self.specs.setdefault(job_id, (decode_job(value), at_ms))
        elif namespace == keyspace.STATE:
            state = decode_state(value)
            if state.end is None or not state.end.stub:
                self.states[job_id] = state
                for due_ms in _looks_at(state):
                    heappush(self._due, (due_ms, job_id))


def _looks_at(state: JobState) -> tuple[int, ...]:
    """Return when time changes something about a job by itself."""
    if state.phase not in _WAITING:
        return ()
    due_ms = 0 if state.phase is Phase.READY else state.due_ms
    return tuple(at_ms for at_ms in (due_ms, state.admitted.expires_at_ms) if at_ms)
