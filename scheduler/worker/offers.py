"""Which slots are offered where.

A slot is busy, or stands in one offer, or is idle until the next look. Plain offers go out in *rounds*: all
records of a round share a sequence, since a dispatcher lets a higher sequence of a boot id replace its older
plain offers, and each goes to another partition, since it knows an offer by sequence and partition. The slot
that a completion frees is offered in that completion under a sequence of its own.

Some slots accept interactive work only. A lease names the sequence it answers, not the record, so when a
round held slots of both kinds the reserved kind is booked first: that can keep too much in reserve until the
round is repeated, never too little.
"""

from collections.abc import Iterator
from math import gcd
from typing import Final

import msgspec

from scheduler.core.murmur2 import murmur2
from scheduler.core.reports import Freed
from scheduler.core.timing import Timing

RESERVED: Final = 0
OPEN: Final = 1
LOWEST_BAND: Final = (0, 2)  # by kind of slot: what it accepts
ROUND_RECORDS: Final = 4
MOVE_EVERY: Final = 8  # every so many freed slots one goes to the next partition in turn
NEVER: Final = 1 << 62


class Placed(msgspec.Struct, frozen=True):
    """One offer record to be sent."""

    partition: int
    sequence: int
    slots: int
    lowest_band: int
    takes_suspect: bool


class Taken(msgspec.Struct, frozen=True):
    """The slot that a lease got, and when the offer that it answers was sent."""

    kind: int
    sent_ms: int


class Standing(msgspec.Struct, eq=False):
    """Slots offered under one sequence and not answered yet, by kind."""

    sequence: int
    sent_ms: int
    plain: bool
    slots: list[int]
    partitions: set[int]
    takes_suspect: bool


class Sent(msgspec.Struct, frozen=True):
    """What is kept of an offer until it can start nothing more: when it went out, and kinds it held."""

    sent_ms: int
    kinds: tuple[int, ...]


