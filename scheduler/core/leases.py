"""The live leases of one shard: when each was last renewed, and which may have expired.

Nothing here reads a wall clock. A lease that looks due only asks for an *echo*: a record that the owner
appends to the shard's own `reports` partition. When an echo that was produced at least a whole period after
the last renewal *was read* comes back, everything appended before it has been read, so no renewal is under
way unseen, and the lease has expired (docs/DESIGN.md, section 7).

The table survives a dropped turn, since renewals that were read stay read; losing the shard clears it.
"""

from collections.abc import Iterator
from heapq import heappop, heappush

import msgspec

from scheduler.core.fair import Node
from scheduler.core.timing import Timing


class Renewal(msgspec.Struct, eq=False):
    """What is known of one live lease. Times are monotonic milliseconds of this process."""

    job_id: str
    epoch: int
    lease_ms: int
    timeout_ms: int
    granted_at_ms: int
    read_at_ms: int  # when the last renewal was read, or the grant made
    period_ms: int  # F until the first renewal is read, then L
    payer: Node | None = None  # who was charged for it
    charged_ms: float = 0.0
    fraction: float = -1.0
    note: str = ""


class Leases:
    """The renewal table of a shard, its due times, and its echoes."""

    def __init__(self, timing: Timing, last_echo: int = 0) -> None:
        """Begin with no lease; `last_echo` is the last one this process sent to the shard, when it held it before.

        Echoes are never numbered alike: one that comes late, from before the shard was lost and regained,
        would otherwise pass for the one just sent, and the reports between the two would not have been read.
        """
        self._timing = timing
        self._table: dict[str, Renewal] = {}
        self._due: list[tuple[int, str, int]] = []
        self._echoes: dict[int, int] = {}
        self._sequence = last_echo
        self._echoed_at_ms: int | None = None

    def __len__(self) -> int:
        """Return how many leases live."""
        return len(self._table)

    def __iter__(self) -> Iterator[Renewal]:
        """Go through all entries."""
        return iter(self._table.values())

    def get(self, job_id: str, epoch: int) -> Renewal | None:
        """Return the entry of a lease."""
        entry = self._table.get(job_id)
        return entry if entry is not None and entry.epoch == epoch else None

    def granted(self, entry: Renewal) -> None:
        """Enter a grant; it overwrites what an earlier epoch of the job left."""
        self._table[entry.job_id] = entry
        self._watch(entry)

    def adopted(self, entry: Renewal) -> None:
        """Give a lease that another owner granted a whole fresh period, unless it has an entry already."""
        if self.get(entry.job_id, entry.epoch) is None:
            self.granted(entry)

    def renewed(self, entry: Renewal, mono_ms: int) -> None:
        """Count a renewal that was read just now."""
        entry.read_at_ms = mono_ms
        entry.period_ms = entry.lease_ms

    def ended(self, job_id: str) -> Renewal | None:
        """Forget a lease and return its entry."""
        return self._table.pop(job_id, None)

    def keep_only(self, live: set[tuple[str, int]]) -> None:
        """Forget entries of leases that are not live: those granted in a turn that came to nothing."""
        for entry in [entry for entry in self._table.values() if (entry.job_id, entry.epoch) not in live]:
            del self._table[entry.job_id]

    def clear(self) -> None:
        """Forget everything: the shard went to another owner."""
        self._table.clear()
        self._due.clear()
        self._echoes.clear()
        self._echoed_at_ms = None

    def looks_due(self, mono_ms: int) -> bool:
        """Say whether some lease may have expired, so that an echo is worth sending."""
        while self._due and self._due[0][0] <= mono_ms:
            _, job_id, epoch = self._due[0]
            entry = self.get(job_id, epoch)
            if entry is not None and self._check_at(entry) <= mono_ms:
                return True
            heappop(self._due)
            if entry is not None:
                self._watch(entry)
        return False

    def timeouts(self, mono_ms: int) -> list[Renewal]:
        """Return the leases that are over the dispatcher's own time-out, which comes after the worker's."""
        return [entry for entry in self._table.values() if mono_ms >= self._times_out_at(entry)]

    def next_echo(self, mono_ms: int) -> int | None:
        """Return the sequence of an echo to send now, None while the last one is too young."""
        last = self._echoed_at_ms
        if last is not None and mono_ms - last < self._timing.echo_every_ms:
            return None
        self._sequence += 1
        self._echoed_at_ms = mono_ms
        self._echoes[self._sequence] = mono_ms
        return self._sequence

    @property
    def last_echo(self) -> int:
        """The sequence of the last echo sent."""
        return self._sequence

    def hurry_echo(self) -> None:
        """Let the next echo go at once."""
        self._echoed_at_ms = None

    def echo_read(self, sequence: int) -> int | None:
        """Take an own echo that came back; return when it was produced, None for an unknown one."""
        produced_at_ms = self._echoes.pop(sequence, None)
        for older in [known for known in self._echoes if known < sequence]:
            del self._echoes[older]
        return produced_at_ms

    def expired(self, echo_produced_at_ms: int) -> list[Renewal]:
        """Return the leases that have expired, given an own echo that was read back."""
        return [
            entry
            for entry in self._table.values()
            if echo_produced_at_ms - entry.read_at_ms >= entry.period_ms
        ]

    def _times_out_at(self, entry: Renewal) -> int:
        return entry.granted_at_ms + entry.timeout_ms + self._timing.timeout_grace_ms

    def _check_at(self, entry: Renewal) -> int:
        return entry.read_at_ms + entry.period_ms

    def _watch(self, entry: Renewal) -> None:
        heappush(self._due, (self._check_at(entry), entry.job_id, entry.epoch))
