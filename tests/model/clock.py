"""Time: a tick makes everything older. All clocks run at one rate, or those of workers lose a tick now and then."""

from collections.abc import Iterator
from functools import cache

from tests.model.bounds import Bounds
from tests.model.state import LEASED, Dispatcher, Job, State, Step
from tests.model.worker import WorkerSteps, ends_at_deadline

TICK = "a tick passes"


class Clock:
    """The passing of time."""

    def __init__(self, bounds: Bounds, workers: WorkerSteps) -> None:
        self._drift = bounds.drift
        self._workers = workers
        self._older_job = cache(self._job)
        self._older_dispatcher = cache(self._dispatcher)

    def steps(self, state: State) -> Iterator[Step]:
        """Let one tick pass."""
        after = self._tick(state)
        ends = ends_at_deadline(state.workers, after.workers)
        if self._drift and state.since_slip < self._drift:
            after = after._replace(since_slip=state.since_slip + 1)
        elif self._drift:
            yield Step("a tick passes that no worker's clock counts", self._slip(state))
        yield Step(TICK, after, run_ends=ends)

    def _tick(self, state: State) -> State:
        first, second = state.dispatchers
        return state._replace(
            job=self._older_job(state.job),
            workers=tuple([self._workers.older(worker) for worker in state.workers]),
            dispatchers=(self._older_dispatcher(first), self._older_dispatcher(second)),
            held_up=tuple(map(self._workers.older_notice, state.held_up)),
        )

    @staticmethod
    def _slip(state: State) -> State:
        first, second = state.dispatchers
        return state._replace(since_slip=0, dispatchers=(older_renewal(first), older_renewal(second)))

    def _dispatcher(self, one: Dispatcher) -> Dispatcher:
        older = self._workers.older_notice
        turn = one.turn and one.turn._replace(notices=tuple(map(older, one.turn.notices)))
        return older_renewal(one._replace(job=self._job(one.job), turn=turn))

    def _job(self, job: Job) -> Job:
        if job.phase != LEASED:
            return job
        return job._replace(offer_age=self._workers.older_offer(job.offer_age))


def older_renewal(one: Dispatcher) -> Dispatcher:
    """Return a dispatcher whose renewals are a tick older; one that is older than its period is due, and no more."""
    renewal = one.renewal
    if not renewal or renewal.age >= renewal.period:
        return one
    return one._replace(renewal=renewal._replace(age=renewal.age + 1))
