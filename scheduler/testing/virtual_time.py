"""Time and chance that a test holds in its hand."""

import random
from typing import Final

from scheduler.core.bounds import HOUR_MS, SECOND_MS, TOKEN_BYTES

_UP_MS: Final = HOUR_MS  # how long the machine seems to have been up at the start

AHEAD_MS: Final = 2 * SECOND_MS
"""How far virtual time starts ahead of the wall clock, at a whole second.

A test that computes `run_at` from the wall clock is a few milliseconds into the test when it does so. Were virtual
time not ahead, `run_at=now + 2h` followed by `advance("2h")` would miss it by those few.
"""


class VirtualClock:
    """The clock of dispatcher, broker and workers alike; it moves when told, never by itself."""

    def __init__(self, wall_ms: int) -> None:
        """Start ahead of `wall_ms` (Unix milliseconds)."""
        self._wall_ms = self._start_ms = wall_ms // SECOND_MS * SECOND_MS + AHEAD_MS

    def wall_ms(self) -> int:
        """Return Unix milliseconds."""
        return self._wall_ms

    def mono_ms(self) -> int:
        """Return milliseconds since the machine seems to have started."""
        return self._wall_ms - self._start_ms + _UP_MS

    def wall_of(self, mono_ms: int) -> int:
        """Return the Unix milliseconds of a monotonic time."""
        return mono_ms - _UP_MS + self._start_ms

    def move_to(self, wall_ms: int) -> None:
        """Let time pass until `wall_ms`."""
        assert wall_ms >= self._wall_ms, "time does not go back"
        self._wall_ms = wall_ms


class SeededChance:
    """The same draws in every run of a test.

    Fractions come from [0.5, 1): a retry delay is then never so short that no time passes before the next attempt.
    """

    def __init__(self, seed: int) -> None:
        """Begin at `seed`."""
        self._random = random.Random(seed)

    def fraction(self) -> float:
        """Return a number in [0.5, 1)."""
        return 0.5 + self._random.random() / 2

    def token(self) -> bytes:
        """Return 16 bytes."""
        return self._random.randbytes(TOKEN_BYTES)
