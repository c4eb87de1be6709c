"""The leaders' epochs of what was read of an input: by them a log that was truncated tells itself (KIP-320).

A position without an epoch says nothing once the log has grown past it again: other records lie there then.
"""

from typing import Final

UNKNOWN: Final = -1
"""In place of an epoch."""

_KEPT: Final = 8
"""So many changes are kept: positions lag behind what was read by a turn or two, and elections are rare."""


class Epochs:
    """Under which epoch the record before an offset was appended.

    Asked of the client now and then only, for the last record read by then: what lies between two such records counts
    as of the later one's epoch. That may name a later leader than the one that appended it, never one whose log did
    not hold it; so no log that kept everything is taken for a truncated one.
    """

    __slots__ = ("_known", "_up_to")

    def __init__(self, offset: int, epoch: int) -> None:
        """Begin at `offset`, with `epoch` before it."""
        self._known = [(offset, epoch)]  # from which offset on, and the epoch; ascending
        self._up_to = offset

    def read(self, offset: int, epoch: int | None) -> None:
        """Take that the record at `offset` has `epoch`; None from a broker that tells none."""
        after = offset + 1
        if after <= self._up_to:
            return
        epoch = UNKNOWN if epoch is None else epoch
        if epoch != self._known[-1][1]:
            self._known.append((self._up_to + 1, epoch))
            del self._known[:-_KEPT]
        self._up_to = after

    def before(self, offset: int) -> int:
        """Return the epoch of what lies just before `offset`, or `UNKNOWN`."""
        if offset > self._up_to:
            return UNKNOWN  # markers of a later leader may lie between
        for since, epoch in reversed(self._known):
            if since <= offset:
                return epoch
        return UNKNOWN
