"""An event loop of our own, which also turns while another one runs."""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")


class PrivateLoop:
    """Runs coroutines one after another on one loop, made when first needed; tasks they leave go on meanwhile."""

    def __init__(self) -> None:
        """Begin without a loop."""
        # With a factory the runner leaves the thread's current event loop alone.
        self._runner: asyncio.Runner | None = None

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end; tests that are coroutines themselves may call this too."""
        if self._runner is None:
            self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        with outside_running_loop():
            # Not `Runner.run`: its way of handling Ctrl-C would look like a failed attempt of the handler.
            return self._runner.get_loop().run_until_complete(coroutine)

    def close(self) -> None:
        """Cancel what is left and close the loop."""
        runner, self._runner = self._runner, None
        if runner is not None:
            with outside_running_loop():
                runner.close()


@contextmanager
def outside_running_loop() -> Iterator[None]:
    """Let the code inside see no running event loop, as in a worker's child, even if a test is a coroutine.

    These functions of asyncio are for those who write loops and tasks of their own (Python documentation,
    "Extending asyncio"). The outer loop stands still in the middle of its task meanwhile, as in any call.
    """
    loop = asyncio._get_running_loop()  # noqa: SLF001
    if loop is None:
        yield
        return
    task = asyncio.current_task(loop)
    if task is not None:
        asyncio.tasks._leave_task(loop, task)  # noqa: SLF001
    asyncio._set_running_loop(None)  # noqa: SLF001
    try:
        yield
    finally:
        asyncio._set_running_loop(loop)  # noqa: SLF001
        if task is not None:
            asyncio.tasks._enter_task(loop, task)  # noqa: SLF001
