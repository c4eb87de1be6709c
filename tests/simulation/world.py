"""One simulated world: everything that one seed drives, until every job has ended."""

import random
from collections import Counter
from collections.abc import Callable
from functools import partial

from scheduler.codec import framing
from scheduler.codec.meta import encode_meta
from scheduler.core import keyspace
from scheduler.core.inputs import LAYOUT, TOPIC_OF, Input, Meta
from scheduler.core.job import Phase
from scheduler.core.settings import QueueSettings, Settings
from scheduler.dispatcher.config import Config, Ground
from scheduler.dispatcher.seat import Stage
from scheduler.testing.memory_broker import Stored
from scheduler.testing.memory_log import FOREIGN
from tests.dispatcher.checks import check_history
from tests.dispatcher.world import START_MS
from tests.simulation.broker import SimulatedBroker
from tests.simulation.client import Clients
from tests.simulation.disk import Disk
from tests.simulation.dispatcher import DispatcherProcess
from tests.simulation.faults import Faults
from tests.simulation.group import Group
from tests.simulation.handler import EMIT_TOPIC, Handlers
from tests.simulation.history import History
from tests.simulation.ledger import Ledger
from tests.simulation.scenario import Profile
from tests.simulation.stores import StoreChecks
from tests.simulation.timeline import Timeline
from tests.simulation.violation import Violation, require
from tests.simulation.worker import POOL, WorkerProcess

INBOX_TOPIC = f"leases.{POOL}"
INBOX_KEPT_MS = 600_000
TRANSACTION_TIMEOUT_MS = 10_000
SETTLES_MS = 1_200_000
"""How long jobs may take to end once nothing goes wrong any more."""
STUCK_MS = 400_000
"""No job waits this long for what it is to do next: if nothing has happened meanwhile, nothing will."""

SUBMITS_READ = framing.header("SubmitsReadV1")
INPUT_TOPICS = frozenset(TOPIC_OF.values())


