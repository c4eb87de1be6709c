"""Deliberately broken variants of the production code: each leaves out or bends one rule, and the simulation must
find it. Each says why it is wrong; the rules are those of docs/DESIGN.md, sections 5, 7, 9 and 10.
"""

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import msgspec

from scheduler.core import leases, moment, reporting, shard, wakeups
from scheduler.core.inputs import Meta
from scheduler.core.job import NO_HISTORY, Phase, grant_of, move
from scheduler.core.leases import Renewal
from scheduler.core.outputs import CommandOut, MessageOut
from scheduler.core.spec import JobSpec
from scheduler.dispatcher import (
    adopting,
    commit,
    engine,
    engine_clock,
    intake,
    reading,
    recovery,
    restoring,
    seat,
    writing,
)
from scheduler.worker import memory, offers, runs, session
from tests.dispatcher import fault_log
from tests.simulation import worker

NEVER = 1 << 60
Patches = Iterator[Any]


class Variant(msgspec.Struct, frozen=True):
    """`seeds`: it must be found among so many of its profile."""

    name: str
    why: str
    profile: str
    seeds: int
    patches: Callable[[], Patches]


VARIANTS: dict[str, Variant] = {}


def variant(why: str, profile: str = "turns", seeds: int = 4) -> Callable[[Callable[[], Patches]], None]:
    def enter(patches: Callable[[], Patches]) -> None:
        name = patches.__name__
        VARIANTS[name] = Variant(name, why, profile, seeds, patches)

    return enter


@contextlib.contextmanager
def broken(name: str) -> Iterator[None]:
    """Let the production code be that variant."""
    with contextlib.ExitStack() as stack:
        for each in VARIANTS[name].patches():
            stack.enter_context(each)
        yield


# -- the transaction -----------------------------------------------------------------------------------


@variant("the store holds what may never commit")
def store_written_before_commit() -> Patches:
    def committed_late(
        log: Any, parts: Any, metadata: object, failpoint: Any, *, extra: Any
    ) -> dict[int, int]:
        flush = log.flush

        def flush_and_apply() -> dict[int, int]:
            last = flush()
            for each, written in parts:
                each.store.write(*each.shard.batch(written.entries), last[each.number] + 1, 0)
            return last

        with patch.object(log, "flush", flush_and_apply):
            return original(log, parts, metadata, failpoint, extra=extra)

    original = commit.commit
    yield patch.object(commit, "commit", committed_late)


@variant("the broker can't refuse a suspended owner's turn", "sleepers", 12)
def missing_group_metadata() -> Patches:
    original = commit.commit

    def unfenced(log: Any, parts: Any, metadata: object, failpoint: Any, *, extra: Any) -> dict[int, int]:
        return original(log, parts, None, failpoint, extra=extra)

    yield patch.object(commit, "commit", unfenced)


@variant("metadata of a membership newer than what the turn has acted on", "sleepers", 12)
def metadata_taken_at_commit() -> Patches:
    original = commit.commit

    def too_fresh(log: Any, parts: Any, metadata: object, failpoint: Any, *, extra: Any) -> dict[int, int]:
        fence = log.fence

        def fence_as_of_now(offsets: Any, metadata: object) -> None:
            fence(offsets, log._metadata)

        with patch.object(log, "fence", fence_as_of_now):
            return original(log, parts, metadata, failpoint, extra=extra)

    yield patch.object(commit, "commit", too_fresh)


@variant("a lease goes out whose grant may never commit")
def leases_released_before_commit() -> Patches:
    original = commit.commit

    def hasty(log: Any, parts: Any, metadata: object, failpoint: Any, *, extra: Any) -> dict[int, int]:
        for each, _ in parts:
            for notice in each.shard.changes.notices:
                log._send(partial(log._append, writing.encode_released(notice)))
        return original(log, parts, metadata, failpoint, extra=extra)

    yield patch.object(commit, "commit", hasty)


@variant("what a run emitted is published though its completion is tried again", "turns", 8)
def emits_outside_the_transaction() -> Patches:
    original = engine.Engine._written

    def published_at_once(self: Any, each: Any, now: Any, member: str) -> Any:
        kept = []
        for output in each.shard.changes.outputs:
            if isinstance(output, MessageOut):
                self._log._append(writing.encode_output(output, each.number, 1))
            else:
                kept.append(output)
        each.shard.changes.outputs = kept
        return original(self, each, now, member)

    yield patch.object(engine.Engine, "_written", published_at_once)


