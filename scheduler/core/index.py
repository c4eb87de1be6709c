"""The local indexes, as one function of a job's state: live and in restore alike.

They are never in the changelog. A change from an old to a new state deletes the keys that only the old one
has and puts those that only the new one has.
"""

from scheduler.core import keyspace
from scheduler.core.job import ENDED, JobState, Phase


def index_keys(state: JobState | None) -> tuple[bytes, ...]:
    """Return every index key that `state` implies."""
    if state is None:
        return ()
    phase = state.phase
    if phase is Phase.LEASED:
        return (keyspace.leased_key(state.job_id),)
    if phase in ENDED:
        return (keyspace.timed_key(keyspace.DROP, state.end.drop_at_ms, state.job_id),) if state.end else ()
    if phase is Phase.READY:
        key = keyspace.ready_key(state)
        return (key, *_timer(state, state.expires_at_ms)) if state.expires_at_ms else (key,)
    if phase is Phase.RETRYING and state.tier:
        waits = keyspace.timed_key(keyspace.TIERED, state.due_ms, state.job_id)
        return (waits, *_timer(state, state.expires_at_ms))
    if phase is Phase.BLOCKED:
        return _timer(state, state.expires_at_ms)
    return _timer(state, _earlier(state.due_ms, state.expires_at_ms))


def _timer(state: JobState, at_ms: int) -> tuple[bytes, ...]:
    return (keyspace.timed_key(keyspace.TIMER, at_ms, state.job_id),) if at_ms else ()


def _earlier(due_ms: int, expires_at_ms: int) -> int:
    return min(due_ms, expires_at_ms) if expires_at_ms else due_ms
