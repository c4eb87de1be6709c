"""The dispatcher's time: wall time that the broker's time keeps from running ahead."""

from scheduler.dispatcher.ports import Clock

AHEAD_MAX_MS = 1_000
ALARM_MS = 2_000


class EngineClock:
    """`now_ms` is min(wall, newest broker time read + monotonic time since + 1 s).

    A wall clock that runs ahead would start scheduled work early; the broker's append times bound it.
    Broker time counts from the first own echo on: before that the newest record read may be old.
    """

    def __init__(self, clock: Clock) -> None:
        """Read `clock`."""
        self._clock = clock
        self._anchor: int | None = None  # broker time less monotonic time, the largest seen
        self._known = False

    def mono_ms(self) -> int:
        """Return monotonic milliseconds."""
        return self._clock.mono_ms()

    def wall_ms(self) -> int:
        """Return this machine's wall time as it is, for the age of what this machine wrote."""
        return self._clock.wall_ms()

    @property
    def known(self) -> bool:
        """Whether the wall clock is bounded by broker time yet."""
        return self._known

    def saw(self, at_ms: int, mono_ms: int, *, own_echo: bool = False) -> None:
        """Take the append time of a record read at `mono_ms`."""
        anchor = at_ms - mono_ms
        if self._anchor is None or anchor > self._anchor:
            self._anchor = anchor
        self._known = self._known or own_echo

    def now_ms(self, mono_ms: int) -> int:
        """Return wall time in Unix milliseconds, bounded by broker time."""
        wall_ms = self._clock.wall_ms()
        if not self._known or self._anchor is None:
            return wall_ms
        return min(wall_ms, self._anchor + mono_ms + AHEAD_MAX_MS)

    def difference_ms(self) -> int:
        """Return how far the wall clock is from the newest broker time: above `ALARM_MS` it is an alarm."""
        if not self._known or self._anchor is None:
            return 0
        return self._clock.wall_ms() - (self._anchor + self._clock.mono_ms())