@variant("an unknown outcome is no abort: what has committed is lost from the store")
def unknown_taken_for_aborted() -> Patches:
    def aborted(self: Any, error: Exception) -> None:
        self._log.reopen()
        self._try(self._drop_turn)

    yield patch.object(recovery.Recovery, "unknown", aborted)


@variant("inputs of a dropped turn are lost")
def rewind_skipped() -> Patches:
    def forgotten(self: Any, held: Any) -> None:
        self.pending.clear()
        self.settled()

    yield patch.object(reading.Reading, "rewind", forgotten)


@variant("slots that a dropped turn took are never given back")
def slots_kept_by_a_dropped_turn() -> Patches:
    yield patch("scheduler.core.offers.Offers.give_back", lambda self: None)


# -- taking over ------------------------------------------------------------------------------------------


@variant("the next owner reads from where the last meta's predecessor stood")
def positions_not_in_meta() -> Patches:
    original = engine.Engine._written

    def without(self: Any, each: Any, now: Any, member: str) -> Any:
        written = original(self, each, now, member)
        written.meta = msgspec.structs.replace(written.meta, positions=each.meta.positions)
        written.entries[-1] = (written.entries[-1][0], writing.encode_meta(written.meta))
        return written

    yield patch.object(engine.Engine, "_written", without)


@variant("epochs begin anew with each owner", "everything")
def epoch_not_in_meta() -> Patches:
    original = shard.Shard.__init__

    def reset(self: Any, number: int, seen: Any, fleet: Any, table: Any, *, epoch: int) -> None:
        original(self, number, seen, fleet, table, epoch=0)

    yield patch.object(shard.Shard, "__init__", reset)


@variant("what a dead owner has open may still commit behind the restore", "sleepers", 12)
def restore_ends_before_open_transactions() -> Patches:
    def begin(self: Any, number: int, offset: int) -> None:
        super(fault_log.FaultChangelog, self).begin(number, offset)
        self._ends[number] = self._broker.stable_end("changelog", number)

    yield patch.object(fault_log.FaultChangelog, "begin", begin)


@variant("deletions that the cleaner has removed are never seen", "short keep", 12)
def old_store_believed() -> Patches:
    yield patch.object(restoring.Restorer, "_is_recent", lambda self, written_at_ms, now_ms: True)


@variant("leases that got lost between commit and release are never sent")
def no_resend_at_adopt() -> Patches:
    yield patch.object(adopting, "resend_leases", lambda each: 0)


@variant("granting before the clock is known: a wall clock that runs ahead starts jobs early", "everything")
def grants_while_adopting() -> Patches:
    original = adopting.Adopting.begin

    def at_once(self: Any, each: Any) -> None:
        original(self, each)
        each.stage = seat.Stage.ACTIVE
        each.shard.begin_granting()
        wakeups.resend_leases(each.shard)

    yield patch.object(adopting.Adopting, "begin", at_once)


@variant("an adopted lease may have been renewed until just before the take-over", "moves", 12)
def adopted_leases_get_the_first_period() -> Patches:
    original = leases.Leases.adopted

    def shorter(self: Any, entry: Renewal) -> None:
        entry.period_ms = self._timing.first_ms
        original(self, entry)

    yield patch.object(leases.Leases, "adopted", shorter)


@variant("after a reload a lease counts from its grant, whatever beats were read", "hand-overs", 12)
def renewals_forgotten_at_reload() -> Patches:
    original = leases.Leases.keep_only

    def forgetful(self: Any, live: Any) -> None:
        original(self, live)
        for entry in self:
            entry.read_at_ms, entry.period_ms = entry.granted_at_ms, self._timing.first_ms
            self._watch(entry)

    yield patch.object(leases.Leases, "keep_only", forgetful)


# -- leases at the dispatcher ------------------------------------------------------------------------------