class OfferBook:
    """The slots of one worker process."""

    def __init__(self, *, slots: int, reserved: int, shards: int, boot_id: bytes, timing: Timing) -> None:
        """Begin with no slot up: `set_capacity` says how many can run something."""
        self._slots = slots
        self._reserved = reserved
        self._shards = shards
        self._timing = timing
        self._up = [0, 0]
        self._busy = [0, 0]
        self._offered = [0, 0]  # what stands in offers
        self._standing: dict[int, Standing] = {}
        self._round: Standing | None = None
        self._sent: dict[int, Sent] = {}
        self._sequence = 0
        self._freed = 0
        self._closed = False
        self._rested_until_ms = 0
        self._turn = murmur2(boot_id) % shards
        self._stride = _stride(shards)
        self._took_suspects = [0] * shards  # by partition: the number of the last flag that went there
        self._flags = 0

    # -- slots -------------------------------------------------------------------------------------

    def set_capacity(self, capacity: int) -> None:
        """Say that `capacity` slots can run something now; open ones come up before the reserved."""
        open_slots = self._slots - self._reserved
        up = min(open_slots, max(min(1, open_slots), capacity - self._reserved), capacity)
        self._up = [min(self._reserved, capacity - up), up]

    def take(self, sequence: int) -> Taken | None:
        """Book a slot for a lease that answers an offer which `starts` something; None if all are busy.

        A slot of that offer is taken first. If it has moved on to another offer meanwhile, it is free all the
        same; should that one be answered too, the second lease finds no slot.
        """
        sent = self._sent[sequence]
        own = self._standing.get(sequence)
        for kind in sent.kinds:
            if own is not None and own.slots[kind] > 0:
                return self._book(kind, own, sent)
        wider = (*sent.kinds, OPEN) if sent.kinds == (RESERVED,) else sent.kinds
        for kind in wider:
            if self._idle(kind) > 0:
                return self._book(kind, None, sent)
            for other in self._standing.values():
                if other.slots[kind] > 0:
                    return self._book(kind, other, sent)
        return None

    def give_back(self, kind: int) -> None:
        """Say that a booked slot is no longer busy."""
        self._busy[kind] -= 1

    def freed(self, kind: int, partition: int, now_ms: int, *, takes_suspect: bool) -> Freed | None:
        """Offer one idle slot of this kind within a completion to `partition`; None if it goes elsewhere."""
        if self._closed or self._idle(kind) <= 0:
            return None
        self._freed += 1
        if self._freed % MOVE_EVERY == 0:
            return None
        flag = takes_suspect and not self._suspect_offered()
        standing = self._stand(now_ms, plain=False, takes_suspect=flag)
        standing.slots[kind] = 1
        self._offered[kind] += 1
        standing.partitions.add(partition)
        self._sent[standing.sequence] = Sent(now_ms, (kind,))
        return Freed(standing.sequence, LOWEST_BAND[kind], flag)

    # -- offers ------------------------------------------------------------------------------------

    def starts(self, sequence: int, now_ms: int) -> bool:
        """Say whether a lease that answers this offer may still start its job."""
        sent = self._sent.get(sequence)
        return sent is not None and now_ms < sent.sent_ms + self._window_ms()

    def rounds(self, now_ms: int, *, takes_suspect: bool) -> list[Placed]:
        """Offer every idle slot, and again what stood unanswered for too long."""
        self._forget(now_ms)
        if self._closed:
            return []
        self._reclaim(now_ms)
        idle = [max(0, self._idle(RESERVED)), max(0, self._idle(OPEN))]
        if not any(idle):
            return []
        shares = self._shares(idle)
        if self._round is not None and len(self._round.partitions) + len(shares) > self._shards:
            # Another record of this sequence to a partition that has one would be taken for a repetition.
            self._drop_round()
            idle = [max(0, self._idle(RESERVED)), max(0, self._idle(OPEN))]
            shares = self._shares(idle)
        self._rested_until_ms = now_ms + self._timing.offer_repeat_ms
        return self._place(shares, now_ms, takes_suspect=takes_suspect)

    def withdraw(self) -> list[Placed]:
        """Offer nothing any more; return records of no slots that take the place of what stands."""
        partitions = sorted(set[int]().union(*(standing.partitions for standing in self._standing.values())))
        self._standing.clear()
        self._offered = [0, 0]
        self._round = None
        self._closed = True
        if partitions:
            self._sequence += 1
        return [
            Placed(partition, self._sequence, 0, LOWEST_BAND[OPEN], takes_suspect=False)
            for partition in partitions
        ]

    def lost(self, sequence: int) -> None:
        """Say that an offer never reached Kafka: its slots are idle again."""
        standing = self._standing.pop(sequence, None)
        if standing is None:
            return
        for kind, slots in enumerate(standing.slots):
            self._offered[kind] -= slots
        if standing is self._round:
            self._round = None

    @property
    def has_idle(self) -> bool:
        """Whether a slot can be offered at once."""
        return not self._closed and (self._idle(OPEN) > 0 or (self._idle(RESERVED) > 0 and self._shards > 1))

    def next_ms(self) -> int:
        """Return when `rounds` has something to do next."""
        if self._closed:
            return NEVER
        if self.has_idle:
            return 0
        oldest_ms = min((s.sent_ms for s in self._standing.values() if any(s.slots)), default=NEVER)
        if self._idle(RESERVED) > 0:
            return self._rested_until_ms
        return oldest_ms + self._timing.offer_repeat_ms

    # -- inside ------------------------------------------------------------------------------------

    def _window_ms(self) -> int:
        return self._timing.first_ms - self._timing.first_margin_ms

    def _idle(self, kind: int) -> int:
        return self._up[kind] - self._busy[kind] - self._offered[kind]

    def _suspect_offered(self) -> bool:
        return any(standing.takes_suspect for standing in self._standing.values())

    def _book(self, kind: int, standing: Standing | None, sent: Sent) -> Taken:
        self._busy[kind] += 1
        if standing is not None:
            standing.slots[kind] -= 1
            self._offered[kind] -= 1
            if not any(standing.slots):
                self.lost(standing.sequence)
        return Taken(kind, sent.sent_ms)

    def _stand(self, now_ms: int, *, plain: bool, takes_suspect: bool) -> Standing:
        self._sequence += 1
        standing = Standing(self._sequence, now_ms, plain, [0, 0], set(), takes_suspect)
        self._standing[standing.sequence] = standing
        return standing

    def _forget(self, now_ms: int) -> None:
        window_ms = self._window_ms()
        while self._sent:
            sequence = next(iter(self._sent))
            if now_ms < self._sent[sequence].sent_ms + window_ms:
                return
            del self._sent[sequence]

    def _reclaim(self, now_ms: int) -> None:
        stale_before = now_ms - self._timing.offer_repeat_ms
        for standing in [s for s in self._standing.values() if s.sent_ms <= stale_before]:
            self.lost(standing.sequence)

    def _drop_round(self) -> None:
        if self._round is not None:
            self.lost(self._round.sequence)

    def _shares(self, idle: list[int]) -> list[tuple[int, int]]:
        """Split idle slots into (kind, slots) for at most `ROUND_RECORDS` records."""
        total = sum(idle)
        records = min(ROUND_RECORDS, total, self._shards)
        of_reserved = min(idle[RESERVED], max(1, records * idle[RESERVED] // total)) if idle[RESERVED] else 0
        if idle[OPEN] and of_reserved == records:
            # With a single shard the open kind goes first, the reserved one when it is answered.
            of_reserved -= 1
        of_open = min(idle[OPEN], records - of_reserved)
        shares = [(OPEN, n) for n in _even(idle[OPEN], of_open)]
        return shares + [(RESERVED, n) for n in _even(idle[RESERVED], of_reserved)]

    def _place(self, shares: list[tuple[int, int]], now_ms: int, *, takes_suspect: bool) -> list[Placed]:
        flag = takes_suspect and not self._suspect_offered()
        current = self._round
        if current is None:
            current = self._round = self._stand(now_ms, plain=True, takes_suspect=False)
        placed: list[Placed] = []
        for kind, slots in shares:
            partition = self._next_partition(current.partitions)
            current.partitions.add(partition)
            current.slots[kind] += slots
            self._offered[kind] += slots
            placed.append(Placed(partition, current.sequence, slots, LOWEST_BAND[kind], takes_suspect=False))
        if flag:
            self._flag(placed)
            current.takes_suspect = True
        known = self._sent.get(current.sequence)
        kinds = {kind for kind, _ in shares}.union(known.kinds if known else ())
        # Who joins a round later counts from the round's first record: earlier than true, so it is safe.
        self._sent[current.sequence] = Sent(current.sent_ms, tuple(sorted(kinds)))
        return placed

    def _flag(self, placed: list[Placed]) -> None:
        """Let one record take a suspect: that to the partition which had to wait longest for it.

        Always the first record would not do: with so many records a round and so many partitions it can be the same
        few partitions for ever, and the suspects of all the others would wait as long.
        """
        open_ones = [n for n, record in enumerate(placed) if record.lowest_band == placed[0].lowest_band]
        chosen = min(open_ones, key=lambda n: self._took_suspects[placed[n].partition])
        placed[chosen] = msgspec.structs.replace(placed[chosen], takes_suspect=True)
        self._flags += 1
        self._took_suspects[placed[chosen].partition] = self._flags

    def _next_partition(self, used: set[int]) -> int:
        while self._turn in used:
            self._turn = (self._turn + self._stride) % self._shards
        found = self._turn
        self._turn = (self._turn + self._stride) % self._shards
        return found


def _even(slots: int, records: int) -> Iterator[int]:
    for n in range(records):
        yield slots // records + (1 if n < slots % records else 0)


def _stride(shards: int) -> int:
    """Return a step that visits every partition, far from neighbours: ranges of them have one owner."""
    step = max(1, round(shards * 0.618))
    while gcd(step, shards) != 1:
        step += 1
    return step
