"""How a shard is handled whose owners die one after the other: one input a transaction.

An input that kills the process (a crash in native code, memory) would kill every owner in turn, and no
exception handler ever sees it. So each take-over counts in `meta`; an owner that lives for a while, or leaves
cleanly, resets the count. Progress alone would not do: reports may go on while a submit kills each owner.
From the second short-lived owner on, the shard takes one input a transaction, and writes its coordinates to
`meta` before it tries it. The owner that finds the same coordinates there after three tries quarantines it.
"""

from typing import Final

from scheduler.core.inputs import TOPIC_OF, Meta
from scheduler.dispatcher.ports import Record

CAREFUL_FROM: Final = 2
TRIES: Final = 3
SURVIVED_MS: Final = 30_000


class Care:
    """What one owner knows about take-overs of its shard that came to nothing."""

    def __init__(self, meta: Meta, mono_ms: int) -> None:
        """Count this take-over, at `mono_ms`, too."""
        self.unclean = meta.unclean + 1
        self._safe_at_ms = mono_ms + SURVIVED_MS
        self.coordinates = meta.careful
        self.tries = meta.careful_crashes
        self._announced = False  # the coordinates are in a meta that this owner committed
        self._busy = False  # this turn has had its one input

    @property
    def needed(self) -> bool:
        """Whether inputs are taken one a transaction."""
        return self.unclean >= CAREFUL_FROM

    def begin_turn(self) -> None:
        """Let one more input be taken."""
        self._busy = False

    def may_try(self, record: Record) -> bool:
        """Say whether `record` may be taken now; if not, its coordinates have to be committed first."""
        if self._busy:
            return False
        self._busy = True
        coordinates = f"{TOPIC_OF[record.input]}@{record.offset}"
        if coordinates == self.coordinates and self._announced:
            return True
        self.tries = self.tries + 1 if coordinates == self.coordinates else 1
        self.coordinates = coordinates
        self._announced = False
        return False

    def condemns(self, record: Record) -> bool:
        """Say whether `record` killed enough owners."""
        return self.tries > TRIES and self.coordinates == f"{TOPIC_OF[record.input]}@{record.offset}"

    def survived(self, mono_ms: int) -> bool:
        """Reset the count if this owner has lived long enough; return whether that is news to commit."""
        if not self.unclean or mono_ms < self._safe_at_ms:
            return False
        self.reset()
        return True

    def reset(self) -> None:
        """Forget the owners before: this one lives, or leaves cleanly."""
        self.unclean = 0
        self.coordinates = ""
        self.tries = 0

    def committed(self) -> None:
        """Say that a meta with these counts has committed."""
        self._announced = True
