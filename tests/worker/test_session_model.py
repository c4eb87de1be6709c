"""Any order of events, with an adversary at Kafka: what must hold after each of them.

The adversary leases what was offered, re-sends, revokes, delivers acknowledgements late or never, kills children,
and stops the process for a while. It checks the promises that the dispatcher counts on.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from scheduler.core.job import ErrorInfo
from scheduler.core.notices import Lease, Revoke
from scheduler.core.reports import Beat, Done, Fail, Offer, Release, Verdict
from scheduler.core.spec import JobSpec
from scheduler.core.timing import Timing
from scheduler.worker.actions import (
    Action,
    Failed,
    GuardRun,
    KillRun,
    Left,
    SendReport,
    Snoozed,
    StartRun,
    StopRun,
    Succeeded,
)
from scheduler.worker.desk import SessionConfig
from scheduler.worker.session import Session
from tests.worker.play import BOOT_ID, SENDER

SLOTS, RESERVED, SHARDS, L = 4, 1, 4, 20_000
TIMING = Timing()
JOBS = ("a", "b", "c", "d", "e", "f")
CHOICE = st.integers(min_value=0, max_value=10**6)


class Alive:
    """A run as its child knows it."""

    def __init__(self, start: StartRun) -> None:
        self.lease = start.lease
        self.deadline = start.deadline_ms
        self.killed = False
        self.stopped = False


class Adversary(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 1_000_000
        self.epochs = dict.fromkeys(JOBS, 0)
        self.offers: dict[int, tuple[int, int]] = {}  # sequence -> (sent, slots)
        self.leases: list[Lease] = []
        self.alive: dict[int, Alive] = {}
        self.started: set[tuple[str, int]] = set()
        self.ended: dict[tuple[str, int], int] = {}
        self.mail: list[tuple[SendReport, int]] = []  # not settled, and when sent

    @initialize(capacity=st.integers(0, SLOTS))
    def begin(self, capacity: int) -> None:
        types = frozenset({"t"})
        self.session = Session(SessionConfig(SENDER, SHARDS, SLOTS, types, reserved=RESERVED, timing=TIMING))
        self.perform(self.session.on_capacity(capacity, self.now))

    # -- what the worker's parent does -----------------------------------------------------------------

    def perform(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, SendReport):
                self.check_report(action)
                self.mail.append((action, self.now))
            elif isinstance(action, StartRun):
                self.check_start(action)
                self.alive[action.run] = Alive(action)
            elif isinstance(action, GuardRun):
                if action.run in self.alive:
                    self.alive[action.run].deadline = action.deadline_ms
            elif isinstance(action, KillRun):
                if action.run in self.alive:
                    self.alive[action.run].killed = True
            elif isinstance(action, StopRun):
                self.alive[action.run].stopped = True
        for start in [action for action in actions if isinstance(action, StartRun)]:
            self.perform(self.session.on_began(start.run, self.now))

    def check_start(self, start: StartRun) -> None:
        lease = start.lease
        assert lease.boot_id == BOOT_ID
        assert lease.epoch > max((e for job, e in self.started if job == lease.job_id), default=0), (
            "epochs rise"
        )
        assert (lease.job_id, lease.epoch) not in self.ended, "an ended epoch is never started"
        assert lease.job_id not in {run.lease.job_id for run in self.alive.values()}, (
            "one run of a job at a time"
        )
        sent, _ = self.offers[lease.offer]
        assert self.now < sent + 9_000
        assert start.deadline_ms <= sent + 9_000
        self.started.add((lease.job_id, lease.epoch))
        assert len(self.alive) < SLOTS

    def check_report(self, action: SendReport) -> None:
        report = action.report
        if isinstance(report, Offer):
            sent, slots = self.offers.get(report.sequence, (self.now, 0))
            self.offers[report.sequence] = (sent, slots + report.slots)
            assert report.slots > 0
        elif isinstance(report, Beat):
            for held in report.leases:
                run = next(r for r in self.alive.values() if r.lease.token == held.token)
                assert self.now < run.deadline, "a lease whose deadline has passed is not renewed"
                assert action.partition == run.lease.shard
        elif isinstance(report, Done | Fail | Release):
            key = (report.job_id, report.epoch)
            forgotten = self.now - self.ended.get(key, self.now) >= TIMING.first_ms
            if forgotten:
                assert report.reason == "too_late"  # what its offer can't start any more
            else:
                assert key not in self.ended, "one report ends a lease"
            self.ended[key] = self.now
            assert key not in {(r.lease.job_id, r.lease.epoch) for r in self.alive.values()}, (
                "its child may live"
            )
            if report.freed is not None:
                self.offers[report.freed.sequence] = (self.now, 1)

    def time(self, duration_ms: int, *, ticking: bool) -> None:
        until = self.now + duration_ms
        if ticking:
            while self.session.next_ms() <= until:
                self.now = max(self.now, self.session.next_ms())
                self.perform(self.session.tick(self.now))
                assert self.session.next_ms() > self.now
        self.now = until

    # -- what the world does -------------------------------------------------------------------------------

    @rule(job=st.sampled_from(JOBS), offer=CHOICE, suspect=st.booleans(), skip=st.integers(0, 2))
    def grant(self, job: str, offer: int, suspect: bool, skip: int) -> None:
        """The dispatcher grants a job: it has none live, or the last one has expired."""
        if not self.offers:
            return
        running = [run for run in self.alive.values() if run.lease.job_id == job]
        if any(self.now < run.deadline for run in running):
            return
        self.epochs[job] += 1 + skip
        epoch = self.epochs[job]
        sequence = sorted(self.offers)[-1 - offer % len(self.offers)]
        token = f"{job}{epoch:015d}".encode()
        shard = JOBS.index(job) % SHARDS
        lease = Lease(BOOT_ID, job, epoch, token, 1, sequence, L, 30_000, shard, suspect, 5, b"", b"")
        self.leases.append(lease)
        self.deliver(lease)

    @precondition(lambda self: self.leases)
    @rule(which=CHOICE)
    def resend(self, which: int) -> None:
        self.deliver(self.leases[-1 - which % min(len(self.leases), 8)])

    def deliver(self, lease: Lease) -> None:
        spec = JobSpec(lease.job_id, "acme", "q", "t", b"{}")
        self.perform(self.session.on_lease(lease, spec, self.now))

    @precondition(lambda self: self.leases)
    @rule(which=CHOICE, reason=st.sampled_from(["cancel", "timeout", "unknown"]), ahead=st.booleans())
    def revoke(self, which: int, reason: str, ahead: bool) -> None:
        lease = self.leases[-1 - which % min(len(self.leases), 8)]
        epoch = lease.epoch
        if ahead:  # of an epoch whose lease has not been sent yet
            self.epochs[lease.job_id] += 1
            epoch = self.epochs[lease.job_id]
        notice = Revoke(BOOT_ID, lease.job_id, epoch, lease.token, lease.shard, reason)
        if (lease.job_id, epoch) in self.ended and self.now - self.ended[lease.job_id, epoch] >= 9_000:
            return  # forgotten by then, and answered once more: harmless, but not the one report that we count
        self.perform(self.session.on_revoke(notice, self.now))

    @precondition(lambda self: self.mail)
    @rule(which=CHOICE, fate=st.sampled_from(["ack", "ack", "ack", "fail", "lose"]))
    def settle(self, which: int, fate: str) -> None:
        action, sent = self.mail.pop(which % len(self.mail))
        report = action.report
        before = {number: run.deadline for number, run in self.alive.items()}
        if fate == "ack":
            self.perform(self.session.on_acked(action.ticket, self.now))
            for number, run in self.alive.items():
                moved = run.deadline != before.get(number, run.deadline)
                assert not moved or isinstance(report, Beat)
                assert not moved or self.now < before[number], "a late acknowledgement revives nothing"
                assert not moved or run.deadline <= sent + L - 2_000
        elif fate == "fail" and isinstance(report, Beat | Offer):
            self.perform(self.session.on_failed(action.ticket, self.now, retriable=True, why="x"))

    @precondition(lambda self: self.alive)
    @rule(which=CHOICE, what=st.sampled_from(["ok", "fail", "snooze", "leave"]))
    def finish(self, which: int, what: str) -> None:
        number = sorted(self.alive)[which % len(self.alive)]
        run = self.alive[number]
        outcome = {
            "ok": Succeeded(b"1"),
            "fail": Failed(Verdict.RETRY, ErrorInfo("E")),
            "snooze": Snoozed(5),
            "leave": Left("timeout"),
        }[what]
        if not run.killed or what == "ok":
            del self.alive[number]  # a success counts even if it was to be killed: its work is done
        self.perform(self.session.on_finished(number, outcome, self.now))

    @precondition(lambda self: self.alive)
    @rule(which=CHOICE)
    def child_dies(self, which: int) -> None:
        killed = [number for number in sorted(self.alive) if self.alive[number].killed]
        numbers = killed or sorted(self.alive)
        number = numbers[which % len(numbers)]
        del self.alive[number]
        self.perform(self.session.on_gone((number,), "killed", self.now))

    @rule(capacity=st.integers(0, SLOTS))
    def children_come_and_go(self, capacity: int) -> None:
        self.perform(self.session.on_capacity(capacity, self.now))

    @rule(duration_ms=st.sampled_from([1, 100, 500, 1_000, 3_000, 4_000, 9_000, 20_000]))
    def time_passes(self, duration_ms: int) -> None:
        self.time(duration_ms, ticking=True)

    @rule(duration_ms=st.sampled_from([1, 1_000, 5_000, 9_000, 30_000]))
    def the_process_is_stopped(self, duration_ms: int) -> None:
        self.time(duration_ms, ticking=False)
        self.perform(self.session.tick(self.now))

    # -- what must hold ------------------------------------------------------------------------------------

    @invariant()
    def nothing_runs_past_its_deadline(self) -> None:
        for run in self.alive.values():
            assert run.killed or self.now < run.deadline

    @invariant()
    def no_more_slots_are_promised_than_there_are(self) -> None:
        if hasattr(self, "session"):
            book = self.session._desk.book
            standing = sum(sum(s.slots) for s in book._standing.values())
            assert sum(book._busy) == self.session.running
            assert book._offered == [sum(s.slots[kind] for s in book._standing.values()) for kind in (0, 1)]
            assert sum(book._busy) + standing <= SLOTS
            open_standing = sum(s.slots[1] for s in book._standing.values())
            assert book._busy[1] + open_standing <= SLOTS - RESERVED


TestAdversary = Adversary.TestCase
TestAdversary.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
