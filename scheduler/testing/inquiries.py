"""What refs ask: `ref.state`, `ref.attempts`, `ref.result()`."""

from typing import Any

import msgspec

from scheduler.client.errors import JobsError
from scheduler.core.bounds import SECOND_MS
from scheduler.core.job import ENDED, JobState, Phase
from scheduler.testing.allowance import Allowance
from scheduler.testing.errors import NoCancelYet, NoResult
from scheduler.testing.memory_scheduler import MemoryScheduler
from scheduler.testing.seen import error_text


class MemoryInquiries:
    """Answers from what the dispatcher has committed (`client.reference.Inquiries`)."""

    def __init__(self, scheduler: MemoryScheduler, accepted: set[str]) -> None:
        """`accepted` are the ids of jobs that were submitted."""
        self._scheduler = scheduler
        self._accepted = accepted

    def state(self, job_id: str) -> str:
        """Return the state; `accepted` until a dispatcher has read the job, in the next `run` or `advance`."""
        state = self._known(job_id)
        return "accepted" if state is None else str(state.phase)

    def attempts(self, job_id: str) -> int:
        """Return how many attempts are used: those that failed, and the one that succeeded."""
        state = self._known(job_id)
        if state is None:
            return 0
        return state.history.attempt + (state.phase is Phase.SUCCEEDED)

    def result(self, job_id: str, timeout_s: float | None) -> Any:
        """Wait for the end in virtual time, which runs what becomes due, and return the result.

        Raises `NoResult` if it ended otherwise or nothing is left to wait for, `TimeoutError` after `timeout_s`.
        """
        state = self._waited_for(job_id, timeout_s)
        end = state.end if state is not None else None
        if state is None or end is None:
            raise NoResult(f"job {job_id} is {self.state(job_id)}, and nothing is left that could end it")
        if state.phase is not Phase.SUCCEEDED:
            why = ": ".join(filter(None, (f"{state.phase} ({end.reason})", error_text(end.error))))
            raise NoResult(f"{state.admitted.type} {job_id} has no result: it {why}")
        if end.result_omitted:
            raise NoResult(f"the result of {state.admitted.type} {job_id} was not kept: {end.result_omitted}")
        return msgspec.json.decode(end.result) if end.result else None

    def cancel(self, job_id: str) -> None:
        """Raise `NoCancelYet`."""
        raise NoCancelYet

    def _waited_for(self, job_id: str, timeout_s: float | None) -> JobState | None:
        scheduler, allowance = self._scheduler, Allowance()
        if self._has_ended(job_id):
            return self._known(job_id)
        if scheduler.current is not None:
            raise NoResult(
                f"job {job_id} can't end while a handler waits for it: here jobs run one after another"
            )
        until_ms = None if timeout_s is None else scheduler.clock.wall_ms() + int(timeout_s * SECOND_MS)
        scheduler.settle(allowance)
        while not self._has_ended(job_id):
            due_ms = scheduler.next_due_ms()
            if until_ms is not None and (due_ms is None or due_ms > until_ms):
                scheduler.pass_until(until_ms, allowance)
                break
            if due_ms is None:
                return self._known(job_id)
            scheduler.pass_until(due_ms, allowance)
        if not self._has_ended(job_id):
            raise TimeoutError(f"job {job_id} is {self.state(job_id)} after {timeout_s} s of virtual time")
        return self._known(job_id)

    def _has_ended(self, job_id: str) -> bool:
        state = self._known(job_id)
        return state is not None and state.phase in ENDED

    def _known(self, job_id: str) -> JobState | None:
        """Return the committed state, None if the job is not read yet."""
        self._scheduler.ledger.read()
        state = self._scheduler.ledger.states.get(job_id)
        if state is None and job_id not in self._accepted:
            raise JobsError(f"no job {job_id!r} was submitted in this test")
        return state
