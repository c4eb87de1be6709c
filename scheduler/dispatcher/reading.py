"""The inputs of a turn: which records it takes, and where to go back to if it fails.

What a turn decided may wait to be committed by a later one, so both are kept until then.
"""

import logging
from collections import Counter, deque
from collections.abc import Set as AbstractSet
from itertools import islice

import msgspec

from scheduler.codec.errors import RegistryUnavailable
from scheduler.core import bounds
from scheduler.core.inputs import RETRIES, SUBMITS, Input
from scheduler.core.moment import Moment
from scheduler.core.outputs import Refusal
from scheduler.dispatcher.adopting import Adopting
from scheduler.dispatcher.config import Config
from scheduler.dispatcher.engine_clock import EngineClock
from scheduler.dispatcher.intake import Intake, quarantine
from scheduler.dispatcher.ports import Log, Polled, Record
from scheduler.dispatcher.seat import Seat
from scheduler.dispatcher.suspicion import Suspicion

_log = logging.getLogger(__name__)

_LOOK_AT_CLOCK_EVERY = 64
_HOLD_MS = 5_000  # how long an input waits before the registry is asked again
_GATHERED = 64  # reports end a rest, however short it was
_CAREFUL_AHEAD = 16  # records of an input that wait here while their shard takes one a transaction


class InputCrashed(Exception):
    """Deciding raised something unexpected at one record: a bug of ours, met by quarantine."""

    def __init__(self, record: Record) -> None:
        """Remember the record."""
        super().__init__(f"shard {record.shard}, {record.input.name.lower()}@{record.offset}")
        self.record = record


