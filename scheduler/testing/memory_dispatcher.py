"""The production dispatcher over a broker and stores in memory."""

from collections import Counter
from typing import Final

from scheduler.codec.meta import encode_meta
from scheduler.core import keyspace
from scheduler.core.inputs import LAYOUT, TOPIC_OF, Meta
from scheduler.core.timing import Timing
from scheduler.dispatcher.config import Config, Ground
from scheduler.dispatcher.engine import Engine, World
from scheduler.dispatcher.seat import Stage
from scheduler.storage.memory import MemoryStores
from scheduler.testing.any_queue import settings_of_any_queue
from scheduler.testing.memory_broker import MemoryBroker
from scheduler.testing.memory_log import MemoryChangelog, MemoryLog
from scheduler.testing.virtual_time import SeededChance, VirtualClock

PREFIX: Final = "jobs."
_CLUSTER: Final = "memory"
_TAKE_OVER_TURNS: Final = 20


class MemoryDispatcher:
    """One dispatcher that holds all shards of `broker`."""

    def __init__(self, broker: MemoryBroker, clock: VirtualClock, chance: SeededChance) -> None:
        """Prepare the topics and take the shards over."""
        self._broker = broker
        self._clock = clock
        self._timing = Timing()
        self._log = MemoryLog(broker, clock.wall_ms)
        ground = Ground(_CLUSTER, PREFIX, broker.partitions, {}, 1, changelog_retention_ms=1 << 62)
        # Time stands still while something is to be done, so nothing waits for company, or for its next turn to come.
        config = Config(
            ground,
            settings_of_any_queue(PREFIX),
            self._timing,
            completions_wait_ms=0,
            rest_ms=0,
            housekeeping_every_ms=0,
        )
        world = World(
            self._log, MemoryChangelog(broker), MemoryStores(), clock, chance, _NoSignals(), _pass_by
        )
        self._engine = Engine(config, world)
        self._write_first_metas()
        self._take_over()

    def turn(self) -> bool:
        """Take one turn; return whether there is reason for another one at the present time."""
        before = self._broker.appended
        self._engine.turn()
        return self._broker.appended != before or self._log.unread()

    def next_expiry_ms(self) -> int | None:
        """Return when to look next whether a live lease has expired (Unix milliseconds), None without a lease.

        One that is overdue waits for an echo, and these are at least `Timing.echo_every_ms` apart.
        """
        due = [
            entry.read_at_ms + entry.period_ms
            for seat in self._engine.seats.values()
            for entry in seat.leases
        ]
        if not due:
            return None
        at_ms, now_ms = self._clock.wall_of(min(due)), self._clock.wall_ms()
        return at_ms if at_ms > now_ms else now_ms + self._timing.echo_every_ms

    def close(self) -> None:
        """Leave cleanly."""
        self._engine.leave()

    def _write_first_metas(self) -> None:
        meta = Meta(LAYOUT, _CLUSTER, self._broker.partitions, {}, dict.fromkeys(TOPIC_OF.values(), 0))
        for shard in range(self._broker.partitions):
            self._broker.append(
                "changelog", shard, keyspace.META, encode_meta(meta), at_ms=self._clock.wall_ms()
            )

    def _take_over(self) -> None:
        for _ in range(_TAKE_OVER_TURNS):
            self._engine.turn()
            if {seat.stage for seat in self._engine.seats.values()} == {Stage.ACTIVE}:
                return
        raise AssertionError("the dispatcher in memory did not come up")


class _NoSignals:
    """Nobody looks at metrics here; a failed turn is a bug of ours."""

    def counted(self, counts: Counter[tuple[str, ...]]) -> None:
        """Take no notice."""

    def committed(self, records: int, commit_ms: int) -> None:
        """Take no notice."""

    def failed(self, how: str) -> None:
        """Fail loudly."""
        raise AssertionError(f"a turn in memory can't fail, but did: {how}")

    def clock_differs(self, ms: int) -> None:
        """Take no notice."""

    def timers_late(self, ms: int) -> None:
        """Take no notice."""

    def topics_changed(self, topics: int) -> None:
        """Take no notice."""

    def rebalanced(self, shards: list[int]) -> None:
        """Take no notice."""

    def leasing(self, shards: int) -> None:
        """Take no notice."""

    def standby_lags(self, records: dict[int, int]) -> None:
        """Take no notice."""


def _pass_by(point: str) -> None:
    """Nothing fails here."""
