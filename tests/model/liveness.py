"""Every job can end, and whoever wants a run to end gets it: looked up backwards in the graph of all states.

Faults don't count as a way out. Nor do, for the second property, runs that end by themselves or are not renewed in
time: a cancel must end a run that goes on for ever and never misses a beat.
"""

from array import array
from itertools import accumulate
from typing import NamedTuple

from tests.model.state import ENDED, READY, State, Step

JOB_STUCK = "the job can't end any more"
RUN_GOES_ON = "nothing ends a run that is to be ended"

ANY_TIME, RUN_ENDS, FAULT = 0, 1, 2


class Stuck(NamedTuple):
    """A state in which a property is lost."""

    property: str
    state: int


class Graph:
    """Which state leads to which. States are numbers, in the order in which they were found."""

    def __init__(self) -> None:
        self._targets = array("I")
        self._kinds = bytearray()
        self._ends = array("I")

    def add(self, step: Step, target: int) -> None:
        """Add a step from the state that is being looked at."""
        self._targets.append(target)
        is_fault = step.fault not in {"", "replacements"}  # to start a worker is what operators do
        self._kinds.append(FAULT if is_fault else RUN_ENDS if step.run_ends else ANY_TIME)

    def next_state(self) -> None:
        """Say that all steps of a state have been added."""
        self._ends.append(len(self._targets))

    def leading_to(self, goals: bytearray, kinds: int) -> bytearray:
        """Mark the states from which some goal can be reached by steps of at most these kinds."""
        starts, sources = self._backwards(kinds)
        marked = bytearray(goals)
        todo = [state for state, is_goal in enumerate(goals) if is_goal]
        while todo:
            state = todo.pop()
            for source in sources[starts[state] : starts[state + 1]]:
                if not marked[source]:
                    marked[source] = True
                    todo.append(source)
        return marked

    def _backwards(self, kinds: int) -> tuple[array, array]:
        """Return all steps by their targets: where those of a state begin, and their sources."""
        counts = array("I", bytes(4 * (len(self._ends) + 1)))
        for target, kind in zip(self._targets, self._kinds, strict=True):
            counts[target] += kind <= kinds
        ends = array("I", accumulate(counts))
        sources = array("I", bytes(4 * ends[-1]))
        first = 0
        for source, end in enumerate(self._ends):
            for edge in range(first, end):
                if self._kinds[edge] <= kinds:
                    target = self._targets[edge]
                    ends[target] -= 1
                    sources[ends[target]] = source
            first = end
        return ends, sources


def find_stuck(graph: Graph, states: list[State], epochs: int) -> Stuck | None:
    """Return the first state in which a property is lost; `epochs` is the last one that may be granted."""
    return _job_stuck(graph, states, epochs) or _run_goes_on(graph, states, epochs)


def _job_stuck(graph: Graph, states: list[State], epochs: int) -> Stuck | None:
    # With the last epoch gone the job waits for a grant beyond the bounds, which is no fault of the protocol. But a
    # job that has an epoch to go must be able to end within them.
    ended = bytearray(state.job.phase in ENDED for state in states)
    can_end = graph.leading_to(ended, RUN_ENDS)
    over = bytearray(is_over(state, epochs) for state in states)
    can_be_over = graph.leading_to(over, RUN_ENDS)
    for number, state in enumerate(states):
        at_last = state.dispatchers[state.owner].job.epoch >= epochs
        if not (can_be_over[number] if at_last else can_end[number]):
            return Stuck(JOB_STUCK, number)
    return None


def _run_goes_on(graph: Graph, states: list[State], epochs: int) -> Stuck | None:
    content = bytearray(is_over(state, epochs) or not is_wanted_to_end(state) for state in states)
    number = graph.leading_to(content, ANY_TIME).find(0)
    return Stuck(RUN_GOES_ON, number) if number >= 0 else None


def is_over(state: State, epochs: int) -> bool:
    """Say whether the job has ended, or waits for a grant that is beyond the bounds."""
    return state.job.phase in ENDED or (state.job.phase == READY and state.job.epoch >= epochs)


def is_wanted_to_end(state: State) -> bool:
    """Say whether the client or the dispatcher wants the run to end."""
    return state.cancel_asked or bool(state.job.ending)
