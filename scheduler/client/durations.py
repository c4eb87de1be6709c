"""Durations and times as people write them, turned into milliseconds.

A duration has a unit (`"90s"`, `"1h30m"`, `"250ms"`) or is a `timedelta`; a time is an aware `datetime` or
RFC 3339 text with an offset. Bare numbers and naive times are refused with a `ValueError` that says what to
write instead: nobody can tell seconds from milliseconds, or Tokyo from Berlin, by looking at them.
"""

import math
import re
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Final

from scheduler.client.showing import shown
from scheduler.core import bounds

Duration = str | timedelta
Moment = str | datetime

_UNITS_MS: Final = {
    "ms": 1,
    "s": bounds.SECOND_MS,
    "m": bounds.MINUTE_MS,
    "h": bounds.HOUR_MS,
    "d": bounds.DAY_MS,
    "w": 7 * bounds.DAY_MS,
}
_PART: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)(ms|s|m|h|d|w)", re.ASCII)
_TEXT_MAX_CHARS: Final = 64
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_RFC3339: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?([Zz]|[+-][0-9]{2}:[0-9]{2})?",
    re.ASCII,
)


def duration_ms(value: Duration) -> int:
    """Return a duration in whole milliseconds, rounded up; `ValueError` if it is not one or is negative."""
    if isinstance(value, timedelta):
        total = _whole_ms(value)
    elif isinstance(value, str):
        total = _parsed_ms(value)
    else:
        raise ValueError(_no_unit(value))
    if not 0 <= total <= bounds.TIME_MAX_MS:
        raise ValueError(f"{shown(value)} is not a duration between 0 and {bounds.TIME_MAX_MS} ms")
    return total


def moment_ms(value: Moment) -> int:
    """Return a point in time as Unix milliseconds, rounded up; `ValueError` if naive, out of range or neither."""
    if isinstance(value, str):
        value = _parsed_moment(value)
    elif not isinstance(value, datetime):
        raise ValueError(f"{shown(value)} is not a time: give an aware datetime, or text with an offset")
    if value.utcoffset() is None:
        raise ValueError(
            f"{value.isoformat()} has no time zone: give an aware datetime, for example tzinfo=UTC"
        )
    total = _whole_ms(value - _EPOCH)
    if not 0 <= total <= bounds.TIME_MAX_MS:
        raise ValueError(f"{value.isoformat()} is not between 1970 and 9999")
    return total


def _whole_ms(value: timedelta) -> int:
    return -(-(value // _MICROSECOND) // 1_000)


def _parsed_ms(text: str) -> int:
    parts = list(_PART.finditer(text)) if len(text) <= _TEXT_MAX_CHARS else []
    if not parts or "".join(part[0] for part in parts) != text:
        raise ValueError(_no_unit(text))
    return math.ceil(sum(Fraction(part[1]) * _UNITS_MS[part[2]] for part in parts))


def _parsed_moment(text: str) -> datetime:
    match = _RFC3339.fullmatch(text) if len(text) <= _TEXT_MAX_CHARS else None
    if match is None:
        raise ValueError(f"{shown(text)} is not a time: write it like '2026-12-01T08:00:00+01:00'")
    if match[2] is None:
        raise ValueError(f"{shown(text)} has no offset: write it like '2026-12-01T08:00:00+01:00'")
    try:
        return datetime.fromisoformat(text.upper())
    except ValueError as error:
        raise ValueError(f"{shown(text)} is not a time: {error}") from None


def _no_unit(value: object) -> str:
    digits = isinstance(value, str) and value.replace(".", "", 1).isdecimal()
    if digits or (isinstance(value, int | float) and not isinstance(value, bool)):
        return f"{shown(value)} has no unit: write '{str(value)[:20]}s', or give a timedelta"
    return f"{shown(value)} is not a duration: write it like '90s' or '1h30m', or give a timedelta"
