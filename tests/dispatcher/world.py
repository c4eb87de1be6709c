"""Everything around one or more dispatchers, in memory: a broker, a group, clocks, stores, workers."""

import random
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from scheduler.codec.job import encode_job
from scheduler.codec.lifecycle import decode_lifecycle
from scheduler.codec.meta import decode_meta, encode_meta
from scheduler.core import keys, keyspace
from scheduler.core.inputs import LAYOUT, TOPIC_OF, Meta
from scheduler.core.job import JobState
from scheduler.core.outputs import Lifecycle
from scheduler.core.settings import QueueSettings, Settings
from scheduler.core.spec import Band, JobSpec
from scheduler.core.timing import Timing
from scheduler.dispatcher import engine
from scheduler.dispatcher.care import SURVIVED_MS
from scheduler.dispatcher.config import Config, Ground
from scheduler.dispatcher.engine import Engine
from scheduler.dispatcher.seat import Stage
from scheduler.storage.memory import MemoryStores
from scheduler.testing.memory_broker import Stored
from tests.dispatcher.checks import check_engine, check_history, replayed, states_in
from tests.dispatcher.fault_broker import FaultBroker
from tests.dispatcher.fault_log import FaultChangelog, FaultLog, Group
from tests.dispatcher.standby_ports import FaultFollower, GroupRoster
from tests.dispatcher.worker import Worker

START_MS = 1_764_450_000_000
TOPIC_OF_BAND = {
    Band.INTERACTIVE: "submit.interactive",
    Band.DEFAULT: "submit.default",
    Band.BULK: "submit.bulk",
}


class Time:
    """True time, which is also the broker's unless a test puts that wrong."""

    def __init__(self) -> None:
        self.ms = START_MS
        self.broker_ahead_ms = 0

    def broker_ms(self) -> int:
        return self.ms + self.broker_ahead_ms


class MachineClock:
    """One machine's clocks: the wall may be wrong and step, the monotonic one starts anywhere and never does."""

    def __init__(self, time: Time, number: int) -> None:
        self._time = time
        self.ahead_ms = 0
        self._base_ms = START_MS - 1_000_000 * (number + 1)

    def wall_ms(self) -> int:
        return self._time.ms + self.ahead_ms

    def mono_ms(self) -> int:
        return self._time.ms - self._base_ms


class Dice:
    """Chance with a seed; `fixed` makes every fraction the same."""

    def __init__(self, seed: int, fixed: float | None = 0.5) -> None:
        self._random = random.Random(seed)
        self.fixed = fixed

    def fraction(self) -> float:
        return self._random.random() if self.fixed is None else self.fixed

    def token(self) -> bytes:
        return self._random.randbytes(16)


