"""What the worker knows of one kind of job: the function and how it wants to be run."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from scheduler.worker.arguments import Arguments


class Kind(StrEnum):
    """How a handler is called."""

    SYNC = "sync"
    ASYNC = "async"


@dataclass(frozen=True, slots=True)
class JobDefinition:
    """One `@app.job` function.

    `type` is `<app>.<function>`. Call it as `fn(ctx, *call.args, **call.kwargs)` if `takes_context`, else without
    `ctx`, where `call = arguments.decode(payload, content_type)`; await the result if `kind` is async.
    `memory_bytes` is 0 for no bound. What a submit leaves out comes from the job record, not from here.
    """

    type: str
    fn: Callable[..., Any]
    kind: Kind
    takes_context: bool
    arguments: Arguments
    memory_bytes: int = 0
    give_up_on: tuple[type[BaseException], ...] = ()
    cron: str = ""  # stored only; schedules are registered by `scheduler apply --from`
    tz: str = ""

    @property
    def name(self) -> str:
        """The function's name, as error messages show it."""
        return self.arguments.name

    def gives_up_on(self, error: BaseException) -> bool:
        """Say whether `error` dead-letters the job at once instead of costing an attempt."""
        return isinstance(error, self.give_up_on)
