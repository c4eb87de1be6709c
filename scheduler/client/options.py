"""How a job is submitted, as people write it (`Options`) and as numbers (`Terms`)."""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, TypedDict

import msgspec

from scheduler.client.durations import Duration, Moment, duration_ms, moment_ms
from scheduler.client.errors import InvalidJob
from scheduler.client.showing import shown, unknown
from scheduler.core import bounds
from scheduler.core.spec import Backoff, Band, OnParentFailure

Priority = Literal["interactive", "default", "bulk"] | int  # an integer is 0 to 9


class BackoffOptions(TypedDict, total=False):
    """Delays between attempts: full jitter over `base * factor ** n`, at most `max`."""

    base: Duration
    factor: float
    max: Duration


class Options(TypedDict, total=False):
    """What `options(...)` takes. Durations have a unit (`"90s"`) or are a `timedelta`; times have an offset."""

    queue: str
    tenant: str
    priority: Priority
    delay: Duration
    run_at: Moment
    expires_in: Duration
    max_attempts: int
    timeout: Duration
    backoff: BackoffOptions
    job_id: str
    idempotency_key: str
    labels: Mapping[str, str]
    content_type: str
    after: Iterable[Any]  # refs, requests or ids
    on_parent_failure: Literal["cancel", "run"]


class Terms(msgspec.Struct, frozen=True):
    """Options read and checked for form; bounds are checked with the whole job. Times in milliseconds.

    `run_at_ms` is an instant, `delay_ms` and `expires_in_ms` count from the submit; 0 is not set.
    """

    queue: str = "default"
    tenant: str = "default"
    priority: int = 3
    band: Band = Band.DEFAULT
    delay_ms: int = 0
    run_at_ms: int = 0
    expires_in_ms: int = 0
    max_attempts: int = 5
    timeout_ms: int = 5 * bounds.MINUTE_MS
    backoff: Backoff = Backoff()
    job_id: str | None = None
    idempotency_key: str | None = None
    labels: dict[str, str] = {}
    content_type: str = "application/json"
    on_parent_failure: OnParentFailure = OnParentFailure.CANCEL


def terms_with(terms: Terms, name: str, options: Mapping[str, Any]) -> Terms:
    """Return `terms` changed by `options`. Raises `InvalidJob`, beginning with `name`, for one that can't be."""
    changes: dict[str, Any] = {}
    for option, value in options.items():
        read = _READERS.get(option)
        if read is None:
            raise InvalidJob(f"{name}: {unknown('option', option, _READERS)}")
        try:
            changes.update(read(value))
        except ValueError as error:
            raise InvalidJob(f"{name}: {option}: {error}") from None
    if "delay" in options and "run_at" in options:
        raise InvalidJob(f"{name}: delay and run_at exclude each other")
    return msgspec.structs.replace(terms, **changes)


def priority_of(value: object) -> tuple[int, Band]:
    """Return a priority's number and its band. `ValueError` for what is neither a name nor 0 to 9."""
    if isinstance(value, str) and value in _NAMED:
        return _NAMED[value]
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= bounds.PRIORITY_MAX:
        return value, _band_of(value)
    raise ValueError(f"{shown(value)} is not 'interactive', 'default', 'bulk' or an integer 0 to 9")


def _band_of(priority: int) -> Band:
    if priority == 0:
        return Band.INTERACTIVE
    return Band.DEFAULT if priority <= _DEFAULT_MAX else Band.BULK


_DEFAULT_MAX: Final = 4
_NAMED: Final = {"interactive": (0, Band.INTERACTIVE), "default": (3, Band.DEFAULT), "bulk": (7, Band.BULK)}


def whole(value: object) -> int:
    """Return an integer that is one: not True, not 1.0, not "1"."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{shown(value)} is not an integer")
    return value


def text(value: object) -> str:
    """Return a string that is one and can be written as UTF-8."""
    if not isinstance(value, str):
        raise ValueError(f"{shown(value)} is not a string")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{shown(value)} is not valid Unicode") from None
    return str(value)


def backoff_of(value: object) -> Backoff:
    """Return a backoff from its mapping; what it leaves out has the usual value."""
    if isinstance(value, Backoff):
        return value
    if not isinstance(value, Mapping):
        raise ValueError(f"{shown(value)} is not a mapping like {{'base': '5s', 'factor': 2, 'max': '1h'}}")
    usual = Backoff()
    for name in value:
        if name not in BackoffOptions.__annotations__:
            raise ValueError(unknown("field", name, BackoffOptions.__annotations__))
    return Backoff(
        base_ms=duration_ms(value["base"]) if "base" in value else usual.base_ms,
        factor=_factor(value["factor"]) if "factor" in value else usual.factor,
        max_ms=duration_ms(value["max"]) if "max" in value else usual.max_ms,
    )


def _factor(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"factor {shown(value)} is not a number")
    return float(value)


def _job_id(value: object) -> str:
    if value == "":
        raise ValueError("must not be empty")
    return text(value)


def _labels(value: object) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{shown(value)} is not a mapping of names to strings")
    return {text(name): text(of) for name, of in value.items()}


def _no_parents(value: object) -> dict[str, Any]:
    if isinstance(value, list | tuple) and not value:
        return {}
    raise ValueError("dependencies are not available in this version")


def _priority(value: object) -> dict[str, Any]:
    number, band = priority_of(value)
    return {"priority": number, "band": band}


def _as(field: str, read: Callable[[Any], object]) -> Callable[[Any], dict[str, Any]]:
    return lambda value: {field: read(value)}


_READERS: Final[dict[str, Callable[[Any], dict[str, Any]]]] = {
    "queue": _as("queue", text),
    "tenant": _as("tenant", text),
    "priority": _priority,
    "delay": lambda value: {"delay_ms": duration_ms(value), "run_at_ms": 0},
    "run_at": lambda value: {"run_at_ms": moment_ms(value), "delay_ms": 0},
    "expires_in": _as("expires_in_ms", duration_ms),
    "max_attempts": _as("max_attempts", whole),
    "timeout": _as("timeout_ms", duration_ms),
    "backoff": _as("backoff", backoff_of),
    "job_id": _as("job_id", _job_id),
    "idempotency_key": _as("idempotency_key", text),
    "labels": _as("labels", _labels),
    "content_type": _as("content_type", text),
    "after": _no_parents,
    "on_parent_failure": _as("on_parent_failure", lambda value: OnParentFailure(text(value))),
}
