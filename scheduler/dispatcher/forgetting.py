"""What lets shards forget ended jobs: how far the submits held here have been acted upon, found out and told to all.

An ended job may be forgotten once every repeat of its submit that can still matter has met it. Such a repeat may lie
unread in a partition whose leader is away, behind somebody's open transaction, or in the partition of any other
shard, if its client has another partitioner. So a time up to which an input was acted upon needs a proof: a record
from then, or the leader's own word that there was nothing more. And every shard is told by all others, in its
`commands`, behind whatever they have forwarded to it.
"""

import logging
from typing import Final

from scheduler.core.inputs import SUBMITS, Input
from scheduler.core.moment import Moment
from scheduler.core.outputs import SubmitsRead, SubmitsReadOut
from scheduler.dispatcher.config import Config
from scheduler.dispatcher.engine_clock import AHEAD_MAX_MS, EngineClock
from scheduler.dispatcher.ports import Log, Polled
from scheduler.dispatcher.seat import Seat

_log = logging.getLogger(__name__)

_PATIENCE_MS: Final = 8_000  # so long is waited for inputs that are not at the end asked for
_ALARM_ROUNDS: Final = 10  # in a row that some shard here was not told of all others


class Forgetting:
    """One round after the other: ask the leaders for the ends, wait until they are reached, tell every shard."""

    def __init__(self, config: Config, log: Log, clock: EngineClock) -> None:
        """Begin with the first round due one period from the first turn."""
        self._config = config
        self._log = log
        self._clock = clock
        self._next_ms: int | None = None  # monotonic, of the next question
        self._asked_ms = 0  # monotonic, of the last one
        self._as_of_ms = 0  # in append times, of the last one
        self._ends: dict[tuple[int, Input], int] = {}  # not reached yet
        self._to_tell = False
        self._late_rounds = 0

    def heed(self, polled: Polled) -> None:
        """Take the leaders' answers to the last question."""
        self._ends |= polled.ends

    def note(self, seats: dict[int, Seat]) -> None:
        """Take note of the inputs that are acted upon up to the end that their leader gave."""
        for (number, source), end in list(self._ends.items()):
            seat = seats.get(number)
            if seat is None or not seat.reads:
                del self._ends[number, source]
            elif source not in seat.unread and seat.reached(source) >= end:
                del self._ends[number, source]
                read_up_to_ms = seat.shard.read_up_to_ms
                read_up_to_ms[source] = max(read_up_to_ms[source], self._as_of_ms)

    def ask(self, seats: dict[int, Seat], moment: Moment) -> None:
        """Begin the next round when it is time: ask for the ends of all submits that are read here."""
        if self._next_ms is None:
            self._next_ms = moment.mono_ms + self._config.forget_every_ms
        if moment.mono_ms < self._next_ms or not self._clock.known:
            return
        self._next_ms = moment.mono_ms + self._config.forget_every_ms
        self._look_for_silence(seats, moment)
        self._asked_ms = moment.mono_ms
        # Our clock may be so much ahead of the brokers': what is appended after the question is later than this.
        self._as_of_ms = moment.now_ms - AHEAD_MAX_MS
        self._ends = {}
        inputs = [(number, source) for number, seat in seats.items() if seat.reads for source in SUBMITS]
        self._to_tell = bool(inputs)
        if inputs:
            self._log.ask_ends(inputs)

    def _look_for_silence(self, seats: dict[int, Seat], moment: Moment) -> None:
        """Say so if shards here have kept every ended job for long: their disks fill."""
        line_ms = moment.now_ms - _ALARM_ROUNDS * self._config.forget_every_ms
        silent = {
            other for seat in seats.values() if seat.reads for other in seat.shard.unheard_since(line_ms)
        }
        self._late_rounds = self._late_rounds + 1 if silent else 0
        if self._late_rounds >= _ALARM_ROUNDS:
            _log.error(
                "ended jobs are kept beyond their time: nobody says that the submits of shards %s were acted upon. "
                "Such a shard has no owner, or a partition of a submit topic that can't be read",
                sorted(silent),
            )

    def tell(self, active: list[Seat], moment: Moment) -> None:
        """Tell every shard, as part of the turn, once the round has shown something.

        One word for all shards held here: nothing is forgotten before the last of all has been heard anyway. Whatever
        this or an earlier turn forwarded is in this transaction or an earlier one, so the word comes behind it.
        """
        if not self._to_tell or not active:
            return
        up_to_ms = min(seat.shard.read_up_to_ms[source] for seat in active for source in SUBMITS)
        if up_to_ms < self._as_of_ms and moment.mono_ms - self._asked_ms < _PATIENCE_MS:
            return
        self._to_tell = False
        if up_to_ms <= 0:
            return
        word = SubmitsRead(tuple(sorted(seat.number for seat in active)), up_to_ms)
        outputs = active[0].shard.changes.outputs
        outputs += [SubmitsReadOut(shard, word) for shard in range(self._config.ground.shards)]
