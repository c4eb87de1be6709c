"""What the worker knows of one kind of job: the function and how it wants to be run."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any, Final

from scheduler.client.showing import shown
from scheduler.worker.arguments import Arguments


class Kind(StrEnum):
    """How a handler is called."""

    SYNC = "sync"
    ASYNC = "async"


@dataclass(frozen=True, slots=True)
class Requirements:
    """What `@app.job` says to workers, as opposed to what it says about submitting."""

    memory_bytes: int = 0  # 0: no bound
    give_up_on: tuple[type[BaseException], ...] = ()
    cron: str = ""  # stored only; schedules are registered by `scheduler apply --from`
    tz: str = ""


@dataclass(frozen=True, slots=True)
class JobDefinition:
    """One `@app.job` function.

    `type` is `<app>.<function>`. Call it as `fn(ctx, *call.args, **call.kwargs)` if `takes_context`, else without
    `ctx`, where `call = arguments.decode(payload, content_type)`; await the result if `kind` is async.
    Timeout, attempts and backoff of a run come from the job record, not from here.
    """

    type: str
    fn: Callable[..., Any]
    kind: Kind
    arguments: Arguments
    requirements: Requirements

    @property
    def name(self) -> str:
        """The function's name, as error messages show it."""
        return self.arguments.name

    @property
    def takes_context(self) -> bool:
        """Whether the first parameter is `ctx: Context`."""
        return self.arguments.takes_context

    @property
    def memory_bytes(self) -> int:
        """The most memory that a child may take for it; 0 for no bound."""
        return self.requirements.memory_bytes

    def gives_up_on(self, error: BaseException) -> bool:
        """Say whether `error` dead-letters the job at once instead of costing an attempt."""
        return isinstance(error, self.requirements.give_up_on)


_SIZE: Final = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?) ?([KMGT]i?)?B", re.ASCII)
_POWERS: Final = {"K": 1, "M": 2, "G": 3, "T": 4}


def size_bytes(text: object) -> int:
    """Return a size such as `4GB` (10^9) or `512MiB` (2^20) in bytes. `ValueError` for a bare number."""
    match = _SIZE.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f"{shown(text)} is not a size: write it like '512MB' or '4GiB'")
    unit = match[2] or ""
    base = 1024 if unit.endswith("i") else 1000
    factor = base ** _POWERS[unit[0]] if unit else 1
    return int(Fraction(match[1]) * factor)
