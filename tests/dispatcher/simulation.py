"""A whole system driven by one seed: submits, workers that keep the protocol, and everything that goes wrong.

Workers are honest: they start and stop runs by their own monotonic clock as docs/DESIGN.md, section 7, says. Their
messages may come late, they may be suspended or die; dispatchers may die, be thrown out in mid-turn, lose and
regain shards, and have wrong clocks. `Simulation.step` does one of these things and lets everybody go on.
"""

import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from scheduler.codec.reports import encode_report
from scheduler.core.job import ENDED, Ending, JobState, Phase
from scheduler.core.notices import Lease, Revoke
from scheduler.core.reporting import revoke_of
from scheduler.core.reports import (
    Beat,
    Checkpoint,
    Done,
    Emit,
    Fail,
    Freed,
    Held,
    Offer,
    Release,
    ReleaseReason,
    Verdict,
)
from scheduler.core.settings import QueueSettings
from scheduler.core.shard import Shard
from scheduler.core.spec import Backoff, Band
from scheduler.core.timing import Timing
from scheduler.dispatcher.seat import Stage
from scheduler.storage.memory import MemoryStores
from tests.dispatcher.fault_log import FaultLog, abort, fenced, unknown_aborted, unknown_committed
from tests.dispatcher.worker import Worker
from tests.dispatcher.world import Dispatcher, World

TIMING = Timing()
LEASE_MS = 20_000
EMIT_TOPIC = "made"
STEPS = ("begin", "flush", "fence", "commit")


class Run(msgspec.Struct, eq=False):
    """A job that runs at a worker until it ends, or its deadline does it."""

    lease: Lease
    deadline_ms: int
    ends_at_ms: int
    next_beat_ms: int


class Sent(msgspec.Struct, eq=False):
    """A message on its way."""

    arrives_ms: int
    shard: int
    value: bytes
    arrived: Callable[[int], None] | None


