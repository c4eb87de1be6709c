"""The places at which production code is told to use a scheduler in memory, all of them, and all undone at the end."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from scheduler.client import request as requests
from scheduler.client.submitter import KafkaSubmitter
from scheduler.testing.memory_scheduler import MemoryScheduler
from scheduler.testing.submitting import MemorySubmitter
from scheduler.worker import liverun
from scheduler.worker.app import submitting_to
from scheduler.worker.executors import handlers
from scheduler.worker.jobs import Job
from scheduler.worker.performing import outcome_of_error


@contextmanager
def connected(scheduler: MemoryScheduler, submitter: MemorySubmitter) -> Iterator[None]:
    """Let everything inside the block be submitted to `scheduler` and run in its time."""
    clock = scheduler.clock

    def from_now(after_ms: int) -> int:
        return clock.wall_ms() + after_ms if after_ms else 0

    with ExitStack() as stack:
        stack.enter_context(submitting_to(submitter))
        # A `Client` goes past the apps; one made long before the test must not reach for Kafka either.
        for name in ("submit", "asubmit", "submit_many"):
            stack.enter_context(_replaced(KafkaSubmitter, name, _without_self(getattr(submitter, name))))
        stack.enter_context(_replaced(Job, "request", _learning(Job.request, scheduler)))
        stack.enter_context(_replaced(requests, "_from_now", from_now))
        stack.enter_context(_replaced(liverun, "mono_ms", clock.mono_ms))
        watching = scheduler.escapes.watching(outcome_of_error)
        stack.enter_context(_replaced(handlers, "outcome_of_error", watching))
        yield


def _learning(request: Callable[..., Any], scheduler: MemoryScheduler) -> Callable[..., Any]:
    def learn(job: Job[..., Any], *args: Any, **kwargs: Any) -> Any:
        scheduler.apps.learn(job)
        return request(job, *args, **kwargs)

    return learn


def _without_self(method: Callable[..., Any]) -> Callable[..., Any]:
    return lambda _, *args: method(*args)


@contextmanager
def _replaced(owner: object, name: str, substitute: object) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, substitute)
    try:
        yield
    finally:
        setattr(owner, name, before)
