"""The head of an ordered on-disk index: its smallest keys in memory, the rest where it is.

Memory stays bounded whatever the index holds (jobs for next month, a flood of ready ones), and scans go on
from a remembered cursor, so deleted keys at the front are never stepped over again.

`horizon` is the line: every index key at or below it is in the heap, keys above it are on disk only. Keys
pushed during a turn reach the disk when the turn is applied; until then those above the horizon are kept
aside in `_fresh`, so that a refill in the same turn can't move the horizon past them unseen.

Keys are hints: a job may have left the index since. Whoever takes one checks it against the job's state.
"""

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush, nsmallest
from typing import Final

Scan = Callable[[bytes, bytes, int], Sequence[tuple[bytes, bytes]]]

REFILL: Final = 256
SPILL_ABOVE: Final = 2_048


class Head:
    """The head of the index keys in [start, stop)."""

    __slots__ = ("_fresh", "_heap", "_horizon", "_scan", "_start", "_stop")

    def __init__(self, start: bytes, stop: bytes, scan: Scan, *, on_disk: bool) -> None:
        """Begin with nothing in memory; `on_disk` says whether the index may hold keys already."""
        self._start = start
        self._stop = stop
        self._scan = scan
        self._heap: list[bytes] = []
        self._fresh: list[bytes] = []
        self._horizon: bytes | None = start if on_disk else None

    def push(self, key: bytes) -> None:
        """Add a key that the store holds, or will once this turn is applied."""
        if self._horizon is not None and key > self._horizon:
            self._fresh.append(key)
            return
        heappush(self._heap, key)

    def peek(self) -> bytes | None:
        """Return the smallest key, None if there is none."""
        while not self._heap and self._horizon is not None:
            self._refill(self._horizon)
        return self._heap[0] if self._heap else None

    def pop(self) -> None:
        """Take the smallest key away."""
        heappop(self._heap)

    def applied(self) -> None:
        """Say that the store now holds every key pushed so far."""
        self._fresh.clear()
        if len(self._heap) > SPILL_ABOVE:
            # Only now: a key let go before the store holds it would be nowhere for the rest of the turn.
            self._heap = nsmallest(REFILL, self._heap)
            self._horizon = self._heap[-1]

    def reset(self) -> None:
        """Forget everything; the store tells it again."""
        self._heap.clear()
        self._fresh.clear()
        self._horizon = self._start

    def _refill(self, horizon: bytes) -> None:
        found = self._scan(horizon + b"\0", self._stop, REFILL)
        self._heap.extend(key for key, _ in found)
        self._horizon = found[-1][0] if len(found) == REFILL else None
        if self._fresh:
            self._take_fresh()
        heapify(self._heap)

    def _take_fresh(self) -> None:
        line = self._horizon
        self._heap.extend(key for key in self._fresh if line is None or key <= line)
        self._fresh = [key for key in self._fresh if line is not None and key > line]
