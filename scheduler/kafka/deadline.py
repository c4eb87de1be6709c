"""A bound on how long one goes on trying."""

import time
from typing import Final

SLICE_S: Final = 1.0
"""The longest single call into the client: signal handlers of Python run only between such calls."""


class Deadline:
    """An instant of the monotonic clock."""

    def __init__(self, after_s: float) -> None:
        """Set the instant `after_s` seconds from now."""
        self._at_s = time.monotonic() + after_s

    @property
    def passed(self) -> bool:
        """Whether the instant is over."""
        return time.monotonic() >= self._at_s

    def slice_s(self) -> float:
        """Return what is left, in seconds, but at most `SLICE_S` and never nothing."""
        return min(max(self._at_s - time.monotonic(), 0.01), SLICE_S)
