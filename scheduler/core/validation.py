"""What a job record must look like, and the error that says what was wrong. Used by clients and dispatchers alike."""

import re
from functools import lru_cache
from typing import Final

import msgspec

from scheduler.core import bounds, keys
from scheduler.core.outputs import Refusal
from scheduler.core.settings import QueueSettings
from scheduler.core.spec import Backoff, JobSpec, OnParentFailure


class FieldError(msgspec.Struct, frozen=True):
    """One field that was refused. `value` and `limit` are empty where there is none to tell; texts are never told.

    `code`: missing, wrong_type, too_small, too_large, too_long, too_many, bad_characters, mismatch.
    """

    pointer: str  # /timeout_ms
    code: str
    detail: str
    value: str = ""
    limit: str = ""

    def __str__(self) -> str:
        """Return one line such as `/timeout_ms 86400000 above the limit 3600000`."""
        return f"{self.pointer} {self.detail}"


class Refused(Exception):
    """A record that is not accepted, whatever one tries: quarantine it, or tell its author.

    `detail` is one line per fault and never holds anything of a payload. `errors` names the fields where known.
    """

    def __init__(self, reason: Refusal, detail: str, errors: tuple[FieldError, ...] = ()) -> None:
        """Take the reason, a text, and what is known about single fields."""
        super().__init__(detail)
        self.reason = reason
        self.detail = detail
        self.errors = errors

    @property
    def field(self) -> str:
        """The pointer of the first field at fault; empty if none is known."""
        return self.errors[0].pointer if self.errors else ""


ID: Final = re.compile(rf"[A-Za-z0-9._:-]{{1,{bounds.JOB_ID_MAX_CHARS}}}")
NAME: Final = re.compile(rf"[A-Za-z0-9._:/-]{{1,{bounds.NAME_MAX_CHARS}}}")
CONTENT_TYPE: Final = re.compile(rf"[!-~ ]{{1,{bounds.CONTENT_TYPE_MAX_CHARS}}}")
_CHARACTERS: Final = {
    ID: "A-Z a-z 0-9 . _ : -",
    NAME: "A-Z a-z 0-9 . _ : - /",
    CONTENT_TYPE: "printable ASCII",
}
_LENGTHS: Final = {
    ID: bounds.JOB_ID_MAX_CHARS,
    NAME: bounds.NAME_MAX_CHARS,
    CONTENT_TYPE: bounds.CONTENT_TYPE_MAX_CHARS,
}


def check(spec: JobSpec, queue: QueueSettings) -> None:
    """Return if `spec` may be admitted to a queue with these settings, else raise `Refused` (out_of_bounds).

    An empty `job_id` is fine: it is derived where the record lands. Pure; all faults are told at once.
    """
    errors = problems(spec, queue)
    if errors:
        raise Refused(Refusal.OUT_OF_BOUNDS, "; ".join(map(str, errors)), tuple(errors))


def problems(spec: JobSpec, queue: QueueSettings) -> list[FieldError]:
    """Return everything that is wrong with `spec`.

    Runs for every job that is submitted and for every one admitted: hence no loops over tables of rules in it.
    """
    errors: list[FieldError] = []
    _shapes(spec, errors)
    if errors:
        return errors
    _identity(spec, errors)
    _numbers(spec, queue, errors)
    _backoff(spec.backoff, errors)
    if spec.after:
        _parents(spec, errors)
    if spec.labels:
        _labels(spec, errors)
    if len(spec.payload) > queue.payload_max_bytes:
        errors.append(_too_large("/payload", len(spec.payload), queue.payload_max_bytes, " bytes"))
    return errors


def _shapes(spec: JobSpec, errors: list[FieldError]) -> None:
    """Check what the other checks look into: a struct takes whatever its caller gives it."""
    plain = (spec.payload.__class__, spec.backoff.__class__, spec.after.__class__, spec.labels.__class__)
    if plain == _PLAIN and spec.on_parent_failure.__class__ is OnParentFailure:
        return
    for pointer, value, kind, wanted in (
        ("/payload", spec.payload, bytes, "bytes"),
        ("/backoff", spec.backoff, Backoff, "a Backoff"),
        ("/after", spec.after, tuple, "a tuple of ids"),
        ("/labels", spec.labels, dict, "a dict"),
        ("/on_parent_failure", spec.on_parent_failure, OnParentFailure, "an OnParentFailure"),
    ):
        if not isinstance(value, kind):
            errors.append(_wrong_type(pointer, value, wanted))


