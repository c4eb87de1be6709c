"""Inputs whose next record is gone: held, unless an operator gave up what is missing.

Nothing can bring such records back, and to go on without them silently would be the loss that nobody hears of. So the
input stands still and the error says what to start with to go on. Then what is missing is counted and told in the same
transaction that takes the position beyond it.
"""

import logging
from collections.abc import Mapping

import msgspec

from scheduler.core.changes import Changes
from scheduler.core.inputs import INPUT_OF, TOPIC_OF, Input
from scheduler.core.moment import Moment
from scheduler.core.outputs import Lifecycle
from scheduler.dispatcher.ports import Log, PositionLost
from scheduler.dispatcher.reading import Reading
from scheduler.dispatcher.seat import Seat
from scheduler.dispatcher.signals import Signals

_log = logging.getLogger(__name__)

Place = tuple[str, int]
"""A topic without prefix, and a partition."""


class Gap(msgspec.Struct):
    """Records from `wanted` to before `low` that are gone and given up."""

    wanted: int
    low: int
    told_in: Changes | None = None


class Losses:
    """What becomes of lost positions."""

    def __init__(self, log: Log, signals: Signals, accepted: Mapping[Place, int]) -> None:
        """Take from which offset each input goes on, by topic and partition, where an operator said so."""
        self._log = log
        self._signals = signals
        self._accepted = accepted
        self._gaps: dict[tuple[int, Input], Gap] = {}

    def met(self, lost: PositionLost, seats: Mapping[int, Seat]) -> None:
        """Take that an input lost its position: it goes on if that offset was accepted, and is held otherwise."""
        seat = seats.get(lost.partition)
        accepted = self._accepted.get((lost.topic, lost.partition))
        if seat is not None and seat.reads and accepted is not None and lost.wanted < accepted == lost.low:
            source = INPUT_OF[lost.topic]
            self._gaps[seat.number, source] = Gap(lost.wanted, lost.low)
            self._log.follow(seat.number, {source: lost.low})
            return
        advice = f"; --accept-loss {lost.topic}/{lost.partition}@{lost.low} gives up what is missing"
        _log.error("held: %s%s", lost, advice if lost.wanted < lost.low else "")
        self._signals.failed("position_lost")

    def settle(self, seats: Mapping[int, Seat], reading: Reading, moment: Moment) -> None:
        """Take positions beyond what is missing, once all that was read before it has been acted upon."""
        for (number, source), gap in list(self._gaps.items()):
            seat = seats.get(number)
            if seat is None or not seat.reads or seat.committed[source] >= gap.low:
                del self._gaps[number, source]
            elif gap.told_in is not seat.shard.changes and not self._waits(seat, source, gap, reading):
                gap.told_in = seat.shard.changes
                self._pass(seat, source, gap, moment)

    @staticmethod
    def _waits(seat: Seat, source: Input, gap: Gap, reading: Reading) -> bool:
        room = seat.rooms.get(source)
        if room is not None and room.holds_before(gap.low):
            return True
        return any(
            record.shard == seat.number and record.input is source and record.offset < gap.low
            for record in reading.pending
        )

    @staticmethod
    def _pass(seat: Seat, source: Input, gap: Gap, moment: Moment) -> None:
        count, place = gap.low - gap.wanted, f"{TOPIC_OF[source]}/{seat.number}@{gap.wanted}"
        _log.error("%s: up to %d offsets are given up, as accepted", place, count)
        changes = seat.shard.changes
        changes.durable = True
        changes.counts["lost_records", TOPIC_OF[source]] += count
        reason = f"{count} offsets are gone"
        changes.outputs.append(
            Lifecycle(moment.now_ms, "", "", "", "", "records_lost", reason, 0, 0, seat.number, 0, place)
        )
        if seat.positions[source] < gap.low:
            seat.moved(source, gap.low, moment.mono_ms)
