"""Granting leases: the next job of the fair tree for each free slot."""

from collections import deque

from scheduler.core import keyspace
from scheduler.core.crash import JobCrashed
from scheduler.core.ending import dead_letter, expire
from scheduler.core.fleet import Fleet
from scheduler.core.job import LEASED, READY, Grant, JobState, move
from scheduler.core.leases import Renewal
from scheduler.core.match import Pool, Queue
from scheduler.core.moment import Moment
from scheduler.core.notices import Lease
from scheduler.core.offers import Free
from scheduler.core.outputs import DeathReason
from scheduler.core.shard import Shard


def grant_all(fleet: Fleet, shards: dict[int, Shard], moment: Moment, limit: int) -> int:
    """Match free slots with ready jobs over all shards that may grant; return how many were granted.

    Slots for urgent bands only come first, so that urgent work does not use up the others.
    """
    fleet.offers.expire(moment.mono_ms)
    granted = 0
    for name, offers in fleet.offers.pools.items():
        pool = fleet.matcher.pools.get(name)
        if pool is None or not pool.has_work():
            continue
        for line in offers.lines:
            granted += _serve(line, pool, fleet, shards, moment, limit - granted)
    return granted


def _serve(
    line: deque[Free], pool: Pool, fleet: Fleet, shards: dict[int, Shard], moment: Moment, limit: int
) -> int:
    """Give each offer one job in turn, so that work spreads over workers, until work or slots end."""
    granted = 0
    unserved: list[Free] = []
    only_suspects = False  # nothing is left for slots that take none

    chosen: JobState | None = None

    def is_ready(shard: int, lane: bytes, key: bytes) -> bool:
        nonlocal chosen
        job_id = keyspace.job_of_ready(key, lane)
        try:
            chosen = _startable(shards[shard], moment, job_id, key)
        except Exception as error:
            raise JobCrashed(shard, job_id) from error
        return chosen is not None

    while line and granted < limit:
        free = line.popleft()
        if free.slots <= 0:
            continue
        if only_suspects and not free.takes_suspect:
            unserved.append(free)
            continue
        found = fleet.matcher.first(
            pool, free.lowest_band, takes_suspect=free.takes_suspect, is_ready=is_ready
        )
        if found is None or chosen is None:
            unserved.append(free)
            if free.takes_suspect or not pool.has_work():
                break  # all offers of a line accept the same bands
            only_suspects = True
            continue
        number, _, queue = found
        try:
            granted += grant(shards[number], moment, chosen, free, queue)
        except Exception as error:
            raise JobCrashed(number, chosen.job_id) from error
        if free.slots > 0:
            line.append(free)
    line.extendleft(reversed(unserved))
    return granted


def _startable(shard: Shard, moment: Moment, job_id: str, key: bytes) -> JobState | None:
    """Return the state of the ready job that a key stands for; None if it stands for none any more."""
    state = shard.state(job_id)
    if state is None or state.phase is not READY or keyspace.ready_key(state) != key:
        return None
    if 0 < state.admitted.expires_at_ms <= moment.now_ms:
        expire(shard, moment, state)
        return None
    return state


def grant(shard: Shard, moment: Moment, state: JobState, free: Free, payer: Queue) -> bool:
    """Lease a ready job to the worker behind an offer; return whether that took a slot."""
    job_id = state.job_id
    raw = shard.raw_spec(job_id)
    if raw is None:
        # Never run a job whose record is gone: say so, where someone looks.
        dead_letter(shard, moment, state, DeathReason.SPEC_MISSING)
        return False
    lease_ms = shard.fleet.settings.queue(state.admitted.queue).lease_ms
    sender = free.sender
    shard.fleet.offers.take(free, suspect=state.history.suspect)
    epoch = shard.next_epoch()
    token = moment.chance.token()
    given = Grant(
        epoch,
        token,
        lease_ms,
        state.admitted.timeout_ms,
        sender.worker,
        sender.boot_id,
        free.sequence,
        sender.pool,
        sender.inbox,
        moment.now_ms,
    )
    leased = move(state, LEASED, epoch=epoch, grant=given, due_ms=0)
    shard.put(leased)
    shard.notify(sender.pool, sender.inbox, lease_of(shard.number, leased, given, raw))
    estimate = shard.fleet.estimates.get(
        state.admitted.tenant, state.admitted.type, state.admitted.timeout_ms
    )
    payer.charge(estimate)
    shard.leases.granted(
        Renewal(
            job_id,
            epoch,
            lease_ms,
            state.admitted.timeout_ms,
            granted_at_ms=moment.mono_ms,
            read_at_ms=moment.mono_ms,
            period_ms=shard.fleet.timing.first_ms,
            payer=payer,
            charged_ms=estimate,
        )
    )
    return True


def lease_of(shard: int, state: JobState, given: Grant, raw: bytes) -> Lease:
    """Return the lease record of a granted job; the same each time it is sent."""
    return Lease(
        given.boot_id,
        state.job_id,
        given.epoch,
        given.token,
        state.history.attempt + 1,
        given.offer,
        given.lease_ms,
        given.timeout_ms,
        shard,
        state.history.suspect,
        state.admitted.max_attempts,
        state.checkpoint,
        raw,
    )
