"""What need not happen in every turn: old jobs, overlong runs, lag offsets, consumed prefixes, a look at clocks and topics."""

import logging
from typing import Final

from scheduler.core import bounds
from scheduler.core.inputs import RETRIES, TOPIC_OF, Input, tier_of
from scheduler.core.moment import Moment
from scheduler.core.wakeups import drop_old, end_overlong, lateness_ms, wake_overdue
from scheduler.dispatcher.config import Config
from scheduler.dispatcher.engine_clock import ALARM_MS, EngineClock
from scheduler.dispatcher.ports import Log, LogError
from scheduler.dispatcher.seat import Seat, Stage
from scheduler.dispatcher.signals import Signals

_log = logging.getLogger(__name__)

_CLOCK_EVERY_MS = 60_000


class Housekeeping:
    """Runs at its own, slower pace beside the turns."""

    def __init__(self, config: Config, log: Log, clock: EngineClock, signals: Signals) -> None:
        """Begin with everything due one period from the first run."""
        self._config = config
        self._log = log
        self._clock = clock
        self._signals = signals
        self._next_offsets_ms = 0
        self._told: dict[tuple[int, Input], int] = {}  # the other offsets as last told
        self._next_clock_ms = self._next_lateness_ms = 0
        self._next_hour_ms: int | None = None
        self._leasing = 0  # shards, as last told

    def tidy(self, seat: Seat, moment: Moment, limit: int) -> int:
        """Decide, once a period and shard, what time has done to its jobs; part of the turn.

        Looks at no more than `limit` old jobs and returns how many those were; the rest follows in the next turns.
        """
        if seat.care.survived(moment.mono_ms, seat.positions.keys()):
            seat.shard.changes.durable = True  # at once: whoever takes over meanwhile counts it as a death
        if moment.mono_ms < seat.tidy_at_ms or limit <= 0:
            return 0
        dropped = drop_old(seat.shard, moment, limit)
        left = dropped == limit
        seat.tidy_at_ms = moment.mono_ms + (0 if left else self._config.housekeeping_every_ms)
        end_overlong(seat.shard, moment)
        tiers = {tier_of(source) for source in RETRIES if self._nothing_due(seat, source, moment.now_ms)}
        if tiers:
            wake_overdue(seat.shard, moment, tiers, bounds.TURN_TIMERS)
        return dropped

    @staticmethod
    def _nothing_due(seat: Seat, source: Input, now_ms: int) -> bool:
        return seat.read_to_end(source) and not seat.rooms[source].has_due(now_ms)

    def other_offsets(self, seats: list[Seat], mono_ms: int) -> dict[tuple[int, Input], int]:
        """Return, every few seconds, all input offsets: lag tools read them, we trust `meta`."""
        if mono_ms < self._next_offsets_ms:
            return {}
        self._next_offsets_ms = mono_ms + self._config.offsets_every_ms
        self._told = _offsets(seats)
        return self._told

    def owes_offsets(self, seats: list[Seat], mono_ms: int) -> bool:
        """Say whether they have to be told, though nothing else is to be committed: a lag must not seem to stay."""
        if mono_ms < self._next_offsets_ms:
            return False
        if all(self._told.get(key) == offset for key, offset in _offsets(seats).items()):
            self._next_offsets_ms = mono_ms + self._config.offsets_every_ms
            return False
        return True

    def run(self, seats: dict[int, Seat], moment: Moment) -> None:
        """Look at timers and clocks; once an hour delete what was consumed, and look at the topics."""
        self._tell_leasing(seats)
        self._tell_lateness(seats, moment)
        self._compare_clocks(moment.mono_ms)
        if self._next_hour_ms is None:
            self._next_hour_ms = moment.mono_ms + self._config.delete_every_ms
        if moment.mono_ms < self._next_hour_ms:
            return
        self._next_hour_ms = moment.mono_ms + self._config.delete_every_ms
        self._delete_consumed(seats)
        self._compare_topics()

    def _delete_consumed(self, seats: dict[int, Seat]) -> None:
        """Delete up to the offsets committed a whole period ago."""
        before: dict[tuple[int, Input], int] = {}
        for seat in seats.values():
            if seat.stage is Stage.ACTIVE:
                before |= {(seat.number, source): offset for source, offset in seat.deletable.items()}
                seat.deletable = dict(seat.committed)
        if before:
            self._log.delete_before(before)

    def _tell_leasing(self, seats: dict[int, Seat]) -> None:
        leasing = sum(seat.stage is Stage.ACTIVE for seat in seats.values())
        if leasing != self._leasing:
            self._leasing = leasing
            self._signals.leasing(leasing)

    def _tell_lateness(self, seats: dict[int, Seat], moment: Moment) -> None:
        """Tell how late timers are: those of shards that are being adopted wait too."""
        if moment.mono_ms < self._next_lateness_ms:
            return
        self._next_lateness_ms = moment.mono_ms + self._config.housekeeping_every_ms
        late = [lateness_ms(seat.shard, moment.now_ms) for seat in seats.values() if seat.reads]
        self._signals.timers_late(max(late, default=0))

    def _compare_clocks(self, mono_ms: int) -> None:
        if mono_ms < self._next_clock_ms:
            return
        self._next_clock_ms = mono_ms + _CLOCK_EVERY_MS
        difference_ms = self._clock.difference_ms()
        self._signals.clock_differs(difference_ms)
        if abs(difference_ms) > ALARM_MS:
            effect = (
                "scheduled jobs start late" if difference_ms < 0 else "due times go by the brokers' clock"
            )
            _log.error("this machine's clock is %+d ms off the brokers': %s", difference_ms, effect)

    def _compare_topics(self) -> None:
        """Tell of partition counts that somebody has changed; the layout found at start goes on.

        What clients send to a partition that no shard has is read by nobody. What they send to another one than
        they would have is forwarded to its job's home shard, as ever: no job has two.
        """
        ground = self._config.ground
        try:
            found = self._log.partitions()
        except LogError as error:
            _log.warning("the topics can't be looked at: %s", error)
            return
        right = {
            **dict.fromkeys((*TOPIC_OF.values(), _CHANGELOG), ground.shards),
            _LIFECYCLE: ground.lifecycle_partitions,
        }
        changed = {
            topic: found[topic] for topic in right.keys() & found.keys() if found[topic] != right[topic]
        }
        for topic, count in sorted(changed.items()):
            _log.error(
                "%s%s has %d partitions, where there were %d: records in others than those are read by nobody. Stop what "
                "sends them; the shards can't be made more",
                ground.prefix,
                topic,
                count,
                right[topic],
            )
        self._signals.topics_changed(len(changed))


_CHANGELOG: Final = "changelog"
_LIFECYCLE: Final = "lifecycle"


def _offsets(seats: list[Seat]) -> dict[tuple[int, Input], int]:
    """Return all positions but those in `reports`, which every transaction carries anyway."""
    return {
        (seat.number, source): offset
        for seat in seats
        for source, offset in seat.positions.items()
        if source is not Input.REPORTS
    }
