"""Time and chance as the machine has them."""

import os
import random
import time

from scheduler.core.bounds import TOKEN_BYTES

_BOOT = getattr(
    time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC
)  # counts suspended time where there is such a clock


class MachineClock:
    """Implements `ports.Clock`."""

    def wall_ms(self) -> int:
        """Return Unix milliseconds."""
        return time.time_ns() // 1_000_000

    def mono_ms(self) -> int:
        """Return milliseconds of a clock that never steps."""
        return time.clock_gettime_ns(_BOOT) // 1_000_000


_TOKENS_AT_ONCE = 256  # one system call for that many


class MachineChance:
    """Implements `ports.Chance`."""

    def __init__(self) -> None:
        """Begin with no token drawn."""
        self._tokens: list[bytes] = []

    def fraction(self) -> float:
        """Return a number uniform in [0, 1)."""
        return random.random()

    def token(self) -> bytes:
        """Return 16 random bytes that nobody can guess."""
        if not self._tokens:
            drawn = os.urandom(TOKEN_BYTES * _TOKENS_AT_ONCE)
            self._tokens = [drawn[n : n + TOKEN_BYTES] for n in range(0, len(drawn), TOKEN_BYTES)]
        return self._tokens.pop()
