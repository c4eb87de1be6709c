"""One dispatcher process: the production engine with a clock, a link, a disk, and a life that may end in any step."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from scheduler.core.inputs import SUBMITS
from scheduler.dispatcher import engine
from scheduler.dispatcher.ports import Outgoing, Record
from tests.dispatcher.world import Recorder
from tests.simulation.clock import DRIFT_PPM, MachineClock
from tests.simulation.disk import Disk
from tests.simulation.log import SimulatedChangelog, SimulatedLog
from tests.simulation.network import Link
from tests.simulation.standby import SimulatedFollower, SimulatedRoster
from tests.simulation.timeline import Alarm
from tests.simulation.violation import Violation, require

if TYPE_CHECKING:
    from tests.simulation.world import World

RELEASE_PATIENCE_MS = 10_000
POISON = b"poison"
BUG = b"bug"


class Died(BaseException):
    """The process was killed in the middle of something."""


class Chance:
    """The chance port, from the world's seed."""

    def __init__(self, random: "World") -> None:
        self._random = random.chance

    def fraction(self) -> float:
        return self._random.random()

    def token(self) -> bytes:
        return self._random.randbytes(16)


class Heard(Recorder):
    """Signals: failures go into the history, and those that must not be are violations."""

    def __init__(self, process: "DispatcherProcess") -> None:
        super().__init__()
        self._process = process

    def committed(self, records: int, commit_ms: int) -> None:
        """Take no notice: the ledger tells more."""

    def failed(self, how: str) -> None:
        process = self._process
        process.note(f"failed: {how}")
        process.world.did[f"turn {how}"] += 1
        expected = how not in ("job_crashed", "input_crashed")
        require(
            expected or (how == "input_crashed" and process.world.clients.bugs),
            "the engine goes on",
            f"{process.name}: {how}",
        )

    def rebalanced(self, shards: list[int]) -> None:
        self._process.note(f"holds {shards}")


class DispatcherProcess:
    """One incarnation. `stopped` is SIGSTOP; while `busy`, a call of its engine waits for something."""

    def __init__(self, world: "World", name: str, disk: Disk) -> None:
        self.world = world
        self.name = name
        self.disk = disk
        self.timeline = world.timeline
        chance = world.chance
        self.clock = MachineClock(
            self.timeline, chance.randrange(10**8, 10**9), chance.randint(-DRIFT_PPM, DRIFT_PPM)
        )
        self.link = Link(self.timeline, world.delay_ms, RELEASE_PATIENCE_MS)
        self.dead = self.stopped = self.busy = False
        self.lost_coordinator = False  # it still reaches the other brokers
        self.ambushes: dict[str, Callable[[], None]] = {}
        self.log = SimulatedLog(self, world.broker, world.group)
        self.changelog = SimulatedChangelog(self, world.broker, chance.choice((5, 50, 10_000)))
        outside = engine.World(
            self.log,
            self.changelog,
            disk,
            self.clock,
            Chance(world),
            Heard(self),
            self.passes,
            follower=SimulatedFollower(self, world.broker, chance.choice((5, 50, 10_000))),
            roster=SimulatedRoster(self, world.group),
        )
        self.engine = engine.Engine(world.config, outside)
        self._poison()
        self._alarm = Alarm(self.timeline, self._turn)
        self.wake(0)

    # -- turns -------------------------------------------------------------------------------------

    def wake(self, wait_ms: int) -> None:
        self._alarm.set(self.timeline.ms + wait_ms)

    def _turn(self) -> None:
        if self.dead or self.stopped or self.busy:
            return
        before = self.log.records_read + self.world.broker.appended
        self.busy = True
        try:
            self.engine.turn()
        except Died:
            self.world.ledger.turn_cut_short()
            return
        except Exception as error:
            raise Violation("the engine goes on", f"{self.name}: {error!r}") from error
        finally:
            self.busy = False
        if self.dead:
            return
        self.world.ledger.turn_over()
        self.world.checks.after_turn(self)
        if self.stopped:
            return
        idle = self.log.records_read + self.world.broker.appended == before and not self._has_work()
        self.wake(self.world.idle_ms if idle else self.world.chance.choice((2, 5, 12)))

    def _has_work(self) -> bool:
        return (
            bool(self.engine._restorer.running())
            or bool(self.engine._reading.pending)
            or any(seat.decided_since_ms is not None for seat in self.engine.seats.values())
        )

    # -- what happens to it ------------------------------------------------------------------------

    def passes(self, step: str) -> None:
        """Go through a named step of a turn: it may be stopped there, or die."""
        if self.dead:
            raise Died
        ambush = self.ambushes.pop(step, None)
        if ambush is not None:
            ambush()
        if self.dead:
            raise Died

    def pause(self, wait_ms: int) -> None:
        """Wait in the middle of a turn; the others go on meanwhile."""
        try:
            self.timeline.run_until(self.timeline.ms + wait_ms)
            while self.stopped and not self.dead:
                self.timeline.run_until(self.timeline.ms + 50)
        except Exception as error:
            raise Violation("the simulation goes on", repr(error)) from error  # none of this engine's
        if self.dead:
            raise Died

    def wait_for_broker(self) -> None:
        self.pause(self.world.chance.choice((300, 2_000, 12_000)))

    def stop(self) -> None:
        self.stopped = True

    def go_on(self) -> None:
        self.stopped = False
        if self.world.chance.random() < 0.5:
            self.heartbeat()  # the client's own thread may be the first to run
        self.wake(0)

    def heartbeat(self) -> None:
        if not (self.dead or self.stopped or self.lost_coordinator) and self.link.is_whole:
            self.log.heartbeat()

    def kill(self) -> Disk:
        """End as kill -9 would; return what is on the disk then."""
        self.dead = True
        if self.world.chance.random() < 0.5:
            self.link.up.drop_all()
        return self.disk.after_kill(self.world.chance)

    def leave(self) -> Disk:
        """Leave cleanly."""
        self.busy = True
        try:
            self.engine.leave()
        except Died:
            return self.disk.after_kill(self.world.chance)
        finally:
            self.dead = True
        return self.disk

    def later(self, what: Callable[[], object]) -> None:
        """Let something arrive at a time of its own."""
        self.timeline.after(self.world.chance.choice((5, 700, 4_000, 15_000)), partial(_do, what))

    def is_doubled(self) -> bool:
        return self.world.is_doubled()

    def note(self, what: str) -> None:
        self.world.note(self.name, what)

    def released(self, record: Outgoing) -> None:
        self.world.ledger.released(record)

    # -- inputs that crash -------------------------------------------------------------------------

    def _poison(self) -> None:
        """Let inputs of a kind end the process, as native code would, and others meet a bug of ours."""
        intake = self.engine._intake
        take = intake.take

        def poisoned(shard: object, moment: object, record: Record) -> object:
            if record.input in SUBMITS and record.value:
                if record.value.startswith(POISON):
                    self.world.poisoned(self)
                    raise Died
                if record.value.startswith(BUG):
                    raise KeyError("a bug")
            return take(shard, moment, record)

        intake.take = poisoned


def _do(what: Callable[[], object]) -> None:
    what()
