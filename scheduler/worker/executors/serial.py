"""One job at a time, on the main thread: the child of the executor `process`."""

from collections.abc import Callable
from contextlib import ExitStack
from queue import SimpleQueue

from scheduler.worker.actions import Outcome
from scheduler.worker.definition import Kind
from scheduler.worker.executors.handlers import Handlers
from scheduler.worker.executors.loophost import LoopHost
from scheduler.worker.executors.runs import LiveRuns
from scheduler.worker.lifespan import NO_RESOURCES, Resources, open_sync
from scheduler.worker.liverun import LiveRun
from scheduler.worker.upstream import Upstream


def run_serially(handlers: Handlers, upstream: Upstream, ready: Callable[[], None]) -> None:
    """Open the lifespans, say `ready`, then run what the parent sends until it says exit."""
    work: SimpleQueue[LiveRun | None] = SimpleQueue()
    runs = LiveRuns(upstream, work.put, lambda: work.put(None))
    with ExitStack() as stack:
        opened = Opened(handlers, stack)
        upstream.hand_to(runs.hear, runs.pulse)
        ready()
        while (live := work.get()) is not None:
            runs.finish(live, opened.perform(live))


class Opened:
    """Handlers with their lifespans open: the sync ones for this process, all of them for its event loop."""

    def __init__(self, handlers: Handlers, stack: ExitStack) -> None:
        """Open what the handlers need; `stack` closes it."""
        self._handlers = handlers
        self._resources: Resources = NO_RESOURCES
        self._host: LoopHost | None = None
        if handlers.has(Kind.SYNC):
            self._resources = stack.enter_context(open_sync(handlers.lifespans))
        if handlers.has(Kind.ASYNC):
            self._host = LoopHost(handlers)
            self._host.open()
            stack.callback(self._host.close)

    def perform(self, live: LiveRun) -> Outcome:
        """Run a handler to its end on the calling thread, or on the loop while this thread waits."""
        if self._handlers.definition(live).kind is Kind.ASYNC:
            assert self._host is not None
            return self._host.perform(live)
        return self._handlers.perform(live, self._resources)
