"""What a run may ask for, as values: `Retry`, `Snooze`, `Fail`, `Cancel`.

A handler returns an outcome or raises it, from any depth; the worker performs it. Any other value is the
job's result, any other exception a failed attempt that is retried by the job's policy. Outcomes are
exceptions so that they can be raised, and compare by content so that tests can compare them.
"""

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from scheduler.client.durations import Duration, duration_ms
from scheduler.core import bounds

_SECONDS: Final = re.compile(r"[0-9]{1,18}", re.ASCII)
_HTTP_DATE: Final = re.compile(r"[A-Z][a-z]{2,8},? .{10,40}", re.ASCII)


class Outcome(Exception):
    """Root of the four outcomes."""

    def __eq__(self, other: object) -> bool:
        """Say whether `other` asks for the same."""
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        """Hash by content."""
        return hash((type(self), tuple(vars(self).values())))


class Retry(Outcome):
    """A failed attempt; the next one starts no earlier than `after` from now.

    `after` is a duration (`"60s"`, a `timedelta`), or the text of an HTTP `Retry-After` header as it came:
    seconds (`"30"`) or a date, capped at a year. None: the job's own backoff. `after_ms` is -1 for None.
    """

    def __init__(self, after: Duration | None = None, message: str = "") -> None:
        """Refuse an `after` that is neither with a `ValueError`."""
        super().__init__(after, message)
        self.after_ms = -1 if after is None else _after_ms(after)
        self.message = message

    def __str__(self) -> str:
        """Return what a log line shows."""
        wanted = "retry" if self.after_ms < 0 else f"retry after {self.after_ms} ms"
        return f"{self.message} ({wanted})" if self.message else wanted


class Snooze(Outcome):
    """Not an attempt: run again after `delay` as if this run had not been. `delay_ms` is in milliseconds."""

    def __init__(self, delay: Duration) -> None:
        """Refuse what is not a duration up to a year with a `ValueError`."""
        super().__init__(delay)
        self.delay_ms = _bounded(duration_ms(delay))

    def __str__(self) -> str:
        """Return what a log line shows."""
        return f"snooze for {self.delay_ms} ms"


class Fail(Outcome):
    """The job can't succeed: dead-letter it now. `message` is for people and is kept with the job."""

    def __init__(self, message: str = "") -> None:
        """Keep the message."""
        super().__init__(message)
        self.message = message


class Cancel(Outcome):
    """The job is no longer wanted: it ends as cancelled. `message` is for people."""

    def __init__(self, message: str = "") -> None:
        """Keep the message."""
        super().__init__(message)
        self.message = message


def _after_ms(after: Duration) -> int:
    if isinstance(after, str):
        header = _header_ms(after.strip())
        if header is not None:
            return min(header, bounds.DELAY_MAX_MS)
    return _bounded(duration_ms(after))


def _header_ms(text: str) -> int | None:
    """Return the delay that a `Retry-After` header asks for (RFC 9110, section 10.2.3), or None."""
    if _SECONDS.fullmatch(text):
        return int(text) * bounds.SECOND_MS
    if not _HTTP_DATE.fullmatch(text):
        return None
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0, int((moment - datetime.now(UTC)).total_seconds() * bounds.SECOND_MS))


def _bounded(delay_ms: int) -> int:
    if delay_ms > bounds.DELAY_MAX_MS:
        raise ValueError(f"{delay_ms} ms is above the longest delay, {bounds.DELAY_MAX_MS} ms")
    return delay_ms