class Reading:
    """Records read but not yet taken; those taken since the last commit, and the first offset of each input."""

    def __init__(
        self,
        config: Config,
        log: Log,
        clock: EngineClock,
        intake: Intake,
        suspicion: Suspicion,
        adopting: Adopting,
    ) -> None:
        """Begin with nothing read."""
        self._config = config
        self._log = log
        self._clock = clock
        self._intake = intake
        self._suspicion = suspicion
        self._adopting = adopting
        self._first: dict[tuple[int, Input], int] = {}
        # Inputs that wait, and until when: for the registry, or for a careful shard to take what it has.
        self._held: dict[tuple[int, Input], int] = {}
        self._trying: tuple[int, Input, int] | None = None  # the one input that careful shards try
        self._turns = 0
        self._gathered = 0  # so many of those pending only wait for more
        self.pending: deque[Record] = deque()
        self.taken: list[Record] = []

    def begin(self, seats: dict[int, Seat], polled: Polled) -> None:
        """Take in what a poll returned."""
        self.pending.extend(polled.records)
        for number, source in {(record.shard, record.input) for record in polled.records}:
            if number in seats:
                seats[number].at_end.discard(source)
        if self._trying is not None and self._is_over(seats, *self._trying):
            self._trying = None
        for number, source, offset in polled.ended:
            seat = seats.get(number)
            if seat is not None:
                seat.at_end.add(source)
                seat.ends[source] = offset

    @property
    def has_left_over(self) -> bool:
        """Whether records wait because a turn could not take them."""
        return len(self.pending) > self._gathered

    def gathers(self, seats: dict[int, Seat], polled: Polled) -> bool:
        """Let a few reports wait for more; say whether a poll brought nothing else.

        They are the offers and beats of workers, and what runs came to: thousands a second, and a turn costs more than
        ten of them.
        """
        if polled.gained or polled.lost or polled.ends or len(self.pending) + len(polled.records) > _GATHERED:
            return False
        if any(record.input is not Input.REPORTS for record in polled.records):
            return False
        self.begin(seats, polled)
        self._gathered = len(self.pending)
        return True

    def take(self, seats: dict[int, Seat], moment: Moment) -> None:
        """Act on pending records, within the turn's budgets."""
        if self._held:
            self._let_go(seats, moment.mono_ms)
        limit = self._suspicion.turn_limit(self._config.turn_records)
        deadline_ms = moment.mono_ms + self._config.turn_decide_ms
        self._gathered = 0
        pending = self.pending
        later: list[Record] = []
        try:
            while pending and len(self.taken) < limit:
                record = pending.popleft()
                seat = seats.get(record.shard)
                if seat is None or not seat.reads:
                    continue
                if record.input in _RETRIES:
                    self._wait(seat, record)
                elif record.offset >= seat.positions[record.input]:
                    if seat.care.needed and not self._may_try(seat, moment, record):
                        later.append(record)
                        continue
                    self._act(seat, moment, record)
                if not len(self.taken) % _LOOK_AT_CLOCK_EVERY and self._clock.mono_ms() > deadline_ms:
                    break
        except BaseException:
            pending.extendleft(reversed(later))  # the rewind has to know of them
            raise
        if later:
            self._put_back(seats, later)

    def full(self) -> bool:
        """Say whether the records taken since the last commit are as many, or as large, as one turn may take."""
        if len(self.taken) >= self._config.turn_records:
            return True
        return sum(len(record.value or b"") for record in self.taken) >= self._config.turn_bytes

    def settled(self) -> None:
        """Say that nothing taken so far will have to be read again: it has committed, or decided nothing."""
        self._first.clear()
        self.taken.clear()

    def rewind(self, seats: dict[int, Seat]) -> None:
        """Go back to the first offsets since the last commit; what was settled stays read."""
        for record in self.pending:
            seat = seats.get(record.shard)
            if seat is None or not seat.reads:
                continue
            room = seat.rooms.get(record.input)
            if room is None:
                offset = max(record.offset, seat.positions[record.input])
            else:
                offset = room.next_offset(record.offset)
            self._first.setdefault((record.shard, record.input), offset)
        self.pending.clear()
        back: dict[tuple[int, Input], int] = {}
        for (number, source), offset in self._first.items():
            seat = seats.get(number)
            if seat is None or not seat.reads:
                continue
            self._rewind_input(seat, source, offset, back)
        self.settled()
        if back:
            self._log.rewind(back)

    def _rewind_input(
        self, seat: Seat, source: Input, offset: int, back: dict[tuple[int, Input], int]
    ) -> None:
        seat.at_end.discard(source)
        if source in _SUBMITS:
            seat.shard.read_up_to_ms[source] = 0
        elif source is Input.COMMANDS:
            seat.shard.unhear()
        room = seat.rooms.get(source)
        if room is None and self._held.pop((seat.number, source), None) is not None:
            seat.positions[source] = offset
            self._log.resume(seat.number, source, offset)
            return
        if room is None:
            seat.positions[source] = offset
            back[seat.number, source] = offset
            return
        seat.positions[source] = min(offset, seat.positions[source])
        paused = room.paused
        room.clear()
        if paused:
            self._log.resume(seat.number, source, seat.positions[source])
        else:
            back[seat.number, source] = seat.positions[source]

    def forget(self, number: int) -> None:
        """Forget what was read of a shard that is gone."""
        self.pending = deque(record for record in self.pending if record.shard != number)
        self.taken = [record for record in self.taken if record.shard != number]
        self._first = {key: offset for key, offset in self._first.items() if key[0] != number}
        self._held = {key: until_ms for key, until_ms in self._held.items() if key[0] != number}

    def clear(self) -> None:
        """Forget everything that was read."""
        self.pending.clear()
        self._held.clear()
        self.settled()

    def _may_try(self, seat: Seat, moment: Moment, record: Record) -> bool:
        trial = (seat.number, record.input, record.offset)
        if self._trying is not None and self._trying != trial:
            return False
        may_try = seat.care.may_try(record, moment.mono_ms)
        if may_try or seat.care.must_announce:
            self._trying = trial
            seat.shard.changes.durable = True
        return may_try

    @staticmethod
    def _is_over(seats: dict[int, Seat], number: int, source: Input, offset: int) -> bool:
        seat = seats.get(number)
        return seat is None or not seat.reads or not seat.care.needed or seat.positions[source] > offset

    def _put_back(self, seats: dict[int, Seat], later: list[Record]) -> None:
        """Let records of careful shards wait: a few of each input here, the rest where they are."""
        counts: Counter[tuple[int, Input]] = Counter()
        kept: list[Record] = []
        full: set[tuple[int, Input]] = set()
        for record in later:
            key = (record.shard, record.input)
            counts[key] += 1
            if counts[key] <= _CAREFUL_AHEAD:
                kept.append(record)
            else:
                full.add(key)
        if full:
            self._drop_pending(full)
            for key in full - self._held.keys():
                self._held[key] = 0
                self._log.pause(*key)
                seats[key[0]].at_end.discard(key[1])
        self.pending.extendleft(reversed(kept))

    def _drop_pending(self, inputs: AbstractSet[tuple[int, Input]]) -> None:
        """Drop what waits of these inputs, which are read again later."""
        kept = [record for record in self.pending if (record.shard, record.input) not in inputs]
        self.pending.clear()  # in place: it may be walked through
        self.pending.extend(kept)

    def _act(self, seat: Seat, moment: Moment, record: Record) -> None:
        source = record.input
        self._first.setdefault((seat.number, source), record.offset)
        self.taken.append(record)
        shard = seat.shard
        if (self._suspicion.condemned or seat.care.needed) and self._is_condemned(seat, record):
            self._quarantine(seat, record)
        else:
            try:
                echo = self._intake.take(shard, moment, record)
            except RegistryUnavailable as error:
                self._hold(seat, moment, record, error)
                return
            except Exception as error:
                raise InputCrashed(record) from error
            if echo is not None:
                self._adopting.echo_read(seat, moment, echo, record)
        seat.moved(source, record.offset + 1, moment.mono_ms)
        if source in _SUBMITS:
            shard.read_up_to_ms[source] = record.at_ms

    def _is_condemned(self, seat: Seat, record: Record) -> bool:
        if self._suspicion.is_condemned(record):
            return True
        return seat.care.needed and seat.care.condemns(record)

    def _hold(self, seat: Seat, moment: Moment, record: Record, why: RegistryUnavailable) -> None:
        """Read nothing more of an input for a while: nothing is wrong with its records, so none is refused."""
        key = (seat.number, record.input)
        _log.warning(
            "shard %d, %s held at %d: %s", seat.number, record.input.name.lower(), record.offset, why
        )
        self.taken.pop()
        self._trying = None
        self._held[key] = moment.mono_ms + _HOLD_MS
        self._log.pause(*key)
        seat.at_end.discard(record.input)
        self._drop_pending({key})

    def _let_go(self, seats: dict[int, Seat], mono_ms: int) -> None:
        waiting = {(record.shard, record.input) for record in self.pending}
        over = {key for key, until_ms in self._held.items() if until_ms <= mono_ms}
        for key in over - waiting:
            del self._held[key]
            seat = seats.get(key[0])
            if seat is not None and seat.reads:
                self._log.resume(*key, seat.positions[key[1]])

    def _wait(self, seat: Seat, record: Record) -> None:
        room = seat.rooms[record.input]
        if record.offset < room.next_offset(seat.positions[record.input]):
            return
        room.add(record)
        if room.full() and not room.paused:
            room.paused = True
            seat.at_end.discard(record.input)
            self._log.pause(seat.number, record.input)
            self._drop_pending(
                {(seat.number, record.input)}
            )  # the rest is read again from behind the room's last

    def take_due_retries(self, seats: dict[int, Seat], moment: Moment) -> None:
        """Act on retries whose time has come, once the broker's is known: a wall clock that runs ahead hands nothing on."""
        if not self._clock.known:
            return
        limit = self._suspicion.turn_limit(self._config.turn_records)
        # A part of each turn is theirs, however much the other inputs hold; and another shard is first each turn.
        most = max(limit, len(self.taken) + limit // bounds.BULK_SHARE)
        self._turns += 1
        first = self._turns % len(seats) if seats else 0
        for seat in (*islice(seats.values(), first, None), *islice(seats.values(), first)):
            if not seat.reads:
                continue
            for source, room in seat.rooms.items():
                while len(self.taken) < most and (record := room.due(moment.now_ms)) is not None:
                    self._retry(seat, moment, record)
                if room.paused and room.low():
                    room.paused = False
                    self._log.resume(seat.number, source, room.next_offset(seat.positions[source]))

    def _retry(self, seat: Seat, moment: Moment, record: Record) -> None:
        self._first.setdefault((seat.number, record.input), record.offset)
        self.taken.append(record)
        if self._suspicion.is_condemned(record):
            self._quarantine(seat, record)
        else:
            try:
                self._intake.retry(seat.shard, moment, record)
            except Exception as error:
                raise InputCrashed(record) from error
        seat.moved(record.input, record.offset + 1, moment.mono_ms)

    def _quarantine(self, seat: Seat, record: Record) -> None:
        detail = ""
        topic = self._intake.topic(record)
        if self._suspicion.is_unfit(record):
            detail = (
                "its bytes were refused as a dead letter; they stay where they are until that is cleaned up"
            )
            record = msgspec.structs.replace(record, key=None, value=None)
        quarantine(seat.shard, record, topic, Refusal.CRASHED_DISPATCHER, detail)

    def note_unread(self, seats: dict[int, Seat]) -> None:
        """Note which inputs have records that wait for a later turn, and of which all were acted upon."""
        unread = {(record.shard, record.input) for record in self.pending}
        for seat in seats.values():
            if seat.reads:
                seat.unread = (
                    {source for number, source in unread if number == seat.number} if unread else _NONE
                )
                if seat.care.unclean:
                    seat.care.saw_ends(seat.at_end - seat.unread)


_RETRIES = frozenset(RETRIES)
_SUBMITS = frozenset(SUBMITS)
_NONE: frozenset[Input] = frozenset()