class HonestWorker:
    """One incarnation of a worker that keeps the protocol."""

    def __init__(self, simulation: "Simulation", number: int) -> None:
        world = simulation.world
        self.simulation = simulation
        self.mouth: Worker = world.worker(name=f"w{number}", inbox=number % world.shards)
        self.slots = 3
        self.runs: dict[str, Run] = {}
        self.ended: set[tuple[str, int]] = set()
        self.offered_ms: dict[int, int] = {}
        self.last_offer_ms = -(10**9)
        self.way: list[Sent] = []
        self.asleep_until_ms = 0

    @property
    def now_ms(self) -> int:
        return self.simulation.world.time.ms

    def say(self, shard: int, report: Any, arrived: Callable[[int], None] | None = None) -> None:
        """Send a report; it arrives later, in order."""
        arrives_ms = self.now_ms + self.simulation.delay_ms()
        if self.way:
            arrives_ms = max(arrives_ms, self.way[-1].arrives_ms)
        self.way.append(Sent(arrives_ms, shard, encode_report(report), arrived))

    def deliver(self) -> None:
        """Let arrive what is due: the network goes on while the process sleeps."""
        while self.way and self.way[0].arrives_ms <= self.now_ms:
            sent = self.way.pop(0)
            self.simulation.world.broker.append("reports", sent.shard, None, sent.value, at_ms=self.now_ms)
            if sent.arrived is not None:
                sent.arrived(self.now_ms)

    def step(self) -> None:
        self.deliver()
        if self.now_ms < self.asleep_until_ms:
            return
        self._stop_runs()
        for notice in self.mouth.hear():
            if isinstance(notice, Lease):
                self._on_lease(notice)
            elif isinstance(notice, Revoke):
                self._on_revoke(notice)
        self._end_runs()
        self._beat()
        self._offer()

    # -- notices -----------------------------------------------------------------------------------------

    def _on_lease(self, lease: Lease) -> None:
        key = (lease.job_id, lease.epoch)
        run = self.runs.get(lease.job_id)
        if run is not None and run.lease.epoch == lease.epoch:
            run.next_beat_ms = self.now_ms
            return
        if key in self.ended:
            return
        if run is not None:
            assert run.lease.epoch < lease.epoch
            self.simulation.fail_if(run.deadline_ms > self.now_ms, f"{key} overlaps a run of its own worker")
            del self.runs[lease.job_id]
        start_until_ms = self.offered_ms.get(lease.offer, -(10**9)) + TIMING.first_ms - TIMING.first_margin_ms
        if self.now_ms >= start_until_ms:
            self._release(lease, ReleaseReason.TOO_LATE)
        elif len(self.runs) >= self.slots:
            self._release(lease, ReleaseReason.BUSY)
        else:
            self._start(lease, start_until_ms)

    def _start(self, lease: Lease, deadline_ms: int) -> None:
        self.simulation.started(self, lease)
        ends_at_ms = self.now_ms + self.simulation.run_ms()
        self.runs[lease.job_id] = Run(lease, deadline_ms, ends_at_ms, self.now_ms + TIMING.first_beat_ms)

    def _on_revoke(self, revoke: Revoke) -> None:
        run = self.runs.get(revoke.job_id)
        if run is not None and (run.lease.epoch, run.lease.token) == (revoke.epoch, revoke.token):
            del self.runs[revoke.job_id]
            self._release(run.lease, ReleaseReason.STOPPED)
        elif (revoke.job_id, revoke.epoch) not in self.ended:
            self.ended.add((revoke.job_id, revoke.epoch))
            self.say(
                revoke.shard,
                Release(self.mouth.sender, revoke.job_id, revoke.epoch, revoke.token, ReleaseReason.STOPPED),
            )

    # -- runs ----------------------------------------------------------------------------------------------

    def _stop_runs(self) -> None:
        for run in [run for run in self.runs.values() if run.deadline_ms <= self.now_ms]:
            del self.runs[run.lease.job_id]
            self._release(run.lease, ReleaseReason.LOST)

    def _end_runs(self) -> None:
        for run in [run for run in self.runs.values() if run.ends_at_ms <= self.now_ms]:
            del self.runs[run.lease.job_id]
            self._report_end(run.lease)

    def _report_end(self, lease: Lease) -> None:
        how = self.simulation.outcome(lease)
        head = (self.mouth.sender, lease.job_id, lease.epoch, lease.token)
        self.ended.add((lease.job_id, lease.epoch))
        if how == "done":
            emits = (
                (Emit(EMIT_TOPIC, lease.job_id.encode(), b"%d" % lease.epoch),)
                if self.simulation.emits(lease)
                else ()
            )
            self.say(
                lease.shard,
                Done(*head, run_ms=5, result=b"%d" % lease.epoch, emits=emits, freed=self._freed()),
            )
        elif how in tuple(Verdict):
            self.say(lease.shard, Fail(*head, Verdict(how), freed=self._freed()))
        else:
            self._release(lease, ReleaseReason(how))

    def _release(self, lease: Lease, reason: ReleaseReason) -> None:
        self.ended.add((lease.job_id, lease.epoch))
        self.say(
            lease.shard,
            Release(self.mouth.sender, lease.job_id, lease.epoch, lease.token, reason, delay_ms=1_000),
        )

    def _freed(self) -> Freed:
        self.mouth.sequence += 1
        self.offered_ms[self.mouth.sequence] = self.now_ms
        return Freed(self.mouth.sequence, takes_suspect=not self.runs)

    def _beat(self) -> None:
        due = [run for run in self.runs.values() if run.next_beat_ms <= self.now_ms]
        for shard in {run.lease.shard for run in due}:
            runs = [run for run in self.runs.values() if run.lease.shard == shard]
            sent_ms = self.now_ms
            held = tuple(Held(run.lease.job_id, run.lease.epoch, run.lease.token) for run in runs)
            self.say(shard, Beat(self.mouth.sender, held), self._renews(runs, sent_ms))
            for run in runs:
                run.next_beat_ms = self.now_ms + LEASE_MS // 4
                if self.simulation.chance(0.1):
                    head = (self.mouth.sender, run.lease.job_id, run.lease.epoch, run.lease.token)
                    self.say(shard, Checkpoint(*head, b"%d" % run.lease.epoch))

    def _renews(self, runs: list[Run], sent_ms: int) -> Callable[[int], None]:
        def acknowledged(now_ms: int) -> None:
            for run in runs:
                # The deadline is tested first; and nobody handles anything while asleep.
                if now_ms < run.deadline_ms and now_ms >= self.asleep_until_ms:
                    run.deadline_ms = max(run.deadline_ms, sent_ms + LEASE_MS - TIMING.margin_ms(LEASE_MS))

        return acknowledged

    def _offer(self) -> None:
        free = self.slots - len(self.runs)
        if free > 0 and self.now_ms - self.last_offer_ms >= TIMING.offer_repeat_ms:
            self.last_offer_ms = self.now_ms
            self.mouth.sequence += 1
            self.offered_ms[self.mouth.sequence] = self.now_ms
            shard = self.simulation.random.randrange(self.simulation.world.shards)
            takes_suspect = not self.runs
            self.say(shard, Offer(self.mouth.sender, self.mouth.sequence, free, 2, takes_suspect))


