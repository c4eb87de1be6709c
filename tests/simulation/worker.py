"""One worker process: the production session with a clock, a link, children that run things, and a guard."""

from collections import deque
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from scheduler.codec.job import decode_job
from scheduler.codec.notices import decode_notice
from scheduler.codec.reports import encode_report
from scheduler.core.job import ErrorInfo
from scheduler.core.notices import Drain, Lease, Revoke
from scheduler.core.reports import Sender
from scheduler.testing.memory_broker import Stored
from scheduler.worker.actions import (
    Action,
    Failed,
    GuardRun,
    KillRun,
    Left,
    Outcome,
    SendReport,
    Snoozed,
    StartRun,
    StopRun,
    Succeeded,
)
from scheduler.worker.desk import SessionConfig
from scheduler.worker.session import Session
from tests.simulation.clock import DRIFT_PPM, MachineClock
from tests.simulation.handler import Plan
from tests.simulation.ledger import Running
from tests.simulation.network import Link
from tests.simulation.timeline import Alarm

if TYPE_CHECKING:
    from tests.simulation.world import World

POOL = "default"
TYPES = frozenset({"x.run"})
GUARD_LOOKS_MS = 100  # the guard finds an overdue child this late at most


class Child:
    """What runs handlers; killed for one run, it takes the others with it."""

    def __init__(self) -> None:
        self.runs: dict[int, ChildRun] = {}
        self.dead = False


class ChildRun(msgspec.Struct, eq=False):
    """One run as its child knows it. `begun` is empty until the child has got it."""

    number: int
    lease: Lease
    child: Child
    plan: Plan
    deadline_ms: int  # of the worker's monotonic clock, as the guard's table says
    running: Running | None = None
    over: bool = False
    saves: int = 0
    stopping: str = ""


