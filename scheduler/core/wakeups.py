"""What time does to jobs: due times, expiries of leases, time-outs, keep times, and waking after a take-over."""

from collections.abc import Set as AbstractSet

import msgspec

from scheduler.core import bounds, keyspace
from scheduler.core.crash import JobCrashed
from scheduler.core.ending import cancel, dead_letter, expire, shrink
from scheduler.core.granting import lease_of
from scheduler.core.job import (
    ENDED,
    FAILED,
    LEASED,
    READY,
    RETRYING,
    SCHEDULED,
    End,
    Ending,
    Grant,
    JobState,
    grant_of,
    move,
)
from scheduler.core.leases import Renewal
from scheduler.core.moment import Moment
from scheduler.core.outputs import DeathReason, RetryRecord
from scheduler.core.reporting import lose, revoke_of, timed_out, with_lost_run
from scheduler.core.shard import Shard


def wake_due(shard: Shard, moment: Moment, limit: int) -> int:
    """Act on at most `limit` timers that are due; return how many were looked at."""
    looked_at = 0
    while looked_at < limit and (key := shard.timers.peek()) is not None:
        due_ms, job_id = keyspace.parse_timed(key)
        if due_ms > moment.now_ms:
            break
        shard.timers.pop()
        looked_at += 1
        try:
            _wake(shard, moment, job_id)
        except Exception as error:
            raise JobCrashed(shard.number, job_id) from error
    return looked_at


def lateness_ms(shard: Shard, now_ms: int) -> int:
    """Return for how long the first timer has been due, 0 if none is."""
    key = shard.timers.peek()
    return max(0, now_ms - keyspace.parse_timed(key)[0]) if key is not None else 0


def _wake(shard: Shard, moment: Moment, job_id: str) -> None:
    state = shard.state(job_id)
    if state is None or state.phase in ENDED or state.phase is LEASED:
        return
    if 0 < state.admitted.expires_at_ms <= moment.now_ms:
        expire(shard, moment, state)
    elif state.phase in (SCHEDULED, RETRYING) and state.due_ms <= moment.now_ms and not state.tier:
        shard.changes.counts[("woken",)] += 1
        shard.put(move(state, READY))


def drop_old(shard: Shard, moment: Moment, limit: int) -> int:
    """Drop or shrink at most `limit` ended jobs whose keep time is over; return how many were looked at."""
    looked_at = 0
    while looked_at < limit and (key := shard.drops.peek()) is not None:
        drop_at_ms, job_id = keyspace.parse_timed(key)
        if drop_at_ms > moment.now_ms:
            break
        try:
            if not _drop(shard, moment, job_id, drop_at_ms):
                break  # it stays at the head until all submits are known to be read that far
        except Exception as error:
            raise JobCrashed(shard.number, job_id) from error
        shard.drops.pop()
        looked_at += 1
    return looked_at


def _drop(shard: Shard, moment: Moment, job_id: str, drop_at_ms: int) -> bool:
    state = shard.state(job_id)
    end = state.end if state is not None else None
    if state is not None and end is not None and end.drop_at_ms == drop_at_ms:
        if not _read_past(shard, drop_at_ms):
            return False
        _forget(shard, moment, state, end)
    return True


def _forget(shard: Shard, moment: Moment, state: JobState, end: End) -> None:
    until_ms = end.at_ms + shard.fleet.settings.queue(state.admitted.queue).keep_keys_ms
    if state.admitted.has_key and not end.stub and until_ms > moment.now_ms:
        if state.phase is FAILED:
            shard.drop_spec(state.job_id)
        shard.put(shrink(state, until_ms))
    else:
        shard.drop(state.job_id)


def _read_past(shard: Shard, at_ms: int) -> bool:
    # A submit that is still unread may be a repeat of this job, in whichever partition it lies: dropping the state
    # would run it again.
    return shard.forgets_up_to_ms > at_ms


def on_retry(shard: Shard, moment: Moment, record: RetryRecord) -> None:
    """Take a job out of its retry topic. Early, late and doubled records do no harm: the state is the truth."""
    state = shard.state(record.job_id)
    if state is None or state.phase is not RETRYING or state.epoch != record.epoch or not state.tier:
        shard.changes.counts[("retry_records_ignored",)] += 1
    elif state.due_ms <= moment.now_ms:
        shard.put(move(state, READY, tier=0))
    else:
        shard.put(msgspec.structs.replace(state, tier=0))


