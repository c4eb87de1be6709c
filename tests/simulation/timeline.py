"""Virtual time: one queue of what happens when. Ties go by order of entry, so a seed decides everything."""

from collections.abc import Callable
from functools import partial
from heapq import heappop, heappush

Happening = Callable[[], None]


class Timeline:
    """True time in Unix milliseconds, and everything that is still to happen.

    `run_until` may be called from within a happening: a process that waits for something lets the others go on.
    """

    def __init__(self, start_ms: int) -> None:
        self.ms = start_ms
        self.happened = 0
        self._queue: list[tuple[int, int, Happening]] = []
        self._entered = 0

    def at(self, at_ms: int, what: Happening) -> None:
        self._entered += 1
        heappush(self._queue, (max(at_ms, self.ms), self._entered, what))

    def after(self, wait_ms: int, what: Happening) -> None:
        self.at(self.ms + wait_ms, what)

    def run_until(self, until_ms: int) -> None:
        queue = self._queue
        while queue and queue[0][0] <= until_ms:
            at_ms, _, what = heappop(queue)
            self.ms = max(self.ms, at_ms)
            self.happened += 1
            what()
        self.ms = max(self.ms, until_ms)


class Alarm:
    """Rings once, at the earliest of the times it was set to since it rang last."""

    def __init__(self, timeline: Timeline, ring: Happening) -> None:
        self._timeline = timeline
        self._rings = ring
        self._at_ms: int | None = None

    def set(self, at_ms: int) -> None:
        at_ms = max(at_ms, self._timeline.ms)
        if self._at_ms is None or at_ms < self._at_ms:
            self._at_ms = at_ms
            self._timeline.at(at_ms, partial(self._ring, at_ms))

    def _ring(self, at_ms: int) -> None:
        if at_ms == self._at_ms:
            self._at_ms = None
            self._rings()
