"""The dispatcher's time: wall time that the broker's time keeps from running ahead."""

from typing import Final

from scheduler.dispatcher.ports import Clock

AHEAD_MAX_MS: Final = 1_000
ALARM_MS: Final = 2_000
ECHO_EVERY_MS: Final = 60_000


class EngineClock:
    """`now_ms` is min(wall, broker time + 1 s).

    A wall clock that runs ahead would start scheduled work early. Broker time is monotonic time plus an anchor
    that own echoes tell: the broker appended each between its production and its reading, so broker time less
    monotonic time lies between two bounds. Other records tell nothing: who knows how long they lay there. Between
    two echoes it drifts as the monotonic clock does: at 200 ppm 12 ms in `ECHO_EVERY_MS`.
    """

    def __init__(self, clock: Clock) -> None:
        """Read `clock`."""
        self._clock = clock
        self._anchor: int | None = None  # broker time less monotonic time, as far as it is certain
        self._echoed_at_ms = 0  # monotonic, of the last echo

    def mono_ms(self) -> int:
        """Return monotonic milliseconds."""
        return self._clock.mono_ms()

    def wall_ms(self) -> int:
        """Return this machine's wall time as it is, for the age of what this machine wrote."""
        return self._clock.wall_ms()

    @property
    def known(self) -> bool:
        """Whether the wall clock is bounded by broker time yet."""
        return self._anchor is not None

    def echoed(self, at_ms: int, produced_at_ms: int, mono_ms: int) -> None:
        """Take an own echo: appended at `at_ms`, produced and read at these monotonic times.

        One that is read late has a low lower bound, which changes nothing. But one whose upper bound is below what
        was believed proves that a broker's clock was ahead, and is so no more: from then on its own bound counts.
        """
        least, most = at_ms - mono_ms, at_ms - produced_at_ms
        if self._anchor is None or not least <= self._anchor <= most:
            self._anchor = least
        self._echoed_at_ms = mono_ms

    def wants_echo(self, mono_ms: int) -> bool:
        """Say whether the last echo was so long ago that another one should look at the broker's time."""
        return self.known and mono_ms - self._echoed_at_ms >= ECHO_EVERY_MS

    def now_ms(self, mono_ms: int) -> int:
        """Return wall time in Unix milliseconds, bounded by broker time."""
        wall_ms = self._clock.wall_ms()
        return wall_ms if self._anchor is None else min(wall_ms, self._anchor + mono_ms + AHEAD_MAX_MS)

    def settled_ms(self, now_ms: int, mono_ms: int) -> int:
        """Return the time of a turn that has read its echoes, `now_ms` before: what they tell may only set it back.

        So nothing is decided in a turn by a later time than the one it is written down with.
        """
        return min(now_ms, self.now_ms(mono_ms))

    def difference_ms(self) -> int:
        """Return how far the wall clock is ahead of the broker's: beyond `ALARM_MS` either way it is an alarm."""
        return 0 if self._anchor is None else self._clock.wall_ms() - (self._anchor + self._clock.mono_ms())
