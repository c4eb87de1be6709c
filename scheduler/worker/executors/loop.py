"""Many jobs at a time on one event loop: the child of the executor `asyncio`.

A task whose time is up, or whose grace is over, is cancelled from inside a moment before the whole child
would be killed for it: its neighbours live on if it obeys.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from scheduler.worker.definition import Kind
from scheduler.worker.executors.handlers import Handlers
from scheduler.worker.executors.runs import LiveRuns
from scheduler.worker.lifespan import Resources, open_async
from scheduler.worker.liverun import LiveRun
from scheduler.worker.upstream import Upstream


def run_on_loop(handlers: Handlers, upstream: Upstream, ready: Callable[[], None], slots: int) -> None:
    """Open the lifespans, say `ready`, then run what the parent sends until it says exit."""
    asyncio.run(_Loop(handlers, upstream, slots).run(ready))


class _Loop:
    def __init__(self, handlers: Handlers, upstream: Upstream, slots: int) -> None:
        self._handlers = handlers
        self._upstream = upstream
        self._threads = ThreadPoolExecutor(slots, "jobs")
        self._over = asyncio.Event()
        self._resources = Resources()
        self._tasks: dict[LiveRun, asyncio.Task[None]] = {}
        self._cuts: dict[LiveRun, asyncio.TimerHandle] = {}

    async def run(self, ready: Callable[[], None]) -> None:
        loop = self._loop = asyncio.get_running_loop()
        self._runs = LiveRuns(
            self._upstream,
            lambda live: _ignore(loop.call_soon_threadsafe(self._begin, live)),
            lambda: _ignore(loop.call_soon_threadsafe(self._over.set)),
        )
        self._runs.changed = lambda live: _ignore(loop.call_soon_threadsafe(self._plan_cut, live))
        async with open_async(self._handlers.lifespans) as self._resources:
            self._upstream.hand_to(self._runs.hear, self._runs.pulse)
            ready()
            await self._over.wait()
        self._threads.shutdown(wait=False)

    def _begin(self, live: LiveRun) -> None:
        self._tasks[live] = self._loop.create_task(self._perform(live))
        self._plan_cut(live)

    async def _perform(self, live: LiveRun) -> None:
        try:
            if self._handlers.definition(live).kind is Kind.ASYNC:
                outcome = await self._handlers.aperform(live, self._resources)
            else:
                outcome = await self._loop.run_in_executor(
                    self._threads, self._handlers.perform, live, self._resources
                )
            self._runs.finish(live, outcome)
        finally:
            del self._tasks[live]
            self._cuts.pop(live).cancel()

    def _plan_cut(self, live: LiveRun) -> None:
        """Look again when the run should be over; its end may have moved by then."""
        if live not in self._tasks:
            return
        planned = self._cuts.get(live)
        if planned is not None:
            planned.cancel()
        wait_ms = live.cut_in_ms()
        if wait_ms <= 0 and live.stopping():
            self._tasks[live].cancel(live.stopping())
            wait_ms = 1_000
        self._cuts[live] = self._loop.call_later(max(wait_ms, 1) / 1_000, self._plan_cut, live)


def _ignore(_: object) -> None:
    """Return nothing, as callbacks should."""