_PLAIN: Final = (bytes, Backoff, tuple, dict)


def _identity(spec: JobSpec, errors: list[FieldError]) -> None:
    if spec.job_id != "" and not _matches(spec.job_id, ID):  # ids differ, so they would only spoil the cache
        errors.append(_bad_text("/job_id", spec.job_id, ID))
    if not _names_ok(spec.tenant, spec.queue, spec.type, spec.content_type):
        _names(spec, errors)
    if spec.idempotency_key is not None and not errors:
        _key(spec, errors)


def _names(spec: JobSpec, errors: list[FieldError]) -> None:
    for pointer, text, pattern in (
        ("/tenant", spec.tenant, NAME),
        ("/queue", spec.queue, NAME),
        ("/type", spec.type, NAME),
        ("/content_type", spec.content_type, CONTENT_TYPE),
    ):
        if not _matches(text, pattern):
            errors.append(_bad_text(pointer, text, pattern))


def _key(spec: JobSpec, errors: list[FieldError]) -> None:
    key = spec.idempotency_key
    if not isinstance(key, str):
        errors.append(_wrong_type("/idempotency_key", key, "text"))
        return
    size = _size(key)
    if size is None:
        errors.append(FieldError("/idempotency_key", "bad_characters", "is not valid Unicode text"))
    elif size == 0:
        errors.append(FieldError("/idempotency_key", "missing", "must not be empty"))
    elif size > bounds.IDEMPOTENCY_KEY_MAX_BYTES:
        errors.append(_too_large("/idempotency_key", size, bounds.IDEMPOTENCY_KEY_MAX_BYTES, " bytes"))
    elif spec.job_id not in ("", keys.id_from_key(spec.tenant, key)):
        errors.append(
            FieldError(
                "/job_id", "mismatch", "is not the id that tenant and idempotency_key give; leave it empty"
            )
        )


def _numbers(spec: JobSpec, queue: QueueSettings, errors: list[FieldError]) -> None:
    value = spec.priority
    if value.__class__ is not int or not 0 <= value <= bounds.PRIORITY_MAX:
        errors.append(_bad_number("/priority", value, 0, bounds.PRIORITY_MAX))
    value = spec.run_at_ms
    if value.__class__ is not int or not 0 <= value <= bounds.TIME_MAX_MS:
        errors.append(_bad_number("/run_at_ms", value, 0, bounds.TIME_MAX_MS))
    value = spec.expires_at_ms
    if value.__class__ is not int or not 0 <= value <= bounds.TIME_MAX_MS:
        errors.append(_bad_number("/expires_at_ms", value, 0, bounds.TIME_MAX_MS))
    value = spec.max_attempts
    if value.__class__ is not int or not 1 <= value <= bounds.MAX_ATTEMPTS_MAX:
        errors.append(_bad_number("/max_attempts", value, 1, bounds.MAX_ATTEMPTS_MAX))
    value, most = spec.timeout_ms, min(queue.timeout_max_ms, bounds.TIMEOUT_MAX_MS)
    if value.__class__ is not int or not bounds.TIMEOUT_MIN_MS <= value <= most:
        errors.append(_bad_number("/timeout_ms", value, bounds.TIMEOUT_MIN_MS, most))


def _backoff(backoff: Backoff, errors: list[FieldError]) -> None:
    value = backoff.base_ms
    if value.__class__ is not int or not bounds.BACKOFF_MIN_MS <= value <= bounds.BACKOFF_MAX_MS:
        errors.append(_bad_number("/backoff/base_ms", value, bounds.BACKOFF_MIN_MS, bounds.BACKOFF_MAX_MS))
    value = backoff.max_ms
    if value.__class__ is not int or not bounds.BACKOFF_MIN_MS <= value <= bounds.BACKOFF_MAX_MS:
        errors.append(_bad_number("/backoff/max_ms", value, bounds.BACKOFF_MIN_MS, bounds.BACKOFF_MAX_MS))
    factor = backoff.factor
    if factor.__class__ is not float and factor.__class__ is not int:
        errors.append(_wrong_type("/backoff/factor", factor, "a number"))
    elif not 1.0 <= factor <= bounds.BACKOFF_FACTOR_MAX:  # false for NaN too
        errors.append(_outside("/backoff/factor", factor, 1, bounds.BACKOFF_FACTOR_MAX))


