"""The model: a first state, and for each state every step that may follow.

What it leaves out: tokens and their forgery, counters and their bounds, several jobs or slots, and the topics beside
`reports`. What it takes together, for fewer states:

- `retrying` is `ready`, which may wait as well;
- an offer has no way of its own: a worker's may be there whenever it lives, and be of any age;
- a notice is in its inbox with the commit, where it may lie unread for any time; `losses` and `delays` are apart;
- reports leave a worker in order, after any time; one that would be the same as one on its way is not sent twice;
- a turn that is bound to be refused is not shown, nor an echo on its way that nobody waits for;
- of two workers, which are alike, it does not matter which is which (`canonical.py`).

A full log or inbox makes its writer wait. So a search covers just those worlds in which no more than that lies unread.
"""

from collections.abc import Iterator

from tests.model.bounds import Bounds
from tests.model.clock import Clock
from tests.model.dispatcher import DispatcherSteps
from tests.model.log import Inboxes
from tests.model.rules import Rules
from tests.model.state import ABSENT, ACTIVE, ENDED, Dispatcher, Job, State, Step, Worker
from tests.model.worker import Move, WorkerSteps


class Model:
    """The protocol under some rules, in a world of some size."""

    def __init__(self, rules: Rules, bounds: Bounds) -> None:
        self.rules = rules
        self.bounds = bounds
        names = tuple(range(bounds.workers)) + ((0,) if bounds.can.replacements else ())
        self._names = names
        self._workers = WorkerSteps(rules, bounds)
        self._clock = Clock(bounds, self._workers)
        self._inboxes = Inboxes(names, bounds.inbox)
        self._dispatchers = DispatcherSteps(rules, bounds, self._inboxes, self._workers.window)

    def first(self) -> State:
        """Return the state in which the job is ready and all are idle."""
        workers = tuple(
            Worker() if n < self.bounds.workers else Worker(life=ABSENT) for n in range(len(self._names))
        )
        offers = () if self.rules.offers_repeated else tuple(range(self.bounds.workers))
        owner = Dispatcher(stage=ACTIVE, offers=offers)
        return State(
            job=Job(),
            position=0,
            owner=0,
            log=(),
            workers=workers,
            dispatchers=(owner, Dispatcher()),
            held_up=(),
            started=0,
            cancel_asked=False,
            since_slip=0,
            can=self.bounds.can,
        )

    def name_of(self, worker: int) -> str:
        """Return what a worker process is called in traces."""
        return f"worker {worker + 1}" if worker < self.bounds.workers else "its replacement"

    def steps(self, state: State) -> Iterator[Step]:
        """Go through every step that may follow."""
        yield from self._clock.steps(state)
        for number, worker in enumerate(state.workers):
            for move in self._workers.moves(number, worker):
                if self._is_possible(state, move):
                    yield moved(state, number, move)
        for number in (0, 1):
            yield from self._dispatchers.steps(state, number)
        yield from self._inboxes.mishaps(state)
        if state.can.takeovers:
            yield from self._dispatchers.take_over(state)
        if state.can.cancels and not state.cancel_asked and state.job.phase not in ENDED:
            yield Step("the client asks for a cancel", state._replace(cancel_asked=True), fault="cancels")

    def _is_possible(self, state: State, move: Move) -> bool:
        if move.report and len(state.log) >= self.bounds.log:
            return False
        return not move.fault or getattr(state.can, move.fault) > 0


def moved(state: State, number: int, move: Move) -> Step:
    """Return the step that a worker's move is."""
    workers = list(state.workers)
    workers[number] = move.worker
    after = state._replace(
        workers=tuple(workers),
        log=(*state.log, move.report) if move.report else state.log,
        started=max(state.started, move.worker.run),
    )
    return Step(move.text, after, number, move.fault, move.run_ends)
