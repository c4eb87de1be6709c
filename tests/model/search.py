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
from tests.model.state import State


class Result(NamedTuple):
    """What a search found: the property violated (empty: none), and a shortest way there."""

    violated: str
    states: int
    path: tuple[State, ...] = ()
    exhausted: bool = True

    @property
    def steps(self) -> int:
        """How long the way is."""
        return max(0, len(self.path) - 1)


def search(model: Model, *, liveness: bool = True, limit: int = 10_000_000) -> Result:
    """Search a model up to `limit` states. Safety comes first, since liveness needs the graph of all states."""
    with without_collector():
        return _Search(model, Graph() if liveness else None, limit).result()


class _Search:
    def __init__(self, model: Model, graph: Graph | None, limit: int) -> None:
        self._model = model
        self._graph = graph
        self._limit = limit
        self._canonical = Canonical(model.rules, model.bounds)
        self._states: list[State] = []
        self._numbers: dict[State, int] = {}
        self._came_from = array("I")

    def result(self) -> Result:
        self._number(self._model.first(), 0)
        for number, state in enumerate(self._states):
            if len(self._states) > self._limit:
                return Result("", len(self._states), exhausted=False)
            for step in self._model.steps(state):
                after, _ = self._canonical.of(step)
                found = violated(state, step.state)
                if found:
                    return Result(found, len(self._states), (*self._path(number), step.state))
                target = self._number(after, number)
                if self._graph:
                    self._graph.add(step, target)
            if self._graph:
                self._graph.next_state()
        return self._liveness(self._graph) if self._graph else Result("", len(self._states))

    def _liveness(self, graph: Graph) -> Result:
        stuck = find_stuck(graph, self._states, self._model.bounds.epochs)
        if stuck is None:
            return Result("", len(self._states))
        return Result(stuck.property, len(self._states), tuple(self._path(stuck.state)))

    def _number(self, state: State, source: int) -> int:
        new = len(self._states)
        number = self._numbers.setdefault(state, new)
        if number == new:
            self._states.append(state)
            self._came_from.append(source)
        return number

    def _path(self, number: int) -> list[State]:
        path = [self._states[number]]
        while number:
            number = self._came_from[number]
            path.append(self._states[number])
        return path[::-1]


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
