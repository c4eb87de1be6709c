"""What handlers share in one child: opened by `@app.lifespan` functions, found by type with `ctx.get`.

A lifespan is a function without parameters that returns a context manager, sync or async. Each is opened once
per child process that runs sync handlers, or once per event loop that runs async ones; an async one exists
only where a loop does. They are opened in the order of their definition and closed in reverse.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
    contextmanager,
)
from typing import Any, Final, TypeVar

T = TypeVar("T")

Opened = AbstractContextManager[Any] | AbstractAsyncContextManager[Any]
Lifespan = Callable[[], Opened]


class Resources:
    """What the lifespans of one child yielded."""

    def __init__(self, values: Sequence[object] = (), left_out: Sequence[str] = ()) -> None:
        """Take the values, and the names of async lifespans that were not opened here."""
        self._values = tuple(values)
        self._left_out = tuple(left_out)

    def get(self, kind: type[T]) -> T:
        """Return the one value of exactly this type, else the one of a subtype; `LookupError` if not one."""
        exact = [value for value in self._values if type(value) is kind]
        found = exact or [value for value in self._values if isinstance(value, kind)]
        if len(found) == 1:
            return found[0]
        raise LookupError(self._explain(kind, len(found)))

    def _explain(self, kind: type, found: int) -> str:
        if found:
            return f"{found} lifespans yielded a {kind.__qualname__}: give each its own type"
        there = ", ".join(sorted(type(value).__qualname__ for value in self._values)) or "nothing"
        skipped = (
            f"; async lifespans are not open for sync jobs: {', '.join(self._left_out)}"
            if self._left_out
            else ""
        )
        return f"no lifespan yielded a {kind.__qualname__}; there is {there}{skipped}"


NO_RESOURCES: Final = Resources()


@contextmanager
def open_sync(lifespans: Sequence[Lifespan]) -> Iterator[Resources]:
    """Open the sync lifespans for a child that runs sync handlers; async ones are named in the error of `get`."""
    values: list[object] = []
    left_out: list[str] = []
    with ExitStack() as stack:
        for lifespan in lifespans:
            opened = lifespan()
            if isinstance(opened, AbstractContextManager):
                values.append(stack.enter_context(opened))
            else:
                left_out.append(getattr(lifespan, "__name__", repr(lifespan)))
        yield Resources(values, left_out)


@asynccontextmanager
async def open_async(lifespans: Sequence[Lifespan]) -> AsyncIterator[Resources]:
    """Open all lifespans for an event loop that runs async handlers."""
    values: list[object] = []
    async with AsyncExitStack() as stack:
        for lifespan in lifespans:
            opened = lifespan()
            if isinstance(opened, AbstractAsyncContextManager):
                values.append(await stack.enter_async_context(opened))
            else:
                values.append(stack.enter_context(opened))
        yield Resources(values)
