"""From a handler's return or exception to the outcome that the parent reports."""

import traceback
from pathlib import PurePath
from typing import Final

import msgspec

from scheduler.core.job import ErrorInfo
from scheduler.core.reports import Emit, Verdict
from scheduler.worker import actions
from scheduler.worker.context import Stopped
from scheduler.worker.definition import JobDefinition
from scheduler.worker.fitting import fitted, fitted_error
from scheduler.worker.outcomes import Cancel, Fail, Outcome, Retry, Snooze

_OURS: Final = str(PurePath(__file__).parent)


def outcome_of_value(value: object, emits: tuple[Emit, ...]) -> actions.Outcome:
    """Return the outcome of a handler that returned `value`."""
    if isinstance(value, Outcome):
        return _outcome_of(value)
    if value is None:
        return actions.Succeeded(emits=emits)
    try:
        result = msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        # Its work is done all the same: to run it again would do the work twice and fail here once more.
        return fitted(actions.Succeeded(omitted=f"it can't be encoded as JSON: {error}", emits=emits))
    return fitted(actions.Succeeded(result, "", emits))


def outcome_of_error(error: BaseException, definition: JobDefinition) -> actions.Outcome:
    """Return the outcome of a handler that raised `error`."""
    if isinstance(error, Outcome):
        return _outcome_of(error)
    if isinstance(error, Stopped):
        return actions.Left(error.reason)
    verdict = Verdict.FAIL if definition.gives_up_on(error) else Verdict.RETRY
    return actions.Failed(verdict, error_info(error))


def error_info(error: BaseException) -> ErrorInfo:
    """Describe an exception within the bounds of `core.bounds`: class, text, and where it came from.

    Never the handler's arguments: the payload is not everybody's to read. What the exception's own text says
    is its author's choice, and bounded.
    """
    return fitted_error(ErrorInfo(_class_name(type(error)), _text(error), tuple(_frames(error))))


def _outcome_of(outcome: Outcome) -> actions.Outcome:
    if isinstance(outcome, Snooze):
        return actions.Snoozed(outcome.delay_ms)
    if isinstance(outcome, Retry):
        return actions.Failed(Verdict.RETRY, _said(outcome, outcome.message), outcome.after_ms)
    if isinstance(outcome, Fail):
        return actions.Failed(Verdict.FAIL, _said(outcome, outcome.message))
    assert isinstance(outcome, Cancel)
    return actions.Failed(Verdict.CANCEL, _said(outcome, outcome.message))


def _said(outcome: Outcome, message: str) -> ErrorInfo:
    info = error_info(outcome)
    return fitted_error(ErrorInfo(type(outcome).__name__, message, info.frames))


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - a user's __str__ may raise anything
        return "(its text can't be read)"


def _class_name(kind: type[BaseException]) -> str:
    return (
        kind.__qualname__ if kind.__module__ in _PLAIN_MODULES else f"{kind.__module__}.{kind.__qualname__}"
    )


def _frames(error: BaseException) -> list[str]:
    found: list[str] = []
    for frame, line in traceback.walk_tb(error.__traceback__):
        code = frame.f_code
        if not code.co_filename.startswith(_OURS):
            found.append(f"{PurePath(code.co_filename).name}:{line}:{code.co_name}")
    return found


_PLAIN_MODULES: Final = frozenset({"builtins", "__main__"})
