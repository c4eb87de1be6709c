"""A session with a clock in the test's hand, and what it did."""

from collections.abc import Callable
from typing import TypeVar

import msgspec

from scheduler.core.notices import Lease, Revoke
from scheduler.core.reports import Beat, Checkpoint, Done, Fail, Offer, Release, Report, Sender
from scheduler.core.spec import JobSpec
from scheduler.core.timing import Timing
from scheduler.worker.actions import Action, Outcome, SendReport, StartRun, Succeeded
from scheduler.worker.desk import SessionConfig
from scheduler.worker.session import Session

BOOT_ID = b"B" * 16
SENDER = Sender("w", BOOT_ID, "default", 3, "r1")
A = TypeVar("A", bound=Action)
R = TypeVar("R", bound=Report)


class Play:
    """Drives one session. Reports are acknowledged as they are sent while `acks` is true."""

    def __init__(
        self,
        *,
        slots: int = 2,
        reserved: int = 0,
        shards: int = 8,
        timing: Timing | None = None,
        acks: bool = True,
        capacity: int = -1,
    ) -> None:
        self.timing = timing or Timing()
        self.session = Session(
            SessionConfig(SENDER, shards, slots, frozenset({"t"}), reserved=reserved, timing=self.timing)
        )
        self.now = 1_000_000
        self.acks = acks
        self.begins = True  # children get runs at once
        self.actions: list[Action] = []
        self.sent: list[SendReport] = []
        self.do(self.session.on_capacity(slots if capacity < 0 else capacity, self.now))

    # -- driving -----------------------------------------------------------------------------------

    def do(self, actions: list[Action]) -> list[Action]:
        """Note actions, start runs at once, acknowledge reports; return the actions given."""
        self.actions += actions
        for action in actions:
            if isinstance(action, StartRun) and self.begins:
                self.do(self.session.on_began(action.run, self.now))
            elif isinstance(action, SendReport):
                self.sent.append(action)
                if self.acks:
                    self.do(self.session.on_acked(action.ticket, self.now))
        return actions

    def pass_ms(self, duration_ms: int) -> None:
        """Let time pass; tick when the session wants it."""
        until = self.now + duration_ms
        while self.session.next_ms() <= until:
            self.now = max(self.now, self.session.next_ms())
            before = self.session.next_ms()
            self.do(self.session.tick(self.now))
            assert self.session.next_ms() > before or self.session.next_ms() > self.now, (
                "it asks for now for ever"
            )
        self.now = until

    def sleep_ms(self, duration_ms: int) -> None:
        """Let time pass while the process is stopped: nothing ticks."""
        self.now += duration_ms

    def offer(self) -> Offer:
        return self.reports(Offer)[-1]

    def lease_of(self, job: str = "j", epoch: int = 1, **fields: object) -> Lease:
        known = {
            "boot_id": BOOT_ID, "job_id": job, "epoch": epoch, "token": b"%016d" % epoch, "attempt": 1,
            "offer": self.offer().sequence, "lease_ms": 20_000, "timeout_ms": 600_000, "shard": 5,
            "suspect": False, "max_attempts": 5, "checkpoint": b"", "spec": b"",
        }  # fmt: skip
        return Lease(**{**known, **fields})

    def lease(self, job: str = "j", epoch: int = 1, *, type_: str = "t", **fields: object) -> int:
        """Give a lease; return the number of the run that it started, 0 if none."""
        return self.give(self.lease_of(job, epoch, **fields), type_)

    def give(self, lease: Lease, type_: str = "t") -> int:
        spec = JobSpec(lease.job_id, "acme", "q", type_, b"{}")
        actions = self.do(self.session.on_lease(lease, spec, self.now))
        return next((a.run for a in actions if isinstance(a, StartRun)), 0)

    def revoke(
        self, job: str = "j", epoch: int = 1, reason: str = "cancel", **fields: object
    ) -> list[Action]:
        known = {"boot_id": BOOT_ID, "token": b"%016d" % epoch, "shard": 5}
        notice = Revoke(**{**known, "job_id": job, "epoch": epoch, "reason": reason, **fields})
        return self.do(self.session.on_revoke(notice, self.now))

    def finish(self, run: int, outcome: Outcome | None = None) -> list[Action]:
        return self.do(self.session.on_finished(run, outcome or Succeeded(), self.now))

    def gone(self, *runs: int, detail: str = "killed by SIGKILL") -> list[Action]:
        return self.do(self.session.on_gone(runs, detail, self.now))

    # -- looking -----------------------------------------------------------------------------------

    def all(self, kind: type[A]) -> list[A]:
        return [action for action in self.actions if isinstance(action, kind)]

    def reports(self, kind: type[R]) -> list[R]:
        return [sent.report for sent in self.sent if isinstance(sent.report, kind)]

    def partitions(self, kind: type[Report]) -> list[int]:
        return [sent.partition for sent in self.sent if isinstance(sent.report, kind)]

    def ends(self, job: str = "j") -> list[Done | Fail | Release]:
        return [
            r
            for r in (s.report for s in self.sent)
            if isinstance(r, Done | Fail | Release) and r.job_id == job
        ]

    def clear(self) -> None:
        self.actions.clear()
        self.sent = [sent for sent in self.sent if isinstance(sent.report, Offer)][-1:]

    def tickets(self, kind: type[Report], where: Callable[[Report], bool] = lambda _: True) -> list[int]:
        return [sent.ticket for sent in self.sent if isinstance(sent.report, kind) and where(sent.report)]


def replaced(lease: Lease, **fields: object) -> Lease:
    return msgspec.structs.replace(lease, **fields)


__all__ = ["BOOT_ID", "SENDER", "Beat", "Checkpoint", "Play", "replaced"]