def wake_overdue(shard: Shard, moment: Moment, tiers: AbstractSet[int], limit: int) -> int:
    """Make jobs ready whose retry record should have come long ago, looking at most at `limit`; return how many.

    `tiers` are those read to their end, with nothing due left to hand on: what has not come out of them is lost,
    and the state is the truth.
    """
    woken = 0
    line_ms = max(moment.now_ms - shard.fleet.timing.retry_overdue_ms, 0)
    for key, _ in shard.scan(keyspace.TIERED, keyspace.timed_key(keyspace.TIERED, line_ms, ""), limit):
        _, job_id = keyspace.parse_timed(key)
        try:
            woken += _wake_missed(shard, job_id, tiers)
        except Exception as error:
            raise JobCrashed(shard.number, job_id) from error
    return woken


def _wake_missed(shard: Shard, job_id: str, tiers: AbstractSet[int]) -> bool:
    state = shard.state(job_id)
    if state is None or state.phase is not RETRYING or state.tier - 1 not in tiers:
        return False
    shard.put(move(state, READY, tier=0))
    shard.changes.counts[("retry_records_missed",)] += 1
    return True


# -- leases --------------------------------------------------------------------------------------------


def expire_leases(shard: Shard, moment: Moment, echo_produced_at_ms: int) -> None:
    """Expire the leases that an own echo, read back just now, proves to be over."""
    for entry in shard.leases.expired(echo_produced_at_ms)[: bounds.TURN_EXPIRIES]:
        try:
            state = shard.state(entry.job_id)
            if state is not None and state.phase is LEASED and state.epoch == entry.epoch:
                shard.settle(entry.job_id, moment.mono_ms - entry.granted_at_ms)
                _expire_lease(shard, moment, state, grant_of(state))
        except Exception as error:
            raise JobCrashed(shard.number, entry.job_id) from error


def _expire_lease(shard: Shard, moment: Moment, state: JobState, given: Grant) -> None:
    if given.ending is Ending.CANCEL:
        cancel(shard, moment, state, "cancelled")
    elif given.ending is Ending.TIMEOUT:
        timed_out(shard, moment, state, None)
    elif given.started:
        shard.changes.counts["attempts", state.admitted.queue, "lost"] += 1
        lose(shard, moment, with_lost_run(state, moment, "lost"))
    else:
        shard.changes.counts["attempts", state.admitted.queue, "undelivered"] += 1
        _undelivered(shard, moment, with_lost_run(state, moment, "undelivered"))


def _undelivered(shard: Shard, moment: Moment, state: JobState) -> None:
    history = msgspec.structs.replace(state.history, undelivered=state.history.undelivered + 1)
    state = msgspec.structs.replace(state, history=history)
    if history.undelivered >= bounds.UNDELIVERED_MAX:
        dead_letter(shard, moment, state, DeathReason.UNDELIVERABLE)
    else:
        shard.put(move(state, READY))


def end_overlong(shard: Shard, moment: Moment) -> None:
    """Set `ending` on leases that are over their time-out, and ask their workers to stop.

    The worker's own time-out comes first; this one is for workers that don't keep theirs.
    """
    for entry in shard.leases.timeouts(moment.mono_ms):
        try:
            _end_overlong(shard, entry.job_id)
        except Exception as error:
            raise JobCrashed(shard.number, entry.job_id) from error


def _end_overlong(shard: Shard, job_id: str) -> None:
    state = shard.state(job_id)
    given = state.grant if state is not None else None
    if state is None or given is None or state.phase is not LEASED or given.ending is not Ending.NONE:
        return
    state = msgspec.structs.replace(state, grant=msgspec.structs.replace(given, ending=Ending.TIMEOUT))
    shard.put(state)
    shard.notify(given.pool, given.inbox, revoke_of(shard, state, str(Ending.TIMEOUT)))


def adopt_leases(shard: Shard, mono_ms: int) -> None:
    """Enter every live lease that has no entry in the renewal table, with a whole fresh period from `mono_ms`."""
    for state in shard.live():
        given = grant_of(state)
        shard.leases.adopted(
            Renewal(
                state.job_id,
                given.epoch,
                given.lease_ms,
                given.timeout_ms,
                granted_at_ms=mono_ms,
                read_at_ms=mono_ms,
                period_ms=given.lease_ms,
            )
        )


def resend_leases(shard: Shard) -> int:
    """Send every live lease again, for an ending one only its revoke; return how many."""
    sent = 0
    for state in shard.live():
        current = shard.state(state.job_id)
        if current is None or current.phase is not LEASED or current.epoch != state.epoch:
            continue
        given = grant_of(current)
        raw = shard.raw_spec(state.job_id)
        if given.ending is not Ending.NONE:
            shard.notify(given.pool, given.inbox, revoke_of(shard, current, str(given.ending)))
        elif raw is not None:
            shard.notify(given.pool, given.inbox, lease_of(shard.number, current, given, raw))
        sent += 1
    return sent
