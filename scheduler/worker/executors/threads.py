"""Many jobs at a time, each in a thread: the child of the executor `thread`."""

import threading
from collections.abc import Callable
from contextlib import ExitStack
from queue import SimpleQueue

from scheduler.worker.executors.handlers import Handlers
from scheduler.worker.executors.runs import LiveRuns
from scheduler.worker.executors.serial import Opened
from scheduler.worker.liverun import LiveRun
from scheduler.worker.upstream import Upstream


def run_in_threads(handlers: Handlers, upstream: Upstream, ready: Callable[[], None], slots: int) -> None:
    """Open the lifespans, say `ready`, then run what the parent sends in `slots` threads until it says exit."""
    work: SimpleQueue[LiveRun | None] = SimpleQueue()
    over = threading.Event()
    runs = LiveRuns(upstream, work.put, over.set)
    with ExitStack() as stack:
        opened = Opened(handlers, stack)

        def serve() -> None:
            while (live := work.get()) is not None:
                runs.finish(live, opened.perform(live))

        threads = [threading.Thread(target=serve, name=f"jobs-{n}", daemon=True) for n in range(slots)]
        for thread in threads:
            thread.start()
        upstream.hand_to(runs.hear, runs.pulse)
        ready()
        over.wait()
        for _ in threads:
            work.put(None)
        for thread in threads:
            thread.join()
