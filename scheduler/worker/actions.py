"""What a session tells the parent to do, as values, and what children end with.

The parent performs actions in the order given. Times are milliseconds of its monotonic clock.
"""

from enum import StrEnum
from typing import Final

import msgspec

from scheduler.core.job import ErrorInfo
from scheduler.core.notices import Lease
from scheduler.core.reports import Emit, Report, Verdict
from scheduler.core.spec import JobSpec


class StopReason(StrEnum):
    """Why a handler has to leave, in the words of `Context.stopping`."""

    CANCELLED = "cancelled"  # its lease was revoked on request
    DRAINING = "draining"  # the worker is going
    TIMEOUT = "timeout"  # its time is up
    LOST = "lost"  # its lease was not renewed


class SendReport(msgspec.Struct, frozen=True):
    """Produce `report` to a partition of `reports`; tell the session what became of `ticket`."""

    ticket: int
    partition: int
    report: Report


class StartRun(msgspec.Struct, frozen=True):
    """Hand a leased job to a child. A suspect gets a child of its own. `run` names it from here on."""

    run: int
    lease: Lease
    spec: JobSpec
    deadline_ms: int


class GuardRun(msgspec.Struct, frozen=True):
    """The run may go on until `deadline_ms` at most; the guard's table must say so."""

    run: int
    deadline_ms: int


class StopRun(msgspec.Struct, frozen=True):
    """Ask the handler to leave; it is killed `grace_ms` from now."""

    run: int
    reason: StopReason
    grace_ms: int


class KillRun(msgspec.Struct, frozen=True):
    """Kill the process group that runs it and say `on_gone` when it is dead, never before."""

    run: int


RUN_IS_OVER: Final = "the run is over"
"""The error of a checkpoint that came too late, as opposed to one that was refused."""


class ConfirmSave(msgspec.Struct, frozen=True):
    """Kafka has checkpoint `number` of the run; or never will, and `error` says why."""

    run: int
    number: int
    error: str = ""


Action = SendReport | StartRun | GuardRun | StopRun | KillRun | ConfirmSave


class Succeeded(msgspec.Struct, frozen=True, tag="succeeded"):
    """The handler returned. `result` is JSON; `omitted` says why there is none."""

    result: bytes = b""
    omitted: str = ""
    emits: tuple[Emit, ...] = ()


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """The handler raised, or asked for a retry, a failure or a cancellation."""

    verdict: Verdict
    error: ErrorInfo = ErrorInfo()
    retry_after_ms: int = -1


class Snoozed(msgspec.Struct, frozen=True, tag="snoozed"):
    """The handler wants to be run again after `delay_ms` as if this run had not been."""

    delay_ms: int


class Left(msgspec.Struct, frozen=True, tag="left"):
    """The handler left early, for the reason that `Context.stopping` gave it."""

    reason: str


Outcome = Succeeded | Failed | Snoozed | Left
"""How a run ended, as its child tells it."""
