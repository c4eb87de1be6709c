"""Retry records read ahead: each waits here until its tier's delay after its append time is over.

The input's position moves only when a record is handed on, so the lag of a retry topic is the number of
jobs waiting in it. One room per tier and shard; every record waits equally long, so order is due order.
"""

from collections import deque
from typing import Final

from scheduler.dispatcher.ports import Record

READ_AHEAD: Final = 500
READ_AHEAD_BYTES: Final = (
    1 << 20
)  # twice as many as that many retry records have; what is no such record may be large


class WaitingRoom:
    """The records of one retry input that are not due yet."""

    __slots__ = ("_bytes", "_delay_ms", "_records", "paused")

    def __init__(self, delay_ms: int) -> None:
        """Begin empty; records wait `delay_ms` from their append time."""
        self._delay_ms = delay_ms
        self._records: deque[Record] = deque()
        self._bytes = 0
        self.paused = False

    def __len__(self) -> int:
        """Return how many records wait."""
        return len(self._records)

    def add(self, record: Record) -> None:
        """Let a record wait."""
        self._records.append(record)
        self._bytes += _size(record)

    def full(self) -> bool:
        """Say whether reading should pause."""
        return len(self._records) >= READ_AHEAD or self._bytes >= READ_AHEAD_BYTES

    def low(self) -> bool:
        """Say whether reading may go on."""
        return len(self._records) < READ_AHEAD // 2 and self._bytes < READ_AHEAD_BYTES // 2

    def next_offset(self, position: int) -> int:
        """Return where reading goes on: behind the last record here, or at the input's `position`."""
        return self._records[-1].offset + 1 if self._records else position

    def holds_before(self, offset: int) -> bool:
        """Say whether a record before `offset` waits."""
        return bool(self._records) and self._records[0].offset < offset

    def due(self, now_ms: int) -> Record | None:
        """Take the next record whose time has come."""
        if not self.has_due(now_ms):
            return None
        record = self._records.popleft()
        self._bytes -= _size(record)
        return record

    def has_due(self, now_ms: int) -> bool:
        """Say whether the time of the next record has come."""
        return bool(self._records) and self._records[0].at_ms + self._delay_ms <= now_ms

    def clear(self) -> None:
        """Forget everything; it will be read again."""
        self._records.clear()
        self._bytes = 0
        self.paused = False


def _size(record: Record) -> int:
    return len(record.key or b"") + len(record.value or b"")
