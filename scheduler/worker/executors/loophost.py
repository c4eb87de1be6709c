"""An event loop in a thread of its own, for async handlers in a child that runs sync ones too."""

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import Future

from scheduler.worker.actions import Outcome
from scheduler.worker.executors.handlers import Handlers
from scheduler.worker.lifespan import Lifespan, Resources, open_async
from scheduler.worker.liverun import LiveRun


class LoopHost:
    """Runs a loop for as long as the child lives; the lifespans are opened and closed in one task of it."""

    def __init__(self, handlers: Handlers) -> None:
        """Take the handlers whose async ones run here."""
        self._handlers = handlers
        self._opened: Future[Resources] = Future()
        self._loop = asyncio.new_event_loop()
        self._over = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="jobs-loop", daemon=True)

    def open(self) -> None:
        """Start the loop and open the lifespans. Raises what a lifespan raises."""
        self._thread.start()
        self._opened.result()

    def perform(self, live: LiveRun) -> Outcome:
        """Run an async handler to its end; the calling thread waits."""
        resources = self._opened.result()
        return asyncio.run_coroutine_threadsafe(self._handlers.aperform(live, resources), self._loop).result()

    def close(self) -> None:
        """Close the lifespans and end the loop."""
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._hold(self._handlers.lifespans))

    async def _hold(self, lifespans: Sequence[Lifespan]) -> None:
        try:
            async with open_async(lifespans) as resources:
                self._opened.set_result(resources)
                await self._over.wait()
        except BaseException as error:
            if self._opened.done():
                raise
            self._opened.set_exception(error)