class Recorder:
    """Signals, counted."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, ...]] = Counter()
        self.failures: Counter[str] = Counter()
        self.commits = 0
        self.clock_difference_ms = 0
        self.changed_topics = 0
        self.late_ms = 0
        self.standbys: dict[int, int] = {}
        self.leasing_shards: list[int] = []

    def counted(self, counts: Counter[tuple[str, ...]]) -> None:
        self.counts.update(counts)

    def committed(self, records: int, commit_ms: int) -> None:
        self.commits += 1

    def failed(self, how: str) -> None:
        self.failures[how] += 1

    def clock_differs(self, ms: int) -> None:
        self.clock_difference_ms = ms

    def timers_late(self, ms: int) -> None:
        self.late_ms = ms

    def topics_changed(self, topics: int) -> None:
        self.changed_topics = topics

    def rebalanced(self, shards: list[int]) -> None:
        pass

    def leasing(self, shards: int) -> None:
        self.leasing_shards.append(shards)

    def standby_lags(self, records: dict[int, int]) -> None:
        self.standbys = records


class Dispatcher:
    """One process: its engine, and what belongs to it alone."""

    def __init__(self, world: "World", name: str, stores: MemoryStores | None = None) -> None:
        number = len(world.dispatchers)
        self.name = name
        self.clock = MachineClock(world.time, number)
        self.log = FaultLog(world.broker, world.group, name, world.time.broker_ms)
        self.stores = stores or MemoryStores()
        self.signals = Recorder()
        self.dice = Dice(number + world.seed)
        self.failpoints: list[str] = []
        self.changelog = FaultChangelog(world.broker)
        self.follower = FaultFollower(world.broker)
        self.roster = GroupRoster(self.log)
        outside = engine.World(
            self.log,
            self.changelog,
            self.stores,
            self.clock,
            self.dice,
            self.signals,
            self.failpoints.append,
            follower=self.follower,
            roster=self.roster,
        )
        self.engine = Engine(world.config, outside)

    def stages(self) -> dict[int, Stage]:
        return {number: seat.stage for number, seat in self.engine.seats.items()}

    def is_active(self) -> bool:
        stages = self.stages()
        return stages.keys() == self.log.group.shards_of(self.name) and set(stages.values()) <= {Stage.ACTIVE}


class World:
    """`S` shards. `start` adds a dispatcher that owns all of them and takes turns until it is active.

    Completions don't wait for company, and no turn is rested through, unless a test asks for it: most look at what
    one turn comes to.
    """

    def __init__(
        self,
        shards: int = 4,
        *,
        queues: dict[str, QueueSettings] | None = None,
        seed: int = 0,
        timing: Timing | None = None,
        **config: Any,
    ) -> None:
        self.seed = seed
        self.shards = shards
        self.time = Time()
        self.broker = FaultBroker(shards)
        self.group = Group()
        ground = Ground("cluster", "jobs.", shards, {"changelog": "id-1"}, shards, 24 * 3_600_000)
        config = {"completions_wait_ms": 0, "rest_ms": 0, **config}
        self.config = Config(ground, Settings(queues), timing or Timing(), **config)
        self.dispatchers: dict[str, Dispatcher] = {}
        self.checking = True
        for shard in range(shards):
            first = Meta(
                LAYOUT, "cluster", shards, {"changelog": "id-1"}, dict.fromkeys(TOPIC_OF.values(), 0)
            )
            self.broker.append("changelog", shard, keyspace.META, encode_meta(first), at_ms=self.time.ms)

    # -- dispatchers -------------------------------------------------------------------------------------

    def join(
        self, name: str, shards: Iterable[int] | None = None, stores: MemoryStores | None = None
    ) -> Dispatcher:
        """Add a dispatcher that owns `shards` (all) from its next poll on."""
        dispatcher = self.dispatchers[name] = Dispatcher(self, name, stores)
        self.group.assign(name, range(self.shards) if shards is None else shards)
        return dispatcher

    def start(self, name: str = "d1", **how: Any) -> Dispatcher:
        dispatcher = self.join(name, **how)
        self.until(dispatcher.is_active)
        return dispatcher

    def outlive(self) -> None:
        """Let time pass until the owners count as healthy: owners that die young make the next one careful."""
        self.wait(SURVIVED_MS + 2_000, every_ms=2_000)

    def kill(self, name: str) -> Dispatcher:
        """Take a dispatcher away as kill -9 would: nothing is closed, its member leaves the group."""
        dead = self.dispatchers.pop(name)
        self.group.evicted.add(name)
        return dead

    # -- time --------------------------------------------------------------------------------------------

    def turn(self, count: int = 1, *, every_ms: int = 5) -> None:
        """Let each dispatcher take turns, and check everything after each."""
        for _ in range(count):
            for dispatcher in list(self.dispatchers.values()):
                dispatcher.engine.turn()
                self.check(dispatcher)
            self.time.ms += every_ms

    def until(self, reached: Callable[[], object], *, turns: int = 200, every_ms: int = 5) -> None:
        for _ in range(turns):
            if reached():
                return
            self.turn(every_ms=every_ms)
        raise AssertionError("not reached")

    def wait(self, ms: int, *, every_ms: int = 500) -> None:
        """Let time pass, with turns all along."""
        end = self.time.ms + ms
        while self.time.ms < end:
            self.turn(every_ms=min(every_ms, end - self.time.ms))

    def check(self, dispatcher: Dispatcher) -> None:
        if self.checking:
            check_engine(dispatcher.engine, self.broker)

    def finish(self) -> None:
        """Check the whole history."""
        check_history(self.broker)

    # -- jobs --------------------------------------------------------------------------------------------

    def worker(self, **how: Any) -> Worker:
        return Worker(self.broker, self.time, **how)

    def spec(self, job_id: str = "a", **fields: Any) -> JobSpec:
        fields = {"tenant": "t", "queue": "q", "type": "x.run", "payload": b"{}", **fields}
        return JobSpec(job_id, **fields)

    def submit(
        self, job_id: str = "a", *, band: Band = Band.DEFAULT, shard: int | None = None, **fields: Any
    ) -> JobSpec:
        """Publish a job; to another shard than its home if `shard` says so."""
        spec = self.spec(job_id, **fields)
        self.publish(encode_job(spec), job_id, band=band, shard=shard)
        return spec

    def publish(
        self, value: bytes | None, job_id: str = "a", *, band: Band = Band.DEFAULT, shard: int | None = None
    ) -> int:
        home = keys.shard_of(job_id, self.shards) if shard is None else shard
        return self.broker.append(TOPIC_OF_BAND[band], home, job_id.encode(), value, at_ms=self.time.ms)

    def home(self, job_id: str) -> int:
        return keys.shard_of(job_id, self.shards)

    # -- what can be seen --------------------------------------------------------------------------------

    def states(self) -> dict[str, JobState]:
        """Return all states as committed."""
        found: dict[str, JobState] = {}
        for shard in range(self.shards):
            found |= states_in(replayed(self.broker, shard))
        return found

    def state(self, job_id: str = "a") -> JobState:
        return states_in(replayed(self.broker, self.home(job_id)))[job_id]

    def meta(self, shard: int) -> Meta:
        return decode_meta(replayed(self.broker, shard)[keyspace.META])

    def dead_letters(self) -> list[dict[str, str]]:
        return [dict(stored.headers) for stored in self.broker.committed("dlq")]

    def lifecycle(self) -> list[Lifecycle]:
        return [decode_lifecycle(stored.value) for stored in self.broker.committed("lifecycle")]

    def records(self, topic: str) -> list[Stored]:
        return self.broker.committed(topic)

    @property
    def counts(self) -> Counter[tuple[str, ...]]:
        total: Counter[tuple[str, ...]] = Counter()
        for dispatcher in self.dispatchers.values():
            total.update(dispatcher.signals.counts)
        return total


def patched(state: JobState, **changes: Any) -> JobState:
    return msgspec.structs.replace(state, **changes)
