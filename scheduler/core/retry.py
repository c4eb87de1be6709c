"""When a failed job runs again, and which retry topic holds it until then."""

from typing import Final

import msgspec

from scheduler.core import bounds
from scheduler.core.spec import Backoff


class Tier(msgspec.Struct, frozen=True):
    """One retry topic: every record in it waits `delay_ms`, so its order is due order."""

    name: str
    delay_ms: int


TIERS: Final = (
    Tier("5s", 5 * bounds.SECOND_MS),
    Tier("30s", 30 * bounds.SECOND_MS),
    Tier("2m", 2 * bounds.MINUTE_MS),
    Tier("10m", 10 * bounds.MINUTE_MS),
    Tier("30m", 30 * bounds.MINUTE_MS),
)


def tier_for(delay_ms: int) -> int | None:
    """Return the index of the longest tier that is not longer than `delay_ms`, or None for a timer alone."""
    fitting = [n for n, tier in enumerate(TIERS) if tier.delay_ms <= delay_ms]
    return fitting[-1] if fitting else None


def backoff_ms(backoff: Backoff, failures: int, chance: float) -> int:
    """Return the delay after failure number `failures` (1 for the first).

    Full jitter: uniform over 0..ceiling, so that jobs that failed together come back apart
    (AWS Architecture Blog, "Exponential Backoff And Jitter", 2015). `chance` is uniform in [0, 1).
    """
    try:
        ceiling = backoff.base_ms * backoff.factor ** (failures - 1)
    except OverflowError:
        ceiling = float(backoff.max_ms)
    return int(min(ceiling, backoff.max_ms) * chance)


def release_backoff_ms(releases: int) -> int:
    """Return the delay before a job goes out again that nobody could start: 1 s doubling up to 60 s."""
    doublings = min(max(releases - 1, 0), 16)
    return min(bounds.RELEASE_BACKOFF_MIN_MS << doublings, bounds.RELEASE_BACKOFF_MAX_MS)