@variant("a clock can't tell whether a renewal lies unread", "deaf", 12)
def expiry_by_time_alone() -> Patches:
    original = adopting.Adopting.send_echoes

    def impatient(self: Any, held: Any, mono_ms: int) -> None:
        original(self, held, mono_ms)
        for each in held.values():
            if each.stage is seat.Stage.ACTIVE:
                now = moment.Moment(self._clock.now_ms(mono_ms), mono_ms, NoChance())
                wakeups.expire_leases(each.shard, now, mono_ms)

    yield patch.object(adopting.Adopting, "send_echoes", impatient)


@variant(
    "the echo must have been produced a whole period after the last renewal, not just read then", "long runs"
)
def expiry_by_any_echo() -> Patches:
    original = leases.Leases.echo_read

    def read_now(self: Any, sequence: int) -> int | None:
        produced_at_ms = original(self, sequence)
        return None if produced_at_ms is None else produced_at_ms + 20_000

    yield patch.object(leases.Leases, "echo_read", read_now)


@variant("beats are heard and not counted", "long runs")
def renewals_not_counted() -> Patches:
    yield patch.object(leases.Leases, "renewed", lambda self, entry, mono_ms: None)


@variant("a report of an epoch that is over ends the live lease", "deaf", 8)
def stale_epoch_accepted() -> Patches:
    yield patch.object(reporting, "_claim", _claim_without("epoch"))


@variant("whoever guesses an epoch ends somebody's lease", "deaf", 8)
def wrong_token_accepted() -> Patches:
    yield patch.object(reporting, "_claim", _claim_without("token"))


@variant("a checkpoint of a run that is over takes the place of the live one's", "deaf", 8)
def stale_checkpoint_accepted() -> Patches:
    original = reporting._claim
    lax = _claim_without("epoch")

    def claim(each: Any, now: Any, report: Any, sender: Any, phases: Any, kind: str) -> Any:
        how = lax if kind == "checkpoint" else original
        return how(each, now, report, sender, phases, kind)

    yield patch.object(reporting, "_claim", claim)


@variant("a completion counts though its job went to somebody else", "deaf", 8)
def any_done_completes() -> Patches:
    original = reporting._claim
    lax = _claim_without("epoch")

    def claim(each: Any, now: Any, report: Any, sender: Any, phases: Any, kind: str) -> Any:
        how = lax if kind == "done" else original
        return how(each, now, report, sender, phases, kind)

    yield patch.object(reporting, "_claim", claim)


@variant("a lease that is being ended is over only by its worker's word or by expiry", "hand-overs", 12)
def timeout_frees_the_job_at_once() -> Patches:
    original = wakeups.resend_leases

    def freed(each: Any) -> int:
        for state in each.live():
            current = each.state(state.job_id)
            if current is state and str(grant_of(state).ending):
                each.leases.ended(state.job_id)
                each.put(move(state, Phase.READY))
        return original(each)

    yield patch.object(adopting, "resend_leases", freed)


# -- admission, time, forgetting ---------------------------------------------------------------------------


@variant("a job that lies in the wrong partition is accepted and never runs", "everything")
def forwarding_drops_a_job() -> Patches:
    original = intake.Intake._submit

    def lossy(self: Any, each: Any, now: Any, record: Any) -> None:
        original(self, each, now, record)
        each.changes.outputs = [one for one in each.changes.outputs if not isinstance(one, CommandOut)]

    yield patch.object(intake.Intake, "_submit", lossy)


@variant("two shards may hold one job", "everything")
def admitted_where_it_lies() -> Patches:
    class Anywhere(int):
        def __ne__(self, other: object) -> bool:
            return False

    yield patch.object(intake, "keys", SimpleNamespace(shard_of=lambda job_id, shards: Anywhere()))


@variant("an ended job may not even be kept for its keep time", "short keep")
def keep_time_ignored() -> Patches:
    def drop_now(each: Any, now: Any, job_id: str, drop_at_ms: int) -> bool:
        return original(each, now, job_id, drop_at_ms)

    original = wakeups._drop
    early = wakeups.drop_old

    def drop_old(each: Any, now: moment.Moment, limit: int) -> int:
        return early(each, msgspec.structs.replace(now, now_ms=now.now_ms + 5_000), limit)

    yield patch.object(wakeups, "_drop", drop_now)
    yield patch("scheduler.dispatcher.housekeeping.drop_old", drop_old)


