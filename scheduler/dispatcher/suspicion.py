"""Which input is to blame when turns fail again and again.

A turn that fails (its records are refused by the broker, or deciding crashed) is tried again as it is. When
the same inputs fail twice, records are taken one a turn until the failed stretch is passed; one that fails
alone is condemned, and quarantined when it comes again.
"""

import msgspec

from scheduler.core.inputs import Input
from scheduler.dispatcher.ports import Record

Coordinates = tuple[int, Input, int]

TRIES = 2


class Suspicion(msgspec.Struct):
    """What is suspected after failed turns."""

    failures: int = 0
    solo_left: int = 0  # records still to be taken one a turn
    condemned: set[Coordinates] = msgspec.field(default_factory=set)

    def turn_limit(self, usual: int) -> int:
        """Return how many records the next turn may take."""
        return 1 if self.solo_left else usual

    def failed(self, taken: list[Record]) -> None:
        """Say that a turn over the records `taken` failed by its own doing."""
        if len(taken) == 1 and (self.solo_left or self.failures):
            record = taken[0]
            self.condemned.add((record.shard, record.input, record.offset))
            self.failures = 0
            return
        self.failures += 1
        if self.failures >= TRIES:
            self.failures = 0
            self.solo_left = len(taken)

    def blame(self, record: Record) -> None:
        """Condemn a record that is known to be the culprit."""
        self.condemned.add((record.shard, record.input, record.offset))

    def succeeded(self, taken: int) -> None:
        """Say that a turn over `taken` records committed."""
        self.failures = 0
        self.solo_left = max(0, self.solo_left - taken)

    def is_condemned(self, record: Record) -> bool:
        """Say whether a record is to be quarantined instead of acted upon."""
        return bool(self.condemned) and (record.shard, record.input, record.offset) in self.condemned
