"""One state for all that differ in nothing that matters. What a search visits is states in this form only."""

from functools import cache

from tests.model.bounds import Bounds
from tests.model.log import renumbered, trimmed
from tests.model.rules import Rules
from tests.model.state import ECHO, Dispatcher, Job, Notice, Report, State, Step, Worker

OTHER = (1, 0)


class Canonical:
    """Brings states into their form."""

    def __init__(self, rules: Rules, bounds: Bounds) -> None:
        self._any_echo_counts = not (rules.own_echo_only and rules.echoes_never_numbered_alike)
        self._interchangeable = bounds.workers == 2 and not bounds.can.replacements
        self._job = cache(mirrored_job)
        self._worker = cache(mirrored_worker)
        self._dispatcher = cache(mirrored_dispatcher)

    def of(self, step: Step) -> tuple[State, bool]:
        """Return the state after a step, and whether its two workers have changed names for it."""
        state = step.state
        if step.fault:
            left = getattr(state.can, step.fault) - 1
            state = state._replace(can=state.can._replace(**{step.fault: left}))
        state = _settled(state)
        if state.log:
            state = trimmed(state)
        for number in (0, 1):
            if state.dispatchers[number].echoes and not self._any_echo_counts:
                state = without_old_echoes(state, number)
            if state.dispatchers[number].sequence:
                state = renumbered(state, number)
        if self._interchangeable and state.workers[0] > state.workers[1]:
            return self._mirrored(state), True
        return state, False

    def _mirrored(self, state: State) -> State:
        first, second = state.workers
        one, other = state.dispatchers
        return state._replace(
            job=self._job(state.job),
            log=tuple(mirrored_report(report) for report in state.log),
            workers=(self._worker(second), self._worker(first)),
            dispatchers=(self._dispatcher(one), self._dispatcher(other)),
            held_up=tuple(map(mirrored_notice, state.held_up)),
        )


def _settled(state: State) -> State:
    """Let positions count as committed once no fault is left after which they would be read."""
    owner = state.dispatchers[state.owner]
    if owner.position == state.position or owner.turn or state.can.takeovers or state.can.aborts:
        return state
    return state._replace(position=owner.position)


def without_old_echoes(state: State, number: int) -> State:
    """Drop echoes on their way that nobody waits for: to read them would change nothing."""
    me = state.dispatchers[number]
    return state.with_dispatcher(
        number, me._replace(echoes=(me.sequence,) if me.awaits and me.sequence in me.echoes else ())
    )


def mirrored_job(job: Job) -> Job:
    """Return a job whose lease names the other worker."""
    return job._replace(worker=OTHER[job.worker]) if job.worker >= 0 else job


def mirrored_notice(notice: Notice) -> Notice:
    """Return a notice for the other worker."""
    return notice._replace(worker=OTHER[notice.worker])


def mirrored_report(report: Report) -> Report:
    """Return a report by the other worker."""
    return report if report.kind == ECHO else report._replace(worker=OTHER[report.worker])


def mirrored_worker(worker: Worker) -> Worker:
    """Return a worker under the other's name."""
    return worker._replace(inbox=tuple(map(mirrored_notice, worker.inbox)))


def mirrored_dispatcher(one: Dispatcher) -> Dispatcher:
    """Return a dispatcher that confuses the two workers throughout."""
    turn = one.turn and one.turn._replace(notices=tuple(map(mirrored_notice, one.turn.notices)))
    return one._replace(
        job=mirrored_job(one.job),
        offers=tuple(sorted(OTHER[worker] for worker in one.offers)),
        turn=turn,
    )
