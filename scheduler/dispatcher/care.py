"""How a shard is handled whose owners die one after the other: one input a transaction.

An input that kills the process (a crash in native code, memory) would kill every owner in turn, and no
exception handler ever sees it. So each take-over counts in `meta`; an owner that has met the end of each input,
that lives for a while, or that leaves cleanly, resets the count: what killed the owners before was not behind those
ends. They need not be met at one and the same time, which under a steady load would never come. Progress in some
inputs alone would not do: reports may go on while a submit kills each owner. And shards that only move from one
healthy process to another must not count, so what resets it comes within a second or two where nothing is wrong.

From the second short-lived owner on, the shard takes one input a transaction, and writes its coordinates to
`meta` before it tries it. So that no other is blamed, a process tries one at a time over all such shards. The next
owner tries that very input first, since other inputs (its own echo, to begin with) would take its place in `meta`.
The owner that finds the same coordinates there after three tries quarantines it.
"""

from collections.abc import Set as AbstractSet
from typing import Final

import msgspec

from scheduler.core.inputs import TOPIC_OF, Input, Meta
from scheduler.dispatcher.ports import Record

CAREFUL_FROM: Final = 2
TRIES: Final = 3
SURVIVED_MS: Final = 30_000
_SUSPECT_FIRST_MS: Final = 10_000  # the suspect is waited for this long: it may be gone, or held


class Care:
    """What one owner knows about take-overs of its shard that came to nothing."""

    def __init__(self, meta: Meta, mono_ms: int) -> None:
        """Count this take-over, at `mono_ms`, too."""
        self.unclean = meta.unclean + 1
        self._safe_at_ms = mono_ms + SURVIVED_MS
        self.coordinates = meta.careful
        self.tries = meta.careful_crashes
        self._suspect = (
            meta.careful if _is_unread(meta) else ""
        )  # what the last owner was trying when it died
        self._suspect_until_ms = mono_ms + _SUSPECT_FIRST_MS
        self._counted = ""  # the coordinates that this owner has counted a try for
        self._announced = False  # the coordinates are in a meta that this owner committed
        self._met_ends: set[Input] = set()

    @property
    def needed(self) -> bool:
        """Whether inputs are taken one a transaction."""
        return self.unclean >= CAREFUL_FROM

    @property
    def must_announce(self) -> bool:
        """Whether coordinates have to be committed before their record may be tried."""
        return bool(self._counted) and not self._announced

    def may_try(self, record: Record, mono_ms: int) -> bool:
        """Say whether `record` may be taken now; if not, it waits for a later turn (see `must_announce`)."""
        coordinates = _coordinates(record)
        if self._suspect and coordinates != self._suspect:
            if mono_ms < self._suspect_until_ms:
                return False
            self._suspect = ""
        if coordinates != self._counted:
            self.tries = self.tries + 1 if coordinates == self.coordinates else 1
            self.coordinates = self._counted = coordinates
            self._announced = False
        if not self._announced:
            return False
        self._suspect = ""
        return True

    def condemns(self, record: Record) -> bool:
        """Say whether `record` killed enough owners."""
        return self.tries > TRIES and self.coordinates == _coordinates(record)

    def saw_ends(self, sources: AbstractSet[Input]) -> None:
        """Say that everything there was to read in these inputs has been acted upon, so none of it kills."""
        self._met_ends |= sources

    def survived(self, mono_ms: int, inputs: AbstractSet[Input]) -> bool:
        """Reset the count if this owner did well at all its `inputs`; return whether that is news to commit."""
        if not self.unclean or not (inputs <= self._met_ends or mono_ms >= self._safe_at_ms):
            return False
        self.reset()
        return True

    def reset(self) -> None:
        """Forget the owners before: this one lives, or leaves cleanly."""
        self.unclean = 0
        self.coordinates = self._counted = self._suspect = ""
        self.tries = 0

    def committed(self) -> None:
        """Say that a meta with these counts has committed."""
        self._announced = True


def _coordinates(record: Record) -> str:
    return f"{TOPIC_OF[record.input]}@{record.offset}"


def _is_unread(meta: Meta) -> bool:
    topic, _, offset = meta.careful.partition("@")
    return bool(offset) and int(offset) >= meta.positions.get(topic, 0)


def handed_over(meta: Meta) -> Meta:
    """Return the meta of an owner that lives on: nothing is suspected."""
    return msgspec.structs.replace(meta, unclean=0, careful="", careful_crashes=0)
