"""Whether many large shards come and go without a turn that is too long: one dispatcher in this process."""

import time
from collections.abc import Callable, Mapping

from scheduler.bench.changelogs import ground_of, write
from scheduler.bench.lives import waiting
from scheduler.bench.site import Site, site
from scheduler.core.settings import Settings
from scheduler.dispatcher.config import Config
from scheduler.dispatcher.engine import Engine, World
from scheduler.dispatcher.real import MachineChance, MachineClock
from scheduler.dispatcher.seat import Stage
from scheduler.kafka.changelog import KafkaChangelog
from scheduler.kafka.log import KafkaLog, LogSettings
from scheduler.observe.signals import unscraped
from scheduler.storage.rocks import RocksStores

_GIVE_UP_S = 1_200.0


def takeover(properties: Mapping[str, str], shards: int, jobs: int) -> dict[str, float]:
    """Write `jobs` waiting jobs to each changelog; let a dispatcher take all shards, lose half of them, and take them back.

    `longest_turn_ms` is what matters: a member that does not poll within `max.poll.interval.ms` is thrown out.
    """
    with site(properties, shards=shards) as place:
        write(place, waiting(shards, jobs))
        engine = _engine(place)
        turns = _Turns(engine)
        taken_s = turns.until(lambda: _active(engine) == shards)
        taking_ms = turns.longest_ms()
        other = place.dispatcher("other")
        turns.until(lambda: 0 < _active(engine) <= shards - shards // 2)
        losing_ms = turns.longest_ms()
        other.kill()
        back_s = turns.until(lambda: _active(engine) == shards)
        back_ms = turns.longest_ms()
        engine.leave()
    return {
        "shards": shards,
        "jobs": shards * jobs,
        "taken_s": round(taken_s, 2),
        "taken_back_s": round(back_s, 2),
        "longest_turn_ms": round(max(taking_ms, losing_ms, back_ms)),
        "longest_turn_taking_ms": round(taking_ms),
        "longest_turn_losing_ms": round(losing_ms),
        "longest_turn_taking_back_ms": round(back_ms),
    }


def _active(engine: Engine) -> int:
    return sum(seat.stage is Stage.ACTIVE for seat in engine.seats.values())


class _Turns:
    """Takes turns and notes the longest."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._longest_s = 0.0

    def until(self, reached: Callable[[], bool]) -> float:
        """Take turns until `reached`; return how many seconds that took."""
        began = now = time.monotonic()
        while not reached():
            self._engine.turn()
            last, now = now, time.monotonic()
            self._longest_s = max(self._longest_s, now - last)
            if now - began > _GIVE_UP_S:
                raise RuntimeError(f"not reached within {_GIVE_UP_S} s")
        return now - began

    def longest_ms(self) -> float:
        """Return the longest turn since the last question."""
        longest_s, self._longest_s = self._longest_s, 0.0
        return longest_s * 1_000


def _engine(place: Site) -> Engine:
    config = Config(ground_of(place), Settings())
    log = KafkaLog(LogSettings(place.properties, "bench", "bench", place.prefix, shards=place.shards))
    world = World(
        log,
        KafkaChangelog(place.properties, prefix=place.prefix),
        RocksStores(place.folder / "stores"),
        MachineClock(),
        MachineChance(),
        unscraped(),
        lambda _: None,
    )
    return Engine(config, world)
