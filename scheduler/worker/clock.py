"""The clock that leases are measured on: the same one in the parent, the guard and the children."""

import time
from typing import Final

# CLOCK_MONOTONIC stands still while the machine is suspended; a lease does not.
_CLOCK: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def mono_ms() -> int:
    """Return milliseconds since the machine started, suspended time included where the system can tell."""
    return time.clock_gettime_ns(_CLOCK) // 1_000_000


class SystemClock:
    """The clock port, read from the system."""

    def mono_ms(self) -> int:
        """Return `mono_ms`."""
        return mono_ms()
