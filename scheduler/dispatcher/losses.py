"""Inputs whose next record is gone: held, unless an operator gave up what is missing.

Nothing can bring such records back, and to go on without them silently would be the loss that nobody hears of. So the
input stands still and the error says what to start with to go on. Then what is missing is counted and told in the same
transaction that takes the position beyond it; or back, where the log lost its end and has others there by now.
"""

import logging
from collections.abc import Mapping

import msgspec

from scheduler.core.changes import Changes
from scheduler.core.inputs import INPUT_OF, TOPIC_OF, Input, Meta
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
    """Records from `start` to before `end` that are gone and given up: never read, or read before the log lost them."""

    start: int
    end: int
    was_read: bool = False
    told_in: Changes | None = None
    told_after: Meta | None = None  # the meta that was committed last when it was told


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
        if seat is not None and seat.reads and accepted is not None:
            gap = _given_up(seat, INPUT_OF[lost.topic], lost, accepted)
            if gap is not None:
                self._go_on(seat, INPUT_OF[lost.topic], gap)
                return
        goes_on = lost.low if lost.wanted < lost.low else lost.cut
        advice = f"; --accept-loss {lost.topic}/{lost.partition}@{goes_on} gives up what is missing"
        _log.error("held: %s%s", lost, advice if goes_on >= 0 else "")
        self._signals.failed("position_lost")

    def _go_on(self, seat: Seat, source: Input, gap: Gap) -> None:
        self._gaps[seat.number, source] = gap
        if gap.was_read:
            seat.back_to(source, gap.start)
        self._log.follow(seat.number, {source: gap.start if gap.was_read else gap.end})

    def settle(self, seats: Mapping[int, Seat], reading: Reading, moment: Moment) -> None:
        """Take positions beyond what is missing, once all that was read before it has been acted upon."""
        for (number, source), gap in list(self._gaps.items()):
            seat = seats.get(number)
            if seat is None or not seat.reads or _is_told(seat, gap):
                del self._gaps[number, source]
            elif gap.told_in is not seat.shard.changes and not self._waits(seat, source, gap, reading):
                gap.told_in, gap.told_after = seat.shard.changes, seat.meta
                self._pass(seat, source, gap, moment)

    @staticmethod
    def _waits(seat: Seat, source: Input, gap: Gap, reading: Reading) -> bool:
        if gap.was_read:
            return False
        room = seat.rooms.get(source)
        if room is not None and room.holds_before(gap.end):
            return True
        return any(
            record.shard == seat.number and record.input is source and record.offset < gap.end
            for record in reading.pending
        )

    @staticmethod
    def _pass(seat: Seat, source: Input, gap: Gap, moment: Moment) -> None:
        count, place = gap.end - gap.start, f"{TOPIC_OF[source]}/{seat.number}@{gap.start}"
        _log.error("%s: up to %d offsets are given up, as accepted", place, count)
        changes = seat.shard.changes
        changes.durable = True
        changes.counts["lost_records", TOPIC_OF[source]] += count
        reason = f"{count} offsets are gone"
        changes.outputs.append(
            Lifecycle(moment.now_ms, "", "", "", "", "records_lost", reason, 0, 0, seat.number, 0, place)
        )
        if not gap.was_read and seat.positions[source] < gap.end:
            seat.moved(source, gap.end, moment.mono_ms)


def _is_told(seat: Seat, gap: Gap) -> bool:
    """Say whether something was committed since the gap was told: a turn that is dropped leaves the last meta as it was."""
    return gap.told_after is not None and gap.told_after is not seat.meta


def _given_up(seat: Seat, source: Input, lost: PositionLost, accepted: int) -> Gap | None:
    """Return what is given up, if `accepted` is where the log begins behind what is missing, or where it was cut.

    There it goes on only with nothing in hand of what was read from there on: after a restart, not in the midst of it.
    """
    if lost.wanted < accepted == lost.low:
        return Gap(lost.wanted, lost.low)
    if 0 <= accepted == lost.cut < lost.wanted == seat.positions[source]:
        return Gap(lost.cut, lost.wanted, was_read=True)
    return None