def _parents(spec: JobSpec, errors: list[FieldError]) -> None:
    if len(spec.after) > bounds.PARENTS_MAX:
        errors.append(_too_many("/after", len(spec.after), bounds.PARENTS_MAX, "parents"))
        return
    for number, parent in enumerate(spec.after):
        if not _matches(parent, ID):
            errors.append(_bad_text(f"/after/{number}", parent, ID))
        elif parent == spec.job_id:
            errors.append(FieldError(f"/after/{number}", "mismatch", "a job can't wait for itself"))


def _labels(spec: JobSpec, errors: list[FieldError]) -> None:
    if len(spec.labels) > bounds.LABELS_MAX:
        errors.append(_too_many("/labels", len(spec.labels), bounds.LABELS_MAX, "labels"))
        return
    for name, value in spec.labels.items():
        if name == "":
            errors.append(FieldError("/labels", "missing", "a name must not be empty"))
        _label(name, "name", errors)
        _label(value, "value", errors)


def _label(text: object, what: str, errors: list[FieldError]) -> None:
    if not isinstance(text, str):
        errors.append(_wrong_type("/labels", text, f"text in each {what}"))
        return
    size = _size(text)
    if size is None:
        errors.append(FieldError("/labels", "bad_characters", f"a {what} is not valid Unicode text"))
    elif size > bounds.LABEL_MAX_BYTES:
        errors.append(_too_large("/labels", size, bounds.LABEL_MAX_BYTES, f" bytes of a {what}"))


def _size(text: str) -> int | None:
    """Return the length in UTF-8, or None for text that has none (a lone surrogate)."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return None


def _matches(text: object, pattern: re.Pattern[str]) -> bool:
    return isinstance(text, str) and pattern.fullmatch(text) is not None


def _names_ok(tenant: object, queue: object, job_type: object, content_type: object) -> bool:
    """Match texts that come again and again together; longer ones than may pass are not remembered."""
    names = (tenant, queue, job_type, content_type)
    try:
        if len(tenant) + len(queue) + len(job_type) + len(content_type) > 4 * bounds.NAME_MAX_CHARS:  # type: ignore[arg-type]
            return False
        return _known(names)
    except TypeError:  # without a length, or not to be looked up
        return False


@lru_cache(maxsize=4096)
def _known(names: tuple[object, ...]) -> bool:
    return all(_matches(name, NAME) for name in names[:3]) and _matches(names[3], CONTENT_TYPE)


def _wrong_type(pointer: str, value: object, wanted: str) -> FieldError:
    return FieldError(pointer, "wrong_type", f"must be {wanted}, got {type(value).__name__}")


def _bad_text(pointer: str, text: object, pattern: re.Pattern[str]) -> FieldError:
    if not isinstance(text, str):
        return _wrong_type(pointer, text, "text")
    if not text:
        return FieldError(pointer, "missing", "must not be empty")
    limit = _LENGTHS[pattern]
    if len(text) > limit:
        detail = f"{len(text)} characters above the limit {limit}"
        return FieldError(pointer, "too_long", detail, str(len(text)), str(limit))
    position = next(n for n, character in enumerate(text) if not pattern.fullmatch(character))
    return FieldError(
        pointer, "bad_characters", f"holds a character outside {_CHARACTERS[pattern]} at position {position}"
    )


def _bad_number(pointer: str, value: object, low: int, high: int) -> FieldError:
    if not isinstance(value, int) or isinstance(value, bool):
        return _wrong_type(pointer, value, "an integer")
    return _outside(pointer, value, low, high)


def _outside(pointer: str, value: float, low: float, high: float) -> FieldError:
    if value > high:
        return _too_large(pointer, value, high)
    return FieldError(pointer, "too_small", f"{_told(value)} below the limit {low}", _told(value), str(low))


def _too_large(pointer: str, value: float, limit: float, unit: str = "") -> FieldError:
    return FieldError(
        pointer, "too_large", f"{_told(value)}{unit} above the limit {limit}", _told(value), str(limit)
    )


def _too_many(pointer: str, count: int, limit: int, unit: str) -> FieldError:
    return FieldError(pointer, "too_many", f"{count} {unit} above the limit {limit}", str(count), str(limit))


def _told(value: float) -> str:
    """Return a number as text of bounded length."""
    return (
        "a number of more than 64 bits" if isinstance(value, int) and value.bit_length() > 64 else str(value)
    )
