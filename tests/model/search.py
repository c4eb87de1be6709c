"""Breadth first through all states that can be reached, until something is violated or nothing new is found."""

import gc
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tests.model.canonical import Canonical
from tests.model.liveness import Graph, find_stuck
from tests.model.model import Model
from tests.model.properties import violated
from tests.model.state import State, Step

Path = tuple[State, ...]


class Result(NamedTuple):
    """What a search found: the property violated (empty: none), and a shortest way there."""

    violated: str
    states: int
    path: Path = ()

    @property
    def steps(self) -> int:
        """How long the way is."""
        return max(0, len(self.path) - 1)


class Exploration:
    """The states found so far, numbered by their distance from the first, and how each was reached first."""

    def __init__(self, model: Model, graph: Graph | None = None) -> None:
        """Begin with the first state; `graph` is told every step, as the look for liveness needs it."""
        self._model = model
        self._graph = graph
        self._canonical = Canonical(model.rules, model.bounds)
        self.states: list[State] = []
        self._numbers: dict[State, int] = {}
        self._came_from = array("I")
        self._number(model.first(), 0)

    def steps(self) -> Iterator[tuple[int, State, Step]]:
        """Go through every step of every state: the state's number, the state, the step."""
        for number, state in enumerate(self.states):
            for step in self._model.steps(state):
                yield number, state, step
                target = self._number(self._canonical.of(step)[0], number)
                if self._graph:
                    self._graph.add(step, target)
            if self._graph:
                self._graph.next_state()

    def _number(self, state: State, source: int) -> int:
        new = len(self.states)
        number = self._numbers.setdefault(state, new)
        if number == new:
            self.states.append(state)
            self._came_from.append(source)
        return number

    def path(self, number: int) -> Path:
        """Return a shortest way to a state, both ends included."""
        path = [self.states[number]]
        while number:
            number = self._came_from[number]
            path.append(self.states[number])
        return tuple(reversed(path))


def search(model: Model, *, liveness: bool = True) -> Result:
    """Search a model. What is wrong with a step comes first, since liveness needs the graph of all states."""
    graph = Graph() if liveness else None
    explored = Exploration(model, graph)
    with without_collector():
        for number, before, step in explored.steps():
            found = violated(before, step.state)
            if found:
                return Result(found, len(explored.states), (*explored.path(number), step.state))
        stuck = graph and find_stuck(graph, explored.states, model.bounds.epochs)
    if stuck:
        return Result(stuck.property, len(explored.states), explored.path(stuck.state))
    return Result("", len(explored.states))


@contextmanager
def without_collector() -> Iterator[None]:
    """Keep the collector off: millions of tuples hold no cycle, and it would look through them again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
