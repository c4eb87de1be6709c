"""The clocks of one machine: the wall may be wrong and step, the monotonic one only runs a little fast or slow."""

from tests.simulation.timeline import Timeline

MILLION = 1_000_000
DRIFT_PPM = 20_000
"""How far monotonic clocks drift at most: two percent, well within the margins of leases."""


class MachineClock:
    """The clock port of dispatchers and workers."""

    def __init__(self, timeline: Timeline, up_ms: int, drift_ppm: int) -> None:
        self._timeline = timeline
        self._born_ms = timeline.ms
        self._up_ms = up_ms
        self._speed = MILLION + drift_ppm
        self.ahead_ms = 0

    def wall_ms(self) -> int:
        return self._timeline.ms + self.ahead_ms

    def mono_ms(self) -> int:
        return self._up_ms + (self._timeline.ms - self._born_ms) * self._speed // MILLION

    def true_ms(self, mono_ms: int) -> int:
        """Return the first true time at which the monotonic clock shows at least `mono_ms`."""
        return self._born_ms + -((self._up_ms - mono_ms) * MILLION // self._speed)
