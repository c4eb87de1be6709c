"""The way between a process and the broker: in order, at times late, at times closed, in either direction."""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from tests.simulation.timeline import Happening, Timeline

TRY_AGAIN_MS = 500


class Parcel(NamedTuple):
    """Something under way. `lost` happens instead of `arrive` if it takes too long."""

    sent_ms: int
    arrive: Happening
    lost: Happening


class Channel:
    """One direction. What waits for it to open is given up after `patience_ms`, as by a Kafka client."""

    def __init__(self, timeline: Timeline, delay_ms: Callable[[], int], patience_ms: int) -> None:
        self._timeline = timeline
        self._delay_ms = delay_ms
        self._patience_ms = patience_ms
        self._under_way: deque[Parcel] = deque()
        self._last_ms = 0
        self.is_cut = False

    def send(self, arrive: Happening, lost: Happening = lambda: None) -> None:
        now_ms = self._timeline.ms
        self._last_ms = max(self._last_ms, now_ms + self._delay_ms())
        self._under_way.append(Parcel(now_ms, arrive, lost))
        self._timeline.at(self._last_ms, self._next)

    def drop_all(self) -> None:
        """Lose everything under way without a word: its sender is dead."""
        self._under_way.clear()

    def is_empty(self) -> bool:
        return not self._under_way

    def _next(self) -> None:
        if not self._under_way:
            return
        too_late = self._timeline.ms - self._under_way[0].sent_ms >= self._patience_ms
        if self.is_cut and not too_late:
            self._timeline.after(TRY_AGAIN_MS, self._next)
        elif too_late and self.is_cut:
            self._under_way.popleft().lost()
        else:
            self._under_way.popleft().arrive()


class Link:
    """Both directions of one process."""

    def __init__(self, timeline: Timeline, delay_ms: Callable[[], int], patience_ms: int) -> None:
        self.up = Channel(timeline, delay_ms, patience_ms)
        self.down = Channel(timeline, delay_ms, 1 << 60)

    @property
    def is_whole(self) -> bool:
        return not (self.up.is_cut or self.down.is_cut)

    def heal(self) -> None:
        self.up.is_cut = self.down.is_cut = False