class WorkerProcess:
    """One incarnation. `stopped` is SIGSTOP of the parent alone: children and the guard go on."""

    def __init__(self, world: "World", name: str, boot: int) -> None:
        chance = world.chance
        self.world = world
        self.name = name
        self.timeline = world.timeline
        self.clock = MachineClock(
            self.timeline, chance.randrange(10**6, 10**9), chance.randint(-DRIFT_PPM, DRIFT_PPM)
        )
        self.link = Link(self.timeline, world.delay_ms, chance.choice((20_000, 300_000)))
        self.inbox = chance.randrange(world.inboxes)
        self.slots = chance.choice((1, 2, 4))
        self.shares_child = chance.random() < 0.4
        sender = Sender(name, boot.to_bytes(16, "big"), POOL, self.inbox, "r1")
        self.sender = sender
        reserved = 1 if self.slots > 1 and chance.random() < 0.3 else 0
        self.session = Session(SessionConfig(sender, world.shards, self.slots, TYPES, reserved))
        self.dead = self.stopped = False
        self.draining = False
        self._is_deaf = False
        self._unheard: deque[Stored] = deque()
        self._shared = Child()
        self._runs: dict[int, ChildRun] = {}
        self._children: deque[tuple[str, tuple[object, ...]]] = deque()
        self._mail: deque[tuple[str, object]] = deque()
        self._actions: deque[Action] = deque()
        self._alarm = Alarm(self.timeline, self._turn)
        self._alarm.set(self.timeline.ms)

    # -- what arrives ------------------------------------------------------------------------------

    def noticed(self, stored: Stored) -> None:
        """Something stands in its inbox now."""
        if self._is_deaf:
            self._unheard.append(stored)
            return
        self.link.down.send(partial(self._hear, "notice", decode_notice(stored.value)))
        if self.world.is_doubled():
            self.link.down.send(partial(self._hear, "notice", decode_notice(stored.value)))

    def deafen(self) -> None:
        """Let the leader of its inbox be out of reach; those that take its reports are not."""
        self._is_deaf = True

    def hear_again(self) -> None:
        self._is_deaf = False
        while self._unheard:
            self.noticed(self._unheard.popleft())

    def _hear(self, kind: str, what: object) -> None:
        if not self.dead:
            self._mail.append((kind, what))
            self._alarm.set(self.timeline.ms)

    def _child_says(self, kind: str, *what: object) -> None:
        if not self.dead:
            self._children.append((kind, what))
            self._alarm.set(self.timeline.ms)

    # -- its loop, in the order of the production parent -----------------------------------------------

    def _turn(self) -> None:
        if self.dead or self.stopped:
            return
        session, now_ms = self.session, self.clock.mono_ms()
        self._do(session.on_capacity(self.slots, now_ms))
        while self._children:
            kind, what = self._children.popleft()
            self._do(self._on_child(kind, what, now_ms))
        while self._mail:
            self._on_mail(*self._mail.popleft(), now_ms)
        self._do(session.tick(now_ms))
        self._perform()
        if self.draining and session.drained(self.clock.mono_ms()):
            self.world.gone(self)
            return
        self._alarm.set(max(self.timeline.ms + 1, self.clock.true_ms(session.next_ms())))

    def _on_child(self, kind: str, what: tuple, now_ms: int) -> list[Action]:  # type: ignore[type-arg]
        session = self.session
        if kind == "began":
            return session.on_began(*what, now_ms)
        if kind == "finished":
            return session.on_finished(*what, now_ms)
        if kind == "gone":
            return session.on_gone(*what, now_ms)
        if kind == "shield":
            return session.on_shield(*what, now_ms)
        assert kind == "save"
        return session.on_save(*what, now_ms)

    def _on_mail(self, kind: str, what: object, now_ms: int) -> None:
        session = self.session
        if kind == "acked":
            self._do(session.on_acked(what, now_ms))
        elif kind == "failed":
            self._do(session.on_failed(what, now_ms, retriable=True, why="timed out"))
        elif isinstance(what, Lease):
            ours = what.boot_id == self.sender.boot_id
            self._do(session.on_lease(what, decode_job(what.spec) if ours else None, now_ms))
        elif isinstance(what, Revoke):
            self._do(self._revoked(what, now_ms))
        elif isinstance(what, Drain):
            self.drain()

    def _revoked(self, revoke: Revoke, now_ms: int) -> list[Action]:
        actions = self.session.on_revoke(revoke, now_ms)
        ended = [
            self._runs[one.run]
            for one in actions
            if isinstance(one, KillRun | StopRun) and one.run in self._runs
        ]
        for run in ended:
            if (run.lease.job_id, run.lease.epoch) == (revoke.job_id, revoke.epoch) and self._lives(run):
                self.world.ledger.revoked(self.name, revoke.job_id, revoke.epoch)
        return actions

    def _lives(self, run: ChildRun) -> bool:
        return not run.over and self.clock.mono_ms() < run.deadline_ms

    # -- actions -----------------------------------------------------------------------------------

    def _do(self, actions: list[Action]) -> None:
        self._actions += actions

    def _perform(self) -> None:
        while self._actions:
            action = self._actions.popleft()
            if isinstance(action, SendReport):
                self._send(action)
            elif isinstance(action, StartRun):
                self._start(action)
            elif isinstance(action, GuardRun):
                self._guard(action)
            elif isinstance(action, KillRun):
                self._kill(action.run)
            elif isinstance(action, StopRun):
                self._ask_to_leave(action)

    def _send(self, sending: SendReport) -> None:
        value = encode_report(sending.report)
        arrive = partial(self._arrives, sending.ticket, sending.partition, value)
        self.link.up.send(arrive, partial(self._hear, "failed", sending.ticket))

    def _arrives(self, ticket: int, partition: int, value: bytes) -> None:
        self.world.report(partition, value)
        if self.world.is_doubled():
            self.world.later(partial(self.world.report, partition, value))
        self.link.down.send(partial(self._hear, "acked", ticket))

    # -- children and the guard --------------------------------------------------------------------

    def _start(self, start: StartRun) -> None:
        own = start.lease.suspect or not self.shares_child
        child = Child() if own else self._shared
        run = ChildRun(
            start.run, start.lease, child, self.world.handlers.plan(start.lease), start.deadline_ms
        )
        self._runs[start.run] = child.runs[start.run] = run
        self._watch(run)
        self.timeline.after(self.world.chance.choice((0, 2, 30)), partial(self._begin, run))

    def _begin(self, run: ChildRun) -> None:
        if self.dead or run.over:
            return
        lease = run.lease
        plan = run.plan
        run.running = Running(
            self.name, lease.job_id, lease.epoch, lease.token, self.timeline.ms, plan.result, plan.emits
        )
        self.world.note(self.name, f"runs {lease.job_id} epoch {lease.epoch} for {plan.run_ms} ms")
        self.world.ledger.starts(run.running)
        self._child_says("began", run.number)
        for at_ms in plan.saves_ms:
            self.timeline.after(at_ms, partial(self._save, run))
        self.timeline.after(plan.run_ms, partial(self._finish, run))

    def _save(self, run: ChildRun) -> None:
        if not run.over:
            run.saves += 1
            data = f"{run.lease.job_id}:{run.lease.epoch}:{run.saves}".encode()
            self._child_says("save", run.number, run.saves, data)

    def _finish(self, run: ChildRun) -> None:
        if run.over:
            return
        if run.plan.crashes:
            self._die(run.child, "killed by SIGSEGV")
            return
        self._end(run)
        self._child_says("finished", run.number, self._outcome(run))

    def _outcome(self, run: ChildRun) -> Outcome:
        plan = run.plan
        if run.stopping:
            return Left(run.stopping)
        if plan.verdict is not None:
            return Failed(plan.verdict, ErrorInfo("ValueError", "no"))
        if plan.snooze_ms:
            return Snoozed(plan.snooze_ms)
        return Succeeded(plan.result, emits=plan.emits)

    def _end(self, run: ChildRun) -> None:
        """Nothing of a run is left."""
        run.over = True
        run.child.runs.pop(run.number, None)
        self._runs.pop(run.number, None)
        if run.running is not None:
            self.world.ledger.is_over(run.running)

    def _die(self, child: Child, why: str) -> None:
        """A child is dead, with its whole process group."""
        runs = list(child.runs.values())
        child.dead = True
        if child is self._shared:
            self._shared = Child()
        for run in runs:
            self._end(run)
        if runs:
            self._child_says("gone", tuple(run.number for run in runs), why)

    def _guard(self, extended: GuardRun) -> None:
        run = self._runs.get(extended.run)
        if run is not None:
            run.deadline_ms = extended.deadline_ms
            self._watch(run)

    def _watch(self, run: ChildRun) -> None:
        looks_ms = self.world.chance.randrange(GUARD_LOOKS_MS)
        self.timeline.at(self.clock.true_ms(run.deadline_ms) + looks_ms, partial(self._guard_looks, run))

    def _guard_looks(self, run: ChildRun) -> None:
        if not self.dead and not run.over and self.clock.mono_ms() >= run.deadline_ms:
            self._die(run.child, "killed by the guard")

    def _kill(self, number: int) -> None:
        run = self._runs.get(number)
        if run is None:  # it has just ended: a kill ends in this report all the same
            self._child_says("gone", (number,), "nothing runs it")
            return
        self.timeline.after(self.world.chance.choice((1, 10, 40)), partial(self._killed, run))

    def _killed(self, run: ChildRun) -> None:
        if run.over:
            self._child_says("gone", (run.number,), "killed by SIGKILL")
        else:
            self._die(run.child, "killed by SIGKILL")

    def _ask_to_leave(self, stop: StopRun) -> None:
        run = self._runs.get(stop.run)
        if run is not None and run.plan.heeds:
            run.stopping = str(stop.reason)
            self.timeline.after(self.world.chance.choice((1, 300)), partial(self._finish, run))

    # -- what happens to it ------------------------------------------------------------------------

    def stop(self) -> None:
        self.stopped = True

    def go_on(self) -> None:
        self.stopped = False
        self._alarm.set(self.timeline.ms)

    def drain(self) -> None:
        if not self.draining:
            self.draining = True
            now_ms = self.clock.mono_ms()
            self._do(self.session.on_drain(now_ms + 20_000, now_ms + 25_000, now_ms))
            self._alarm.set(self.timeline.ms)

    def kill(self) -> None:
        """End as kill -9 would: the guard takes its children along."""
        self.dead = True
        for run in list(self._runs.values()):
            self._end(run)
        if self.world.chance.random() < 0.5:
            self.link.up.drop_all()

    def is_idle(self) -> bool:
        return not self._runs and not self.session.running and not self.session.unconfirmed()

    def leases(self) -> list[Lease]:
        return [run.lease for run in self._runs.values() if not run.over]