@variant("a second submit of an id starts it anew", "short keep")
def repeats_admitted() -> Patches:
    from scheduler.core import admission

    def meet(each: Any, now: Any, known: Any, content: bytes, submitted: Any) -> None:
        if known.end is not None:
            each.put_spec(known.job_id, submitted.raw)
            each.put(msgspec.structs.replace(known, phase=Phase.READY, end=None, history=NO_HISTORY))

    yield patch.object(admission, "_meet", meet)


@variant("a wall clock that runs ahead starts jobs early", "everything", 12)
def wall_clock_believed() -> Patches:
    yield patch.object(engine_clock.EngineClock, "now_ms", lambda self, mono_ms: self.wall_ms())


@variant("a retry record is a hint: the state says when the job is due", "everything")
def retry_record_believed() -> Patches:
    def on_retry(each: Any, now: Any, record: Any) -> None:
        state = each.state(record.job_id)
        if state is not None and state.phase is Phase.RETRYING:
            each.put(move(state, Phase.READY, tier=0))

    yield patch.object(wakeups, "on_retry", on_retry)


@variant("a timer that was looked at is gone though its job was not due", "everything")
def timers_forgotten() -> Patches:
    original = wakeups._wake

    def forgetful(each: Any, now: Any, job_id: str) -> None:
        if hash_of(job_id) % 5:
            original(each, now, job_id)

    yield patch.object(wakeups, "_wake", forgetful)


@variant(
    "consumed records are deleted up to where reading is, not up to what was committed long ago", "everything"
)
def unread_records_deleted() -> Patches:
    original = seat.Seat.committed_as

    def ahead(self: Any, meta: Meta) -> None:
        original(self, meta)
        self.deletable = self.committed = {source: offset + 3 for source, offset in self.positions.items()}

    yield patch.object(seat.Seat, "committed_as", ahead)


# -- the worker --------------------------------------------------------------------------------------------


@variant("nobody stops a run whose lease was not renewed", "workers", 12)
def no_self_fencing() -> Patches:
    yield patch.object(runs.RunTable, "overdue", lambda self, now_ms: [])
    yield patch.object(worker.WorkerProcess, "_guard_looks", lambda self, run: None)


@variant("a stopped parent stops no run; without the guard it goes on", "workers", 12)
def no_guard() -> Patches:
    yield patch.object(worker.WorkerProcess, "_guard_looks", lambda self, run: None)


@variant("the first period counts from the sending of the offer, not from the lease's arrival", "workers", 12)
def first_deadline_from_arrival() -> Patches:
    original = session.Session._start

    def later(self: Any, lease: Any, spec: Any, kind: int, sent_ms: int, now_ms: int) -> None:
        original(self, lease, spec, kind, now_ms, now_ms)

    yield patch.object(session.Session, "_start", later)


@variant("a renewal counts from the sending of the beat, not from its acknowledgement", "workers", 12)
def renewal_from_acknowledgement() -> Patches:
    original = session.Session._renewed

    def later(self: Any, mail: Any, now_ms: int) -> None:
        original(self, msgspec.structs.replace(mail, sent_ms=now_ms), now_ms)

    yield patch.object(session.Session, "_renewed", later)


@variant("the margin is what covers the way and clocks that drift", "workers", 12)
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


@variant("a lease that comes twice runs twice", "everything")
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


# -- what they need ----------------------------------------------------------------------------------------


class NoChance:
    """Chance for what should not need any."""

    def fraction(self) -> float:
        return 0.5

    def token(self) -> bytes:
        raise AssertionError("no lease is granted here")


def hash_of(job_id: str) -> int:
    return sum(job_id.encode())


def _claim_without(what: str) -> Callable[..., Any]:
    def claim(each: Any, now: Any, report: Any, sender: Any, phases: Any, kind: str) -> Any:
        state = each.state(report.job_id)
        given = state.grant if state is not None else None
        if given is not None and state.phase in phases:
            epoch = what == "epoch" or given.epoch == report.epoch
            token = what in ("epoch", "token") or given.token == report.token
            if epoch and token:
                return state
        reporting._refuse(each, now, report, sender, state, kind)
        return None

    return claim


FOREIGN_SPEC = JobSpec("foreign", "t", "q", "x.run", b"{}")
