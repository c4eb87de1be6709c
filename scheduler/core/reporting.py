"""What workers report of their leases, and what becomes of the jobs.

A report counts only if it names the live lease: job, epoch and token. One exception: a late `done` of the
latest epoch completes a job that went back to ready or retrying, since no higher epoch was granted and the
work is done. Everything else is answered with a revoke and counted; the first of an epoch goes to the
job's timeline.
"""

from hmac import compare_digest

import msgspec

from scheduler.core import bounds
from scheduler.core.emitting import emit_all, refused_topics
from scheduler.core.ending import cancel, dead_letter, succeed
from scheduler.core.history import with_attempt, with_event
from scheduler.core.job import (
    ENDED,
    LEASED,
    READY,
    RETRYING,
    Attempt,
    Ending,
    ErrorInfo,
    Event,
    JobState,
    Phase,
    grant_of,
    move,
)
from scheduler.core.moment import Moment
from scheduler.core.notices import Revoke
from scheduler.core.outputs import DeathReason, RetryOut, RetryRecord
from scheduler.core.reports import (
    Beat,
    Checkpoint,
    Done,
    Fail,
    Held,
    Offer,
    Release,
    ReleaseReason,
    Sender,
    Verdict,
)
from scheduler.core.retry import backoff_ms, release_backoff_ms, tier_for
from scheduler.core.shard import Shard

_LATE_DONE = frozenset({LEASED, READY, RETRYING})
_ONLY_LIVE = frozenset({LEASED})


def on_offer(shard: Shard, moment: Moment, offer: Offer) -> None:
    """Take free slots."""
    shard.fleet.offers.add(offer, shard.number, moment.mono_ms)


def on_done(shard: Shard, moment: Moment, done: Done, *, unpublished: str = "") -> None:
    """Complete a job, with everything its run emitted; or fail it if that is `unpublished`, for the reason given."""
    _take_freed(shard, moment, done)
    state = _claim(shard, moment, done, done.sender, _LATE_DONE, "done")
    if state is None:
        return
    _settle(shard, moment, state, done.run_ms, learn=True)
    if done.emits and (refused := refused_topics(shard, state, done.emits)):
        unpublished = f"queue {state.admitted.queue!r} may not emit to {', '.join(refused)}"
    if unpublished:
        _refuse_emits(shard, moment, state, unpublished)
        return
    late = state.phase is not LEASED
    shard.changes.counts["attempts", state.admitted.queue, "late_ok" if late else "ok"] += 1
    if done.emits:
        emit_all(shard, moment, state, done.emits)
    succeed(shard, moment, state, result=done.result, result_omitted=done.result_omitted)


def _refuse_emits(shard: Shard, moment: Moment, state: JobState, why: str) -> None:
    why = why.encode()[: bounds.ERROR_MAX_BYTES].decode(
        errors="ignore"
    )  # a run may name any topics, 100 of them
    error = ErrorInfo("EmitRefused", why)
    dead_letter(shard, moment, _with_run(state, moment, "failed", None, error), DeathReason.EMIT_REFUSED)


def on_fail(shard: Shard, moment: Moment, fail: Fail) -> None:
    """Count an attempt and send the job to its next one, or to its end."""
    _take_freed(shard, moment, fail)
    state = _claim(shard, moment, fail, fail.sender, _ONLY_LIVE, "fail")
    if state is None:
        return
    _settle(shard, moment, state, fail.run_ms, learn=fail.verdict is not Verdict.OUT_OF_MEMORY)
    outcome = "failed" if fail.verdict in (Verdict.RETRY, Verdict.FAIL) else str(fail.verdict)
    state = _with_run(state, moment, outcome, fail.sender, fail.error)
    shard.changes.counts["attempts", state.admitted.queue, outcome] += 1
    ending = grant_of(state).ending
    if ending is Ending.CANCEL:
        cancel(shard, moment, state, "cancelled", fail.error)
    elif ending is Ending.NONE and fail.verdict is Verdict.CANCEL:
        cancel(shard, moment, state, "handler", fail.error)
    elif ending is Ending.NONE and fail.verdict is Verdict.FAIL:
        dead_letter(shard, moment, _one_more(state), DeathReason.FAILED)
    else:
        _next_attempt(shard, moment, state, fail.retry_after_ms)


def on_release(shard: Shard, moment: Moment, release: Release) -> None:
    """Take a lease back that ended without a verdict."""
    _take_freed(shard, moment, release)
    state = _claim(shard, moment, release, release.sender, _ONLY_LIVE, "release")
    if state is None:
        return
    _settle(shard, moment, state, release.run_ms, learn=False)
    reason = release.reason
    shard.changes.counts["attempts", state.admitted.queue, str(reason)] += 1
    ending = grant_of(state).ending
    if ending is not Ending.NONE:
        _ended_on_request(shard, moment, state, release.sender)
    elif reason in (ReleaseReason.LOST, ReleaseReason.CRASHED):
        error = ErrorInfo(str(reason), release.detail) if release.detail else None
        lose(shard, moment, _with_run(state, moment, str(reason), release.sender, error))
    elif reason is ReleaseReason.SNOOZED:
        _snooze(shard, moment, state, release.delay_ms)
    elif reason in (ReleaseReason.TOO_LATE, ReleaseReason.UNKNOWN_TYPE):
        _back_off(shard, moment, state, release)
    elif reason is ReleaseReason.BUSY:
        shard.put(move(state, READY))
    else:
        _hand_back(shard, moment, state, release)


