"""Broken variants of the worker."""

from typing import Any
from unittest.mock import patch

import msgspec

from scheduler.core.reports import ReleaseReason
from scheduler.core.spec import JobSpec
from scheduler.worker import memory, offers, runs, session
from tests.simulation import worker
from tests.simulation.breaking import Patches, variant


@variant("nobody stops a run whose lease was not renewed", "workers", 12, first=1)
def no_self_fencing() -> Patches:
    yield patch.object(runs.RunTable, "overdue", lambda self, now_ms: [])
    yield patch.object(worker.WorkerProcess, "_guard_looks", lambda self, run: None)


@variant("a stopped parent stops no run; without the guard it goes on", "workers", 12, first=1)
def no_guard() -> Patches:
    yield patch.object(worker.WorkerProcess, "_guard_looks", lambda self, run: None)


@variant("the first period counts from the sending of the offer, not from the lease's arrival", "workers", 12)
def first_deadline_from_arrival() -> Patches:
    original = session.Session._start

    def later(self: Any, lease: Any, spec: Any, kind: int, sent_ms: int, now_ms: int) -> None:
        original(self, lease, spec, kind, now_ms, now_ms)

    yield patch.object(session.Session, "_start", later)


@variant(
    "a renewal counts from the sending of the beat, not from its acknowledgement",
    "late acknowledgements",
    12,
    first=8,
)
def renewal_from_acknowledgement() -> Patches:
    original = session.Session._renewed

    def later(self: Any, mail: Any, now_ms: int) -> None:
        original(self, msgspec.structs.replace(mail, sent_ms=now_ms), now_ms)

    yield patch.object(session.Session, "_renewed", later)


@variant("the margin is what covers the way and clocks that drift", "workers", 12, first=2)
def no_margin() -> Patches:
    original = session.Session._renewed

    def later(self: Any, mail: Any, now_ms: int) -> None:
        original(self, msgspec.structs.replace(mail, sent_ms=mail.sent_ms + 4_000), now_ms)

    yield patch.object(session.Session, "_renewed", later)


@variant("an old lease starts its job, and counts as fresh, after it has expired", "workers", 8)
def late_leases_started() -> Patches:
    original = session.Session._start

    def as_fresh(self: Any, lease: Any, spec: Any, kind: int, sent_ms: int, now_ms: int) -> None:
        fresh = max(sent_ms, now_ms - 5_000)
        original(self, lease, spec, kind, fresh, now_ms)

    yield patch.object(offers.OfferBook, "_forget", lambda self, now_ms: None)
    yield patch.object(offers.OfferBook, "starts", lambda self, sequence, now_ms: sequence in self._sent)
    yield patch.object(session.Session, "_start", as_fresh)


@variant("a lease that comes twice runs twice", "everything", first=2)
def ended_epochs_forgotten() -> Patches:
    yield patch.object(memory.EndedEpochs, "has", lambda self, job_id, epoch, now_ms: False)


@variant("a forged report has a revoke sent that stops somebody's run", "deaf", 8)
def revoke_without_token() -> Patches:
    original = session.Session.on_revoke

    def obedient(self: Any, revoke: Any, now_ms: int) -> Any:
        run = self._runs.of_job(revoke.job_id)
        if run is not None and run.lease.epoch == revoke.epoch:
            revoke = msgspec.structs.replace(revoke, token=run.lease.token)
        return original(self, revoke, now_ms)

    yield patch.object(session.Session, "on_revoke", obedient)


@variant("a lease of another incarnation is nobody's to run", "long runs", 8)
def leases_of_others_accepted() -> Patches:
    original = session.Session.on_lease

    def greedy(self: Any, lease: Any, spec: Any, now_ms: int) -> Any:
        lease = msgspec.structs.replace(lease, boot_id=self._boot_id)
        return original(self, lease, spec or FOREIGN_SPEC, now_ms)

    yield patch.object(session.Session, "on_lease", greedy)


@variant("free slots that nobody answered are forgotten", "deaf")
def offers_never_repeated() -> Patches:
    yield patch.object(offers.OfferBook, "_reclaim", lambda self, now_ms: None)
    yield patch.object(offers.OfferBook, "next_ms", lambda self: 0 if self.has_idle else offers.NEVER)


@variant("who answers a lease of another incarnation ends it under its run", "everything", 4)
def leases_of_others_answered() -> Patches:
    original = session.Session.on_lease

    def answering(self: Any, lease: Any, spec: Any, now_ms: int) -> Any:
        if lease.boot_id == self._boot_id:
            return original(self, lease, spec, now_ms)
        self._refuse(lease, ReleaseReason.BUSY, now_ms)
        return self._finish(now_ms)

    yield patch.object(session.Session, "on_lease", answering)


FOREIGN_SPEC = JobSpec("foreign", "t", "q", "x.run", b"{}")
