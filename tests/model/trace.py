"""A way through the states in words, one line a step."""

from collections.abc import Iterator
from itertools import pairwise

from tests.model.canonical import Canonical
from tests.model.model import Model
from tests.model.search import Result
from tests.model.state import NO_ACK, Dispatcher, Job, State, Step, Worker
from tests.model.turns import NAMES


def told(model: Model, result: Result) -> list[str]:
    """Return the steps of a violation, each with the tick in which it happens, and the state that they end in."""
    canonical = Canonical(model.rules, model.bounds)
    names = [model.name_of(number) for number in range(len(model.first().workers))]
    lines = []
    tick = 0
    for before, after in pairwise(result.path):
        step = step_between(model, before, after)
        tick += step.text.startswith("a tick")
        lines.append(f"tick {tick}  {step.text.replace('%s', names[step.worker])}")
        if canonical.of(step)[1]:
            names.reverse()
    return [*lines, *(f"        {line}" for line in _end(result.path[-1], names))]


def step_between(model: Model, before: State, after: State) -> Step:
    """Return the step that leads from one state of a path to the next."""
    canonical = Canonical(model.rules, model.bounds)
    for step in model.steps(before):
        if after in (step.state, canonical.of(step)[0]):
            return step
    raise AssertionError("no step leads there")


def _end(state: State, names: list[str]) -> Iterator[str]:
    yield f"changelog: {_job(state.job)}"
    for name, dispatcher in zip(NAMES, state.dispatchers, strict=True):
        if dispatcher.stage:
            yield f"{name}: {dispatcher.stage}, {_dispatcher(dispatcher, state)}"
    for name, worker in zip(names, state.workers, strict=True):
        yield f"{name}: {_worker(worker)}"


def _job(job: Job) -> str:
    told = f"{job.phase}, epoch {job.epoch}"
    return f"{told}, ending for a {job.ending}" if job.ending else told


def _dispatcher(one: Dispatcher, state: State) -> str:
    told = "memory as the changelog" if one.job == state.job else f"in memory {_job(one.job)}"
    if one.renewal:
        told += f", epoch {one.renewal.epoch} renewed {one.renewal.age} of {one.renewal.period} ticks ago"
    return told


def _worker(worker: Worker) -> str:
    if not worker.run:
        return f"{worker.life}, idle"
    told = f"{worker.life}, runs epoch {worker.run}, {worker.left} short of its deadline"
    return told if worker.ack == NO_ACK else f"{told}, awaits an acknowledgement"
