"""The leases held here, and what time asks of them."""

from collections.abc import Iterator
from enum import StrEnum

import msgspec

from scheduler.core import bounds
from scheduler.core.notices import Lease
from scheduler.core.reports import Held
from scheduler.core.spec import JobSpec
from scheduler.worker.actions import StopReason
from scheduler.worker.offers import NEVER


class Killed(StrEnum):
    """Why a run is being killed; what will be reported once it is dead."""

    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    LOST = "lost"  # its deadline has passed
    STOPPED = "stopped"  # revoked
    SHUTDOWN = "shutdown"
    SUPERSEDED = "superseded"  # a higher epoch of the job came: nobody waits for a word on this one


class Run(msgspec.Struct, eq=False):
    """A lease that was accepted, until its end is reported. Times are monotonic milliseconds."""

    number: int
    lease: Lease
    spec: JobSpec
    kind: int  # of its slot
    accepted_ms: int
    deadline_ms: int  # it may run until then
    beat_ms: int  # when its next beat is due
    began_ms: int = -1  # when a child got it
    limit_ms: int = NEVER  # when its time is up
    stop: StopReason | None = None  # it was asked to leave
    kill_ms: int = NEVER  # when the grace of that is over
    shield_ms: int = 0  # until when a stop may not kill it
    killed: Killed | None = None
    detail: str = ""
    beaten: bool = False  # its first beat has gone out
    fraction: float = -1.0
    note: str = ""

    def held(self) -> Held:
        """Return its entry in a beat."""
        lease = self.lease
        return Held(lease.job_id, lease.epoch, lease.token, self.fraction, self.note)

    def wake_ms(self) -> int:
        """Return when the session has to look at it next."""
        if self.killed is not None:
            return self.beat_ms
        return min(self.beat_ms, self.deadline_ms, self.limit_ms, max(self.kill_ms, self.shield_ms))

    def beats_with(self, now_ms: int) -> bool:
        """Say whether it belongs into a beat of its shard that goes out now."""
        return now_ms < self.deadline_ms and (self.beat_ms <= now_ms or self.beaten)

    def run_ms(self, now_ms: int) -> int:
        """Return how long it has been busy."""
        return max(0, now_ms - self.began_ms) if self.began_ms >= 0 else 0


class RunTable:
    """All runs of one worker process, by number and by job: one job runs here once at most."""

    def __init__(self) -> None:
        """Begin with none."""
        self._runs: dict[int, Run] = {}
        self._by_job: dict[str, Run] = {}
        self.killing: set[int] = set()  # to be killed, and not known to be dead

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._runs)

    def __iter__(self) -> Iterator[Run]:
        """Go through them, oldest first; the table may change meanwhile."""
        return iter(list(self._runs.values()))

    def get(self, number: int) -> Run | None:
        """Return a run by its number."""
        return self._runs.get(number)

    def of_job(self, job_id: str) -> Run | None:
        """Return the run of a job."""
        return self._by_job.get(job_id)

    def add(self, run: Run) -> None:
        """Enter a run; its job must not run here yet."""
        assert run.lease.job_id not in self._by_job
        self._runs[run.number] = self._by_job[run.lease.job_id] = run

    def remove(self, run: Run) -> None:
        """Take a run out."""
        del self._runs[run.number]
        del self._by_job[run.lease.job_id]

    def were_killed(self, numbers: tuple[int, ...]) -> bool:
        """Say whether what ran these was killed for one of them, which may have ended since. They are dead now."""
        killed = not self.killing.isdisjoint(numbers)
        self.killing.difference_update(numbers)
        return killed

    def wake_ms(self) -> int:
        """Return when time asks for something next."""
        return min((run.wake_ms() for run in self._runs.values()), default=NEVER)

    def has_suspect(self) -> bool:
        """Say whether a suspect runs here."""
        return any(run.lease.suspect for run in self._runs.values())

    def overdue(self, now_ms: int) -> list[tuple[Run, Killed]]:
        """Return the runs that may not go on, and why; a run past its deadline stops beating too."""
        found: list[tuple[Run, Killed]] = []
        for run in self._runs.values():
            if now_ms >= run.deadline_ms:
                run.beat_ms = NEVER
                found.append((run, Killed.LOST))
            elif now_ms >= run.limit_ms:
                found.append((run, Killed.TIMEOUT))
            elif now_ms >= max(run.kill_ms, run.shield_ms):
                found.append((run, Killed.SHUTDOWN if run.stop is StopReason.DRAINING else Killed.STOPPED))
        return found

    def beats_due(self, now_ms: int) -> list[tuple[int, list[Run]]]:
        """Return by shard the runs to renew, and count them as renewed: all of a shard where one is due.

        Those that never beat yet wait for their own first time, so that short jobs cost no beat.
        """
        due = sorted({run.lease.shard for run in self._runs.values() if run.beat_ms <= now_ms})
        found: list[tuple[int, list[Run]]] = []
        for shard in due:
            runs = [run for run in self._runs.values() if run.lease.shard == shard and run.beats_with(now_ms)]
            for run in runs:
                run.beaten = True
                run.beat_ms = now_ms + run.lease.lease_ms // 4
            size = bounds.BEAT_LEASES_MAX
            found += [(shard, runs[first : first + size]) for first in range(0, len(runs), size)]
        return found
