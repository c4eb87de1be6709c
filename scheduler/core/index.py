"""The local indexes, as one function of a job's state: live and in restore alike.

They are never in the changelog. A change from an old to a new state deletes the keys that only the old one
has and puts those that only the new one has.
"""

from collections.abc import Callable
from typing import Final

from scheduler.core import keyspace
from scheduler.core.job import ENDED, JobState, Phase

Keys = tuple[bytes, ...]


def index_keys(state: JobState | None) -> Keys:
    """Return every index key that `state` implies."""
    return _KEYS_OF[state.phase](state) if state is not None else ()


def _leased(state: JobState) -> Keys:
    return (keyspace.leased_key(state.job_id),)


def _ready(state: JobState) -> Keys:
    return (keyspace.ready_key(state), *_timer(state, state.admitted.expires_at_ms))


def _scheduled(state: JobState) -> Keys:
    return _timer(state, _earlier(state.due_ms, state.admitted.expires_at_ms))


def _blocked(state: JobState) -> Keys:
    return _timer(state, state.admitted.expires_at_ms)


def _retrying(state: JobState) -> Keys:
    if not state.tier:
        return _scheduled(state)
    # Its retry record wakes it; the key finds it should that record never come.
    waits = keyspace.timed_key(keyspace.TIERED, state.due_ms, state.job_id)
    return (waits, *_timer(state, state.admitted.expires_at_ms))


def _ended(state: JobState) -> Keys:
    return (keyspace.timed_key(keyspace.DROP, state.end.drop_at_ms, state.job_id),) if state.end else ()


def _timer(state: JobState, at_ms: int) -> Keys:
    return (keyspace.timed_key(keyspace.TIMER, at_ms, state.job_id),) if at_ms else ()


def _earlier(due_ms: int, expires_at_ms: int) -> int:
    return min(due_ms, expires_at_ms) if expires_at_ms else due_ms


_KEYS_OF: Final[dict[Phase, Callable[[JobState], Keys]]] = {
    Phase.SCHEDULED: _scheduled,
    Phase.BLOCKED: _blocked,
    Phase.READY: _ready,
    Phase.LEASED: _leased,
    Phase.RETRYING: _retrying,
    **dict.fromkeys(ENDED, _ended),
}