class World:
    """Broker, group, dispatchers, workers, clients, faults and checks of one seed."""

    def __init__(self, seed: int, profile: Profile, *, turn_decide_ms: int = 50) -> None:
        chance = self.chance = random.Random(seed)
        self._turn_decide_ms = turn_decide_ms
        self.profile = profile
        self.timeline = Timeline(START_MS)
        self.history = History()
        self.did: Counter[str] = Counter()
        self.shards = chance.choice(profile.shards)
        self.inboxes = chance.choice((1, 3))
        self.idle_ms = chance.choice((700, 1_000))
        self.slow = False
        self.ledger = Ledger(self.timeline, self.shards, self.note)
        self.broker = SimulatedBroker(self.shards, self._heard, self.ledger.committed)
        self.checks = StoreChecks(self.broker)
        self.handlers = Handlers(chance, profile.run_ms, profile.failing, profile.emitting)
        self.config = self._config()
        self._processes: dict[str, DispatcherProcess] = {}
        self.group = Group(self.shards, chance, self._rebalanced)
        self._workers: dict[str, WorkerProcess] = {}
        self._boots = self._incarnations = 0
        self._write_first_metas()
        self.clients = Clients(self)
        for _ in range(chance.choice(profile.dispatchers)):
            self._new_dispatcher(Disk())
        for number in range(chance.choice(profile.workers)):
            self._new_worker(f"w{number}")
        self.faults = Faults(self)
        self._every(1_000, self._coordinate)
        self._every(10_000, self._clean)
        self._plan_submits()

    def _config(self) -> Config:
        profile, chance = self.profile, self.chance
        ground = Ground(
            "cluster", "jobs.", self.shards, {"changelog": "id-1"}, self.shards, profile.delete_retention_ms
        )
        keep_ms = profile.keep_ms
        queue = QueueSettings(
            emits=frozenset({EMIT_TOPIC}),
            keep_succeeded_ms=keep_ms,
            keep_cancelled_ms=keep_ms,
            keep_failed_ms=keep_ms,
            keep_keys_ms=2 * keep_ms,
        )
        return Config(
            ground,
            Settings({"q": queue}),
            completions_wait_ms=chance.choice((0, 8, 8, 300)),
            delete_every_ms=30_000,
            forget_every_ms=chance.choice(profile.forget_every_ms),
            turn_decide_ms=self._turn_decide_ms,
            standby_replicas=chance.choice(profile.standbys),
        )

    def _write_first_metas(self) -> None:
        first = Meta(
            LAYOUT, "cluster", self.shards, {"changelog": "id-1"}, dict.fromkeys(TOPIC_OF.values(), 0)
        )
        for shard in range(self.shards):
            self.broker.append("changelog", shard, keyspace.META, encode_meta(first), at_ms=self.timeline.ms)

    def _plan_submits(self) -> None:
        chaos_ms = self.profile.chaos_ms
        bursts = max(1, self.profile.jobs // 12)
        for _ in range(bursts):
            at_ms = self.timeline.ms + self.chance.randrange(chaos_ms * 9 // 10)
            for _ in range(self.profile.jobs // bursts):
                self.timeline.at(at_ms + self.chance.randrange(2_000), self.clients.submit)

    # -- processes ---------------------------------------------------------------------------------

    def dispatchers(self) -> list[DispatcherProcess]:
        return [process for process in self._processes.values() if not process.dead]

    def workers(self) -> list[WorkerProcess]:
        return list(self._workers.values())

    def replace(self, process: DispatcherProcess, disk: Disk) -> None:
        """Start a dispatcher in place of one that is dead."""
        self.note(process.name, "is dead")
        self._processes.pop(process.name, None)
        self.timeline.after(self.chance.choice((0, 500, 3_000, 9_000)), partial(self._new_dispatcher, disk))

    def _new_dispatcher(self, disk: Disk) -> None:
        self._incarnations += 1
        name = f"d{self._incarnations}"
        self._processes[name] = DispatcherProcess(self, name, disk)

    def gone(self, worker: WorkerProcess) -> None:
        """Start a worker of the same name in place of one that is gone."""
        worker.dead = True
        self.timeline.after(self.chance.choice((1, 500, 5_000)), partial(self._new_worker, worker.name))

    def _new_worker(self, name: str) -> None:
        known = self._workers.get(name)
        if known is None or known.dead:
            self._boots += 1
            self._workers[name] = WorkerProcess(self, name, self._boots)

    def poisoned(self, process: DispatcherProcess) -> None:
        self.replace(process, process.kill())

    # -- what others do ----------------------------------------------------------------------------

    def report(self, partition: int, value: bytes) -> None:
        self.broker.append("reports", partition, None, value, at_ms=self.timeline.ms)

    def later(self, what: Callable[[], object]) -> None:
        """Let something happen again, at a time of its own."""
        self.timeline.after(self.chance.choice((1, 400, 5_000, 20_000)), lambda: _do(what))

    def _heard(self, topic: str, partition: int) -> None:
        if topic in INPUT_TOPICS:
            holder = self._processes.get(self.group.holders.get(partition, ""))
            if holder is not None:
                holder.wake(self.chance.choice((1, 1, 3, 20)))
        elif topic == INBOX_TOPIC:
            stored = self.broker.log(topic, partition)[-1]
            for worker in self._workers.values():
                if worker.inbox == partition and not worker.dead:
                    worker.noticed(stored)

    def _rebalanced(self) -> None:
        for process in self.dispatchers():
            process.wake(self.chance.choice((0, 20, 50, 500)))

    def delay_ms(self) -> int:
        """Return how long something is under way."""
        chance = self.chance
        if self.faults_ceased or (not self.slow and chance.random() >= self.profile.late):
            return chance.choice((0, 1, 1, 5, 20))
        return chance.choice((300, 3_000, 9_000, 22_000))

    def is_doubled(self) -> bool:
        return not self.faults_ceased and self.chance.random() < self.profile.doubled

    @property
    def faults_ceased(self) -> bool:
        return self.handlers.calm

    def note(self, who: str, what: str) -> None:
        self.history.add(self.timeline.ms - START_MS, who, what)

    def _every(self, period_ms: int, what: Callable[[], None]) -> None:
        what()
        self.timeline.after(period_ms, partial(self._every, period_ms, what))

    def _coordinate(self) -> None:
        for process in self.dispatchers():
            process.heartbeat()
        self.group.expire(self.timeline.ms)
        self.broker.end_old_transactions(self.timeline.ms, TRANSACTION_TIMEOUT_MS)

    def _clean(self) -> None:
        self.broker.expire(INBOX_TOPIC, self.timeline.ms - INBOX_KEPT_MS)
        self.broker.compact(self.timeline.ms, self.profile.delete_retention_ms)

    # -- the whole life ----------------------------------------------------------------------------

    def run(self) -> None:
        """Let everything go wrong, then let everything end, and check what came of it."""
        self.timeline.run_until(START_MS + self.profile.chaos_ms)
        self.handlers.calm = True
        self.note("world", "is calm")
        self.faults.cease()
        self._settle()
        self._verify()

    def _settle(self) -> None:
        deadline_ms = self.timeline.ms + SETTLES_MS
        happened, stuck_ms = self.history.count, self.timeline.ms + STUCK_MS
        while self.timeline.ms < min(deadline_ms, stuck_ms):
            self.timeline.run_until(self.timeline.ms + 2_000)
            if self.history.count != happened:
                happened, stuck_ms = self.history.count, self.timeline.ms + STUCK_MS
            if self._is_over():
                self.timeline.run_until(self.timeline.ms + 12_000)
                if self._is_over():
                    return
        unended = [f"{job_id} {self._shown(job_id)}" for job_id in self.ledger.unended()][:5]
        raise Violation("every accepted job ends", ", ".join(unended) or self._busy())

    def _shown(self, job_id: str) -> str:
        state = self.ledger.states.get(job_id)
        return f"{state.phase} epoch {state.epoch}" if state else "unknown"

    def _is_over(self) -> bool:
        return not self._busy() and not self.ledger.unended()

    def _busy(self) -> str:
        """Say who is still at work."""
        workers = [worker.name for worker in self.workers() if worker.dead or not worker.is_idle()]
        adopting = [
            f"{process.name}: shard {seat.number} is {seat.stage.name.lower()}"
            for process in self.dispatchers()
            for seat in process.engine.seats.values()
            if seat.stage is not Stage.ACTIVE
        ]
        unread = [
            f"{topic}/{shard}"
            for shard, meta in self.ledger.metas.items()
            for topic, offset in meta.positions.items()
            if topic != "reports" and any(map(is_work, self.broker.read(topic, shard, offset)))
        ]
        return ", ".join(workers + adopting + unread)

    def _verify(self) -> None:
        ledger = self.ledger
        for process in self.dispatchers():
            self.checks.in_full(process)
            self._verify_nothing_leaked(process)
        check_history(self.broker)
        twice = {job_id: ends for job_id, ends in ledger.ends.items() if ends != ledger.lives[job_id] + 1}
        require(not twice, "a job ends once", str(twice))
        require(ledger.ends.keys() == ledger.accepted.keys(), "every accepted job ends", "others have ended")
        made = sorted((one.key, one.value) for one in self.broker.committed(FOREIGN + EMIT_TOPIC))
        require(
            made == sorted(ledger.wanted_emits), "emits are those of accepted completions", f"{len(made)}"
        )
        self._verify_dead_letters()
        require(not ledger.running(), "nothing is left", "runs")
        require(not self.broker.open_transactions(), "nothing is left", "open transactions")

    def _verify_dead_letters(self) -> None:
        letters = [dict(one.headers) for one in self.broker.committed("dlq")]
        failed = sorted(job_id for job_id, phase in self.ledger.ended_as.items() if phase is Phase.FAILED)
        dead = sorted({one["job_id"] for one in letters if one["reason"] != "quarantined"})
        require(set(failed) <= set(dead), "a failed job is dead-lettered", f"{set(failed) - set(dead)}")
        refused = Counter(one["refusal"] for one in letters if one["reason"] == "quarantined")
        clients = self.clients
        wanted = +Counter(framing=clients.rubbish, crashed_dispatcher=clients.poison + clients.bugs)
        require(refused == wanted, "only what can't be acted upon is quarantined", f"{refused}, not {wanted}")

    def _verify_nothing_leaked(self, process: DispatcherProcess) -> None:
        engine = process.engine
        left = {
            "seats not active": [
                seat.number for seat in engine.seats.values() if seat.stage.name != "ACTIVE"
            ],
            "renewals": [entry.job_id for seat in engine.seats.values() for entry in seat.leases],
            "records read": list(engine._reading.pending) if engine._reading.has_left_over else [],
            "inputs held": list(engine._reading._held),
            "jobs set aside": sorted(engine._intake._set_aside.jobs),
            "ready queues": [pool for pool, tree in engine._fleet.matcher.pools.items() if tree.has_work()],
            "rooms": [
                source for seat in engine.seats.values() for source, room in seat.rooms.items() if len(room)
            ],
        }
        found = {what: which for what, which in left.items() if which}
        require(not found, "nothing is left", f"{process.name}: {found}")
        reads = [Input(source).name for seat in engine.seats.values() for source in seat.unread]
        require(not reads, "everything is read", f"{process.name}: {reads}")


def is_work(record: tuple[int, Stored]) -> bool:
    """Say whether a record brings about something: word of how far submits were read comes for ever."""
    return not (record[1].value or b"").startswith(SUBMITS_READ)


def _do(what: Callable[[], object]) -> None:
    what()
