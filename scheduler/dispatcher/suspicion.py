"""Which input is to blame when turns fail again and again.

A turn whose records the broker refuses is tried again as it is. When an input was in two turns that failed,
it and those beside it are taken one a turn until each has passed; one that fails alone is condemned, and
quarantined when it comes again. If even that record is refused, only where to find it is quarantined.

Inputs are told apart by their coordinates: after a rewind they come back in other company, and a turn of
others that commits in between says nothing about the one at fault.
"""

import msgspec

from scheduler.core.inputs import Input
from scheduler.dispatcher.ports import Record

Coordinates = tuple[int, Input, int]


class Suspicion(msgspec.Struct):
    """What is suspected after failed turns."""

    failed_once: set[Coordinates] = msgspec.field(default_factory=set)
    alone: set[Coordinates] = msgspec.field(
        default_factory=set
    )  # failed again: one a turn while there are any
    condemned: set[Coordinates] = msgspec.field(default_factory=set)
    unfit: set[Coordinates] = msgspec.field(
        default_factory=set
    )  # condemned, and refused as a dead letter too

    def is_idle(self) -> bool:
        """Say whether nothing is suspected."""
        return not (self.failed_once or self.alone or self.condemned)

    def turn_limit(self, usual: int) -> int:
        """Return how many records the next turn may take."""
        return 1 if self.alone else usual

    def failed(self, taken: list[Record]) -> None:
        """Say that a turn over the records `taken` failed by its own doing."""
        found = {_coordinates(record) for record in taken}
        again = found & (self.failed_once | self.alone)
        if not again:
            self.failed_once |= found
        elif len(found) > 1:
            self.alone |= found
        else:
            self.unfit |= found & self.condemned
            self.condemned |= found

    def blame(self, record: Record) -> None:
        """Condemn a record that is known to be the culprit."""
        self.condemned.add(_coordinates(record))

    def passed(self, taken: list[Record]) -> None:
        """Say that a turn over these records committed, or had nothing to commit."""
        if self.failed_once or self.alone or self.condemned:
            found = {_coordinates(record) for record in taken}
            for suspects in (self.failed_once, self.alone, self.condemned, self.unfit):
                suspects -= found

    def forget(self, shard: int) -> None:
        """Forget the inputs of a shard that is gone."""
        for suspects in (self.failed_once, self.alone, self.condemned, self.unfit):
            suspects -= {each for each in suspects if each[0] == shard}

    def is_condemned(self, record: Record) -> bool:
        """Say whether a record is to be quarantined instead of acted upon."""
        return bool(self.condemned) and _coordinates(record) in self.condemned

    def is_unfit(self, record: Record) -> bool:
        """Say whether a condemned record can't be quarantined with its bytes."""
        return bool(self.unfit) and _coordinates(record) in self.unfit


def _coordinates(record: Record) -> Coordinates:
    return record.shard, record.input, record.offset