def on_beat(shard: Shard, moment: Moment, beat: Beat) -> None:
    """Renew leases. Renewals live in memory; the first one of an epoch sets `started` in the state."""
    for held in beat.leases:
        state = _claim(shard, moment, held, beat.sender, _ONLY_LIVE, "beat")
        if state is not None:
            _renew(shard, moment, state, held)


def on_checkpoint(shard: Shard, moment: Moment, checkpoint: Checkpoint) -> None:
    """Keep what the next attempt starts from."""
    state = _claim(shard, moment, checkpoint, checkpoint.sender, _ONLY_LIVE, "checkpoint")
    if state is not None:
        grant = msgspec.structs.replace(grant_of(state), started=True)
        shard.put(msgspec.structs.replace(state, checkpoint=checkpoint.data, grant=grant))


def lose(shard: Shard, moment: Moment, state: JobState) -> None:
    """Count a loss: a run that began and ended without anybody's word on the job."""
    history = msgspec.structs.replace(state.history, losses=state.history.losses + 1)
    state = msgspec.structs.replace(state, history=history)
    if history.losses >= bounds.LOSSES_MAX:
        dead_letter(shard, moment, state, DeathReason.LOST)
    else:
        shard.put(move(state, READY))


def timed_out(shard: Shard, moment: Moment, state: JobState, sender: Sender | None) -> None:
    """Count a run that the dispatcher had to end at its time-out as one attempt."""
    shard.changes.counts["attempts", state.admitted.queue, "timeout"] += 1
    _next_attempt(shard, moment, _with_run(state, moment, "timeout", sender, None), -1)


def revoke_of(shard: Shard, state: JobState, reason: str) -> Revoke:
    """Return the notice that stops a live lease."""
    given = grant_of(state)
    return Revoke(given.boot_id, state.job_id, given.epoch, given.token, shard.number, reason)


# -- does it count? -----------------------------------------------------------------------------------


def _claim(
    shard: Shard,
    moment: Moment,
    report: Done | Fail | Release | Checkpoint | Held,
    sender: Sender,
    phases: frozenset[Phase],
    kind: str,
) -> JobState | None:
    """Return the job's state if the report names its lease; otherwise answer it and return None."""
    state = shard.state(report.job_id)
    given = state.grant if state is not None else None
    if (
        state is not None
        and given is not None
        and given.epoch == report.epoch
        and state.phase in phases
        and compare_digest(given.token, report.token)
    ):
        return state
    _refuse(shard, moment, report, sender, state, kind)
    return None


def _refuse(
    shard: Shard,
    moment: Moment,
    report: Done | Fail | Release | Checkpoint | Held,
    sender: Sender,
    state: JobState | None,
    kind: str,
) -> None:
    # The revoke carries the token that the report named: a worker obeys it only for a run that it holds
    # under that token, so a forged report can't stop anybody's live run.
    reason = _stale_reason(state, report.epoch, report.token)
    shard.changes.counts["stale_reports", reason] += 1
    revoke = Revoke(sender.boot_id, report.job_id, report.epoch, report.token, shard.number, "unknown")
    shard.notify(sender.pool, sender.inbox, revoke)
    if state is None or not state.history.stale_epoch < report.epoch <= state.epoch:
        return
    text = f"{kind} of epoch {report.epoch} by {sender.worker} refused: {reason}"
    if isinstance(report, Done):
        text += f" (result of {len(report.result)} bytes)"
    history = with_event(state.history, Event(moment.now_ms, "stale_report", text))
    history = msgspec.structs.replace(history, stale_epoch=report.epoch)
    shard.put(msgspec.structs.replace(state, history=history))


def _stale_reason(state: JobState | None, epoch: int, token: bytes) -> str:
    if state is None:
        return "unknown_job"
    if state.epoch != epoch:
        return "epoch"
    if state.phase in ENDED:
        return "finished"
    known = state.grant is not None and compare_digest(state.grant.token, token)
    return "lease_over" if known else "token"


# -- renewals ---------------------------------------------------------------------------------------


