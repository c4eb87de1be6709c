"""A shard's seat in this process: from its assignment to its loss.

    restoring -> claiming -> adopting -> active

Restoring reads the changelog to its end. Claiming commits `meta` alone, which fences the last owner.
Adopting reads reports up to an own echo, granting and expiring nothing, then re-sends every live lease.
A dropped turn goes back to adopting, an unknown outcome to restoring.
"""

from collections.abc import Set as AbstractSet
from enum import Enum, auto

from scheduler.core.inputs import INPUT_OF, RETRIES, Input, Meta, tier_of
from scheduler.core.leases import Leases
from scheduler.core.retry import TIERS
from scheduler.core.shard import Shard
from scheduler.core.timing import Timing
from scheduler.dispatcher.care import Care
from scheduler.dispatcher.deferral import can_wait
from scheduler.dispatcher.ports import Store
from scheduler.dispatcher.waiting_room import WaitingRoom


class Stage(Enum):
    """How far a shard's take-over is."""

    RESTORING = auto()
    CLAIMING = auto()
    ADOPTING = auto()
    ACTIVE = auto()


_READING = (Stage.ADOPTING, Stage.ACTIVE)


class Seat:
    """One shard held by this process."""

    def __init__(self, number: int, timing: Timing, last_echo: int = 0) -> None:
        """Begin to restore; the store is opened by the restorer. `last_echo`: see `Leases`."""
        self.number = number
        self.stage = Stage.RESTORING
        self.leases = Leases(timing, last_echo)
        self.store: Store | None = None
        self._shard: Shard | None = None
        self._meta: Meta | None = None
        self.positions: dict[Input, int] = {}
        self.committed: dict[Input, int] = {}  # positions in the last committed meta
        self.deletable: dict[Input, int] = {}  # committed positions as of the last clean-up
        self.rooms = {source: WaitingRoom(TIERS[tier_of(source)].delay_ms) for source in RETRIES}
        self.at_end: set[Input] = set()  # inputs of which the log has handed over all records
        self.ends: dict[Input, int] = {}  # where those end: behind markers and aborted records too
        self.unread: AbstractSet[Input] = frozenset()  # inputs of which some of those wait for a later turn
        self.adopt_from = 0  # the first echo that ends the adoption
        self.dirty_since_ms: int | None = None  # since when positions are uncommitted
        self.decided_since_ms: int | None = None  # since when decisions are uncommitted
        self.tidy_at_ms = 0
        self.orphans: list[
            bytes
        ] = []  # keys of job records without a state, until the claim has quarantined them

    @property
    def shard(self) -> Shard:
        """The shard's core, once restored."""
        if self._shard is None:
            raise AssertionError(f"shard {self.number} is not restored")
        return self._shard

    @property
    def meta(self) -> Meta:
        """The last committed meta, once restored."""
        if self._meta is None:
            raise AssertionError(f"shard {self.number} is not restored")
        return self._meta

    @property
    def leader_epochs(self) -> dict[Input, int]:
        """The leaders' epochs that go with the committed positions, where they are known."""
        return {INPUT_OF[topic]: epoch for topic, epoch in self.meta.leader_epochs.items()}

    @property
    def reads(self) -> bool:
        """Whether inputs are being read."""
        return self.stage in _READING

    def read_to_end(self, source: Input) -> bool:
        """Say whether every record of an input has been acted upon, or waits in its room."""
        return source in self.at_end and source not in self.unread

    def reached(self, source: Input) -> int:
        """Return the offset below which every record of an input was handed over."""
        position = self.positions[source]
        return max(position, self.ends[source]) if source in self.at_end else position

    def restored(self, shard: Shard, meta: Meta, mono_ms: int) -> None:
        """Take the restored state; positions come from `meta`, the truth at take-over."""
        self._shard = shard
        self._meta = meta
        self.care = Care(meta, mono_ms)
        self.positions = {INPUT_OF[topic]: offset for topic, offset in meta.positions.items()}
        self.committed = dict(self.positions)
        self.deletable = dict(self.positions)
        self.stage = Stage.CLAIMING
        self.clear_rooms()

    def reload(self) -> None:
        """Go back to restoring; renewals that were read stay read."""
        self.stage = Stage.RESTORING
        self._shard = None
        self.at_end.clear()
        self.clear_rooms()
        self.dirty_since_ms = self.decided_since_ms = None

    def dropped(self) -> None:
        """Forget what was decided since the last commit."""
        self.shard.dropped()
        self.decided_since_ms = None

    def moved(self, source: Input, offset: int, mono_ms: int) -> None:
        """Move on in an input."""
        self.positions[source] = offset
        if self.dirty_since_ms is None:
            self.dirty_since_ms = mono_ms

    def back_to(self, source: Input, offset: int) -> None:
        """Go back in an input, to records that nobody has read: the next clean-up has to leave them."""
        self.at_end.discard(source)
        for offsets in (self.positions, self.committed, self.deletable):
            offsets[source] = min(offset, offsets[source])

    def to_commit(self) -> bool:
        """Say whether a transaction made now has something of this shard to carry."""
        if self.stage is Stage.RESTORING:
            return False
        return (
            self.stage is Stage.CLAIMING
            or self.dirty_since_ms is not None
            or self.shard.changes.must_commit()
        )

    def must_commit(self, mono_ms: int, positions_every_ms: int, completions_wait_ms: int) -> bool:
        """Say whether this shard needs a transaction now: for a change, or positions that are long uncommitted.

        Ends of runs alone wait `completions_wait_ms` for other changes, counted from the first.
        """
        if self.stage is Stage.CLAIMING or self._decisions_are_due(mono_ms, completions_wait_ms):
            return True
        return self.dirty_since_ms is not None and mono_ms - self.dirty_since_ms >= positions_every_ms

    def _decisions_are_due(self, mono_ms: int, wait_ms: int) -> bool:
        changes = self.shard.changes
        if not changes.must_commit():
            return False
        if self.decided_since_ms is None:
            self.decided_since_ms = mono_ms
        return mono_ms - self.decided_since_ms >= wait_ms or not can_wait(changes)

    def committed_as(self, meta: Meta) -> None:
        """Take a committed meta."""
        self._meta = meta
        self.care.committed()
        self.committed = dict(self.positions)
        self.dirty_since_ms = self.decided_since_ms = None

    def clear_rooms(self) -> None:
        """Forget the retry records read ahead."""
        for room in self.rooms.values():
            room.clear()