class Simulation:
    """One run of everything, from one seed."""

    def __init__(self, seed: int, *, long_runs: bool = False) -> None:
        self.random = random.Random(seed)
        self.seed = seed
        self.long_runs = long_runs
        self.actions = ACTIONS | (LEASES_ABOVE_ALL if long_runs else {})
        queues = {
            "q": QueueSettings(
                emits=frozenset({EMIT_TOPIC}), keep_succeeded_ms=10**12, keep_cancelled_ms=10**12
            )
        }
        config = {
            "completions_wait_ms": self.random.choice((0, 8, 8, 300)),
            "restore_slice_ms": self.random.choice((0, 5)),
        }
        self.world = World(shards=3, queues=queues, seed=seed, **config)
        self.calm = False
        self.specs: dict[str, dict[str, Any]] = {}
        self.rubbish = 0
        self.workers = [HonestWorker(self, number) for number in range(3)]
        self.gone: list[HonestWorker] = []
        self.problems: list[str] = []
        self.incarnations = 0
        self.did: Counter[str] = Counter()
        self._new_dispatcher()
        self._new_dispatcher()

    # -- chance ----------------------------------------------------------------------------------------------

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def delay_ms(self) -> int:
        if self.calm or self.chance(0.9):
            return self.random.choice((0, 1, 20))
        return self.random.choice((300, 3_000, 9_000, 22_000))

    def run_ms(self) -> int:
        if self.calm:
            return 20
        return self.random.choice(
            (8_000, 45_000, 90_000) if self.long_runs else (1, 50, 500, 4_000, 15_000, 45_000)
        )

    def outcome(self, lease: Lease) -> str:
        if self.calm or self.chance(0.5):
            return "done"
        return self.random.choice(
            [
                "done",
                "retry",
                "timeout",
                "out_of_memory",
                "fail",
                "cancel",
                "snoozed",
                "crashed",
                "interrupted",
                "unknown_type",
            ]
        )

    def emits(self, lease: Lease) -> bool:
        return lease.epoch % 2 == 0

    # -- what happens ------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Let one thing happen, and everybody go on."""
        action = self.random.choices(*zip(*self.actions.items(), strict=True))[0]
        self.did[action] += 1
        getattr(self, f"_{action}")()
        self.go_on(self.random.choice((100, 500, 2_000) if self.long_runs else (1, 5, 20, 100, 500, 2_000)))

    def go_on(self, ms: int) -> None:
        world = self.world
        world.broker.end_old_transactions(world.time.ms)
        for worker in (*self.workers, *self.gone):
            worker.deliver()
        for worker in self.workers:
            worker.step()
        for dispatcher in list(world.dispatchers.values()):
            if dispatcher.name in world.dispatchers:
                self._take_turn(dispatcher)
        world.time.ms += ms

    def _take_turn(self, dispatcher: Dispatcher) -> None:
        try:
            dispatcher.engine.turn()
        except Dead as dead:
            self.world.kill(dead.name)
            self._new_dispatcher()
            self._give_away(dead.name)
            return
        if self.chance(0.1):
            self.world.check(dispatcher)

    def _nothing(self) -> None:
        pass

    def _submit(self) -> None:
        for _ in range(self.random.randrange(1, 3 if self.long_runs else 6)):
            number = len(self.specs)
            fields: dict[str, Any] = {
                "tenant": self.random.choice("xyz"),
                "priority": self.random.randrange(10),
                "max_attempts": self.random.randrange(1, 5),
                "timeout_ms": 300_000 if self.long_runs else self.random.choice((100, 5_000, 300_000)),
                "backoff": Backoff(base_ms=self.random.choice((1, 1_000, 7_000)), factor=2.0, max_ms=40_000),
            }
            if self.chance(0.3):
                fields["run_at_ms"] = self.world.time.ms + self.random.choice((-5_000, 0, 500, 5_000, 40_000))
            if self.chance(0.1):
                fields["expires_at_ms"] = self.world.time.ms + self.random.choice((1, 5_000, 60_000))
            self.specs[f"job-{number}"] = fields
            self._publish(f"job-{number}")

    def _publish(self, job_id: str, **changes: Any) -> None:
        shard = self.random.randrange(self.world.shards) if self.chance(0.15) else None
        fields = {**self.specs[job_id], **changes}
        self.world.submit(job_id, band=self.random.choice(list(Band)), shard=shard, **fields)

    def _repeat(self) -> None:
        if self.specs:
            job_id = self.random.choice(list(self.specs))
            changes = {"payload": b"other"} if self.chance(0.2) else {}
            self._publish(job_id, **changes)

    def _spoil(self) -> None:
        self.rubbish += 1
        self.world.publish(b"rubbish", f"r{self.rubbish}")

    def _fault(self) -> None:
        dispatcher = self.random.choice(list(self.world.dispatchers.values()))
        fault = self.random.choice((abort, abort, fenced))
        dispatcher.log.fail(self.random.choice(STEPS), fault)

    def _unknown(self) -> None:
        dispatcher = self.random.choice(list(self.world.dispatchers.values()))
        dispatcher.log.fail("commit", self.random.choice((unknown_committed, unknown_aborted)))

    def _rebalance(self) -> None:
        for shard in range(self.world.shards):
            if self.chance(0.5):
                self._give(shard)

    def _give(self, shard: int) -> None:
        self.world.group.assign(self.random.choice(list(self.world.dispatchers)), [shard])

    def _rejoin(self) -> None:
        dispatcher = self.random.choice(list(self.world.dispatchers.values()))
        dispatcher.log.rejoin(range(self.world.shards))

    def _kill_dispatcher(self) -> None:
        dead = self.world.kill(self.random.choice(list(self.world.dispatchers)))
        if self.chance(0.5):
            self.world.broker.end_transaction(dead.name, commit=False, at_ms=self.world.time.ms)
        stores = None
        if self.chance(0.5):
            for seat in dead.engine.seats.values():
                if seat.store is not None:
                    seat.store.close()
            for restore in dead.engine._restorer.running():
                restore.store.close()
            stores = dead.stores
        self._new_dispatcher(stores)
        self._give_away(dead.name)

    def _die_in_transaction(self) -> None:
        """Kill a dispatcher that leaves a transaction open."""
        name = self.random.choice(list(self.world.dispatchers))
        self.world.dispatchers[name].log.fail(self.random.choice(("flush", "fence")), self._die)

    def _die(self, log: FaultLog) -> None:
        raise Dead(log.owner)

    def _leave(self) -> None:
        name = self.random.choice(list(self.world.dispatchers))
        with suppress(Dead):
            self.world.dispatchers[name].engine.leave()
        self.world.kill(name)
        self._new_dispatcher()
        self._give_away(name)

    def _suspend_in_turn(self) -> None:
        """Let a dispatcher be suspended between its poll and its commit, or its commit and its leases."""
        name = self.random.choice(list(self.world.dispatchers))
        step = self.random.choice(("flush", "fence", "release"))
        self.world.dispatchers[name].log.fail(step, self._sleep_through_take_over)

    def _sleep_through_take_over(self, log: FaultLog) -> None:
        world = self.world
        others = [name for name in world.dispatchers if name != log.owner]
        if not others or log.owner not in world.dispatchers:
            return
        world.group.evicted.add(log.owner)
        self._give_away(log.owner, others)
        sleeper = world.dispatchers.pop(log.owner)
        try:
            for _ in range(self.random.choice((2, 10, 40))):
                self.go_on(self.random.choice((5, 500, 1_000)))
        finally:
            world.dispatchers[log.owner] = sleeper

    def _give_away(self, name: str, to: list[str] | None = None) -> None:
        for shard in self.world.group.shards_of(name):
            self.world.group.assign(self.random.choice(to or list(self.world.dispatchers)), [shard])

    def _new_dispatcher(self, stores: MemoryStores | None = None) -> None:
        self.incarnations += 1
        dispatcher = self.world.join(f"d{self.incarnations}", shards=[], stores=stores)
        dispatcher.dice.fixed = None
        dispatcher.changelog._slice_records = self.random.choice((3, 50, 10_000))
        for shard in range(self.world.shards):
            if shard not in self.world.group.owners or self.chance(0.4):
                self.world.group.assign(dispatcher.name, [shard])

    def _step_clock(self) -> None:
        dispatcher = self.random.choice(list(self.world.dispatchers.values()))
        dispatcher.clock.ahead_ms = self.random.choice((0, 0, 500, -500, -30_000, 60_000))

    def _read_little(self) -> None:
        dispatcher = self.random.choice(list(self.world.dispatchers.values()))
        dispatcher.log.read_at_most = self.random.choice((None, 0, 1, 5))

    def _end_a_run(self) -> None:
        """Ask a worker to stop a run, as a cancel or the dispatcher's own time-out does."""
        seats = [seat for each in self.world.dispatchers.values() for seat in each.engine.seats.values()]
        for seat in seats:
            if seat.stage is Stage.ACTIVE:
                for state in seat.shard.live():
                    if self.chance(0.3) and seat.shard.state(state.job_id) is state:
                        self._revoke(seat.shard, state, self.random.choice((Ending.CANCEL, Ending.TIMEOUT)))

    def _revoke(self, shard: Shard, state: JobState, why: Ending) -> None:
        assert state.grant is not None
        if state.grant.ending is Ending.NONE:
            state = msgspec.structs.replace(state, grant=msgspec.structs.replace(state.grant, ending=why))
            shard.put(state)
            shard.notify(state.grant.pool, state.grant.inbox, revoke_of(shard, state, str(why)))

    def _kill_worker(self) -> None:
        number = self.random.randrange(len(self.workers))
        dead = self.workers[number]
        dead.runs.clear()
        if self.chance(0.5):
            dead.way.clear()
        for sent in dead.way:
            sent.arrived = None
        self.gone.append(dead)
        self.workers[number] = HonestWorker(self, number)

    def _suspend_worker(self) -> None:
        worker = self.random.choice(self.workers)
        worker.asleep_until_ms = self.world.time.ms + self.random.choice((500, 5_000, 30_000))

    # -- what must hold ---------------------------------------------------------------------------------------

    def started(self, worker: HonestWorker, lease: Lease) -> None:
        """Check that this job runs nowhere else, and that its time has come."""
        now_ms = self.world.time.ms
        for other in self.workers:
            run = other.runs.get(lease.job_id)
            if run is not None and run.deadline_ms > now_ms:
                self.fail_if(True, f"{lease.job_id} epoch {lease.epoch} overlaps epoch {run.lease.epoch}")
        due_ms = self.specs[lease.job_id].get("run_at_ms", 0)
        self.fail_if(now_ms < due_ms - 1_000, f"{lease.job_id} started {due_ms - now_ms} ms early")

    def fail_if(self, wrong: bool, text: str) -> None:
        if wrong:
            self.problems.append(f"seed {self.seed}, {self.world.time.ms}: {text}")

    def run(self, steps: int) -> None:
        """Take `steps`, then let the faults stop and everything end."""
        for _ in range(steps):
            self.step()
            assert not self.problems, self.problems
        self.settle()
        self.verify()

    def settle(self) -> None:
        """Stop all faults; every job has to end now."""
        self.calm = True
        for dispatcher in self.world.dispatchers.values():
            dispatcher.log._faults.clear()
            dispatcher.log.read_at_most = None
            dispatcher.clock.ahead_ms = 0
        for worker in self.workers:
            worker.asleep_until_ms = 0
        for number in range(3_000):
            self.go_on(250)
            assert not self.problems, self.problems
            if number % 10 == 0 and self._is_over():
                return
        raise AssertionError(f"seed {self.seed}: jobs that never end: {self._unended()}")

    def _is_over(self) -> bool:
        return (
            not any(worker.way or worker.runs for worker in (*self.workers, *self.gone))
            and not self._unended()
        )

    def _unended(self) -> list[str]:
        states = self.world.states()
        missing = [job_id for job_id in self.specs if job_id not in states]
        return missing + [
            f"{state.job_id} {state.phase}" for state in states.values() if state.phase not in ENDED
        ]

    def verify(self) -> None:
        world = self.world
        for dispatcher in world.dispatchers.values():
            world.check(dispatcher)
        world.finish()
        states = world.states()
        assert states.keys() == self.specs.keys()
        ends = Counter(told.job_id for told in world.lifecycle() if told.event not in ("conflict", "refused"))
        assert ends == dict.fromkeys(self.specs, 1), "each job ends exactly once"
        dead = [one for one in world.dead_letters() if one["reason"] != "quarantined"]
        failed = [job_id for job_id, state in states.items() if state.phase is Phase.FAILED]
        assert sorted(one["job_id"] for one in dead) == sorted(failed)
        refusals = Counter(
            one.get("refusal") for one in world.dead_letters() if one["reason"] == "quarantined"
        )
        assert refusals == ({"framing": self.rubbish} if self.rubbish else {})
        made = sorted((one.key, one.value) for one in world.records(f"foreign:{EMIT_TOPIC}"))
        accepted = {
            job_id: int(state.end.result)
            for job_id, state in states.items()
            if state.phase is Phase.SUCCEEDED
        }
        wanted = sorted(
            (job_id.encode(), b"%d" % epoch) for job_id, epoch in accepted.items() if epoch % 2 == 0
        )
        assert made == wanted, "what accepted completions emitted, once, and nothing else"


class Dead(BaseException):
    """A dispatcher died in the middle of its transaction."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


ACTIONS = {
    "nothing": 40,
    "submit": 25,
    "repeat": 5,
    "spoil": 1,
    "fault": 5,
    "unknown": 3,
    "rebalance": 2,
    "rejoin": 1,
    "kill_dispatcher": 1,
    "die_in_transaction": 1,
    "leave": 1,
    "suspend_in_turn": 3,
    "step_clock": 2,
    "read_little": 3,
    "end_a_run": 3,
    "kill_worker": 2,
    "suspend_worker": 3,
}

LEASES_ABOVE_ALL = {
    "submit": 8,
    "repeat": 0,
    "fault": 8,
    "unknown": 5,
    "rebalance": 5,
    "rejoin": 5,
    "suspend_in_turn": 6,
    "kill_worker": 0,
    "suspend_worker": 8,
}