def _renew(shard: Shard, moment: Moment, state: JobState, held: Held) -> None:
    given = grant_of(state)
    entry = shard.leases.get(state.job_id, given.epoch)
    if entry is not None:
        shard.leases.renewed(entry, moment.mono_ms)
        entry.fraction, entry.note = held.fraction, held.note
        ran_ms = moment.mono_ms - entry.granted_at_ms
        if ran_ms > entry.charged_ms and entry.payer is not None:
            entry.payer.charge(ran_ms - entry.charged_ms)
            entry.charged_ms = ran_ms
    if not given.started:
        shard.put(msgspec.structs.replace(state, grant=msgspec.structs.replace(given, started=True)))
    if given.ending is not Ending.NONE:
        # It still renews, since the worker counts on it; it is told again.
        shard.notify(given.pool, given.inbox, revoke_of(shard, state, str(given.ending)))


# -- what becomes of the job -------------------------------------------------------------------------


def _next_attempt(shard: Shard, moment: Moment, state: JobState, retry_after_ms: int) -> None:
    state = _one_more(state)
    attempt = state.history.attempt
    if attempt >= state.admitted.max_attempts:
        dead_letter(shard, moment, state, DeathReason.ATTEMPTS_EXHAUSTED)
        return
    spec = shard.spec(state.job_id)
    if spec is None:
        dead_letter(shard, moment, state, DeathReason.SPEC_MISSING)
        return
    delay_ms = max(backoff_ms(spec.backoff, attempt, moment.chance.fraction()), retry_after_ms)
    wait(shard, moment, state, delay_ms)


def wait(shard: Shard, moment: Moment, state: JobState, delay_ms: int) -> None:
    """Send a job to the longest retry topic that fits; a local timer waits for the rest."""
    delay_ms = min(delay_ms, bounds.DELAY_MAX_MS)
    due_ms = moment.now_ms + delay_ms
    tier = tier_for(delay_ms)
    if tier is not None:
        shard.changes.outputs.append(RetryOut(tier, RetryRecord(state.job_id, state.epoch, due_ms)))
    shard.put(move(state, RETRYING, due_ms=due_ms, tier=0 if tier is None else tier + 1))


def _snooze(shard: Shard, moment: Moment, state: JobState, delay_ms: int) -> None:
    history = msgspec.structs.replace(state.history, snoozes=state.history.snoozes + 1)
    wait(shard, moment, msgspec.structs.replace(state, history=history), delay_ms)


def _back_off(shard: Shard, moment: Moment, state: JobState, release: Release) -> None:
    state = _released(state, moment, release)
    wait(shard, moment, state, release_backoff_ms(state.history.releases))


def _hand_back(shard: Shard, moment: Moment, state: JobState, release: Release) -> None:
    shard.put(move(_released(state, moment, release), READY))


def _released(state: JobState, moment: Moment, release: Release) -> JobState:
    state = _with_run(state, moment, f"released:{release.reason}", release.sender, None)
    history = msgspec.structs.replace(state.history, releases=state.history.releases + 1)
    return msgspec.structs.replace(state, history=history)


def _ended_on_request(shard: Shard, moment: Moment, state: JobState, sender: Sender) -> None:
    if grant_of(state).ending is Ending.CANCEL:
        cancel(shard, moment, state, "cancelled")
    else:
        timed_out(shard, moment, state, sender)


def _one_more(state: JobState) -> JobState:
    history = msgspec.structs.replace(state.history, attempt=state.history.attempt + 1)
    return msgspec.structs.replace(state, history=history)


def _with_run(
    state: JobState, moment: Moment, outcome: str, sender: Sender | None, error: ErrorInfo | None
) -> JobState:
    given = grant_of(state)
    attempt = Attempt(
        moment.now_ms,
        state.history.attempt + 1,
        given.epoch,
        outcome,
        given.worker,
        sender.release if sender else "",
        error,
    )
    told = f"attempt {attempt.attempt}, epoch {given.epoch}, {given.worker}"
    event = Event(moment.now_ms, outcome, f"{told}: {error.error_class}" if error else told)
    history = with_event(with_attempt(state.history, attempt), event)
    return msgspec.structs.replace(state, history=history)


def with_lost_run(state: JobState, moment: Moment, outcome: str) -> JobState:
    """Return `state` with its live lease noted as ended by expiry."""
    return _with_run(state, moment, outcome, None, None)


def _settle(shard: Shard, moment: Moment, state: JobState, run_ms: int, *, learn: bool) -> None:
    entry = shard.leases.get(state.job_id, state.epoch)
    if entry is None:
        return
    busy_ms = min(run_ms, moment.mono_ms - entry.granted_at_ms)  # not longer than it can have been
    shard.settle(state.job_id, busy_ms)
    if learn:
        shard.fleet.estimates.learn(state.admitted.tenant, state.admitted.type, busy_ms)


def _take_freed(shard: Shard, moment: Moment, report: Done | Fail | Release) -> None:
    # A freed slot counts whatever one thinks of the report that carries it.
    if report.freed is not None:
        shard.fleet.offers.add_freed(report.sender, report.freed, shard.number, moment.mono_ms)
