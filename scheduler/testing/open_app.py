"""An application with its lifespans open, as in a worker's child."""

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from scheduler.testing.memory_run import MemoryRun
from scheduler.testing.private_loop import PrivateLoop, outside_running_loop
from scheduler.worker.actions import Outcome
from scheduler.worker.app import App
from scheduler.worker.definition import Kind
from scheduler.worker.executors.handlers import Handlers
from scheduler.worker.lifespan import Lifespan, Resources, open_async, open_sync


class OpenApp:
    """Calls the handlers of one application; its lifespans are opened by the first run of each kind."""

    def __init__(self, app: App, loop: PrivateLoop, stack: ExitStack) -> None:
        """Take the loop for async handlers; `stack` closes what is opened."""
        self._handlers = Handlers(app)
        self._loop = loop
        self._stack = stack
        self._for_sync: Resources | None = None
        self._for_async: Resources | None = None

    def perform(self, run: MemoryRun) -> Outcome:
        """Run a handler to its end. Raises `RunKilled` if it asked for something once the run was over."""
        if self._handlers.definition(run).kind is Kind.ASYNC:
            return self._loop.run(self._handlers.aperform(run, self._async_resources()))
        resources = self._sync_resources()
        with outside_running_loop():
            return self._handlers.perform(run, resources)

    def _sync_resources(self) -> Resources:
        if self._for_sync is None:
            with outside_running_loop():
                self._for_sync = self._stack.enter_context(open_sync(self._handlers.lifespans))
        return self._for_sync

    def _async_resources(self) -> Resources:
        if self._for_async is None:
            held = _Held(self._handlers.lifespans)
            self._for_async = self._loop.run(held.open())
            self._stack.callback(lambda: self._loop.run(held.close()))
        return self._for_async


class _Held:
    """Lifespans held open by one task of the loop: what is entered in a task must be left in it."""

    def __init__(self, lifespans: Sequence[Lifespan]) -> None:
        self._lifespans = lifespans
        self._over = asyncio.Event()

    async def open(self) -> Resources:
        opened: asyncio.Future[Resources] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._hold(opened))
        either: list[asyncio.Future[Any]] = [opened, self._task]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if self._task.done():
            await self._task
        return opened.result()

    async def close(self) -> None:
        self._over.set()
        await self._task

    async def _hold(self, opened: asyncio.Future[Resources]) -> None:
        async with open_async(self._lifespans) as resources:
            opened.set_result(resources)
            await self._over.wait()
