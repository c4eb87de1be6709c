"""Index keys follow from the state alone, and their byte order is the order of what they stand for."""

import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core import keyspace
from scheduler.core.index import index_keys
from scheduler.core.job import Admitted, End, History, JobState, Phase
from scheduler.core.shard import index_delta

names = st.text("abcXYZ019._:-/", min_size=1, max_size=12)
times = st.integers(0, 253_402_300_799_999)


def ended(phase: Phase) -> bool:
    return phase in (Phase.SUCCEEDED, Phase.FAILED, Phase.CANCELLED, Phase.EXPIRED)


@st.composite
def states(draw, job_id: str | None = None) -> JobState:
    phase = draw(st.sampled_from(Phase))
    admitted = Admitted(
        draw(st.integers(0, 2)),
        draw(names),
        draw(names),
        "x",
        draw(st.integers(0, 9)),
        b"d",
        draw(times),
        draw(st.integers(0, 1 << 40)),
        5,
        1_000,
        has_key=False,
        expires_at_ms=draw(st.one_of(st.just(0), times)),
    )
    return JobState(
        job_id or draw(names),
        admitted,
        phase,
        due_ms=draw(times),
        tier=draw(st.integers(0, 5)) if phase is Phase.RETRYING else 0,
        history=History(losses=draw(st.integers(0, 2)), undelivered=draw(st.integers(0, 3))),
        end=End(1, draw(times)) if ended(phase) else None,
    )


@given(st.data())
def test_a_delta_takes_the_index_from_one_state_to_the_next(data):
    chain = [None, *data.draw(st.lists(st.one_of(st.none(), states("a")), max_size=6))]
    index: set[bytes] = set()
    for before, now in itertools.pairwise(chain):
        added: list[bytes] = []
        deletes: list[bytes] = []
        index_delta(before, now, added, deletes)
        assert not set(added) & set(deletes)
        assert not set(added) & index
        assert set(deletes) <= index
        index = (index | set(added)) - set(deletes)
        assert index == set(index_keys(now))


@given(states())
def test_every_live_state_can_be_found_by_what_moves_it_on(state):
    prefixes = {key[:1] for key in index_keys(state)}
    wanted = {
        Phase.READY: keyspace.READY,
        Phase.LEASED: keyspace.LEASED,
        Phase.RETRYING: keyspace.TIERED if state.tier else keyspace.TIMER,
        Phase.SCHEDULED: keyspace.TIMER,
    }.get(state.phase, keyspace.DROP if state.end else None)
    if wanted == keyspace.TIMER and not state.due_ms:
        return  # due at the beginning of time: never made
    if wanted is not None:
        assert wanted in prefixes


@given(states(), states())
def test_ready_keys_are_ordered_by_lane_then_priority_then_sequence(one, other):
    one, other = (msgspec.structs.replace(state, phase=Phase.READY) for state in (one, other))
    keys = [keyspace.ready_key(state) for state in (one, other)]
    lanes = [keyspace.lane_of(key) for key in keys]
    for state, key, lane in zip((one, other), keys, lanes, strict=True):
        assert key.startswith(lane)
        assert keyspace.job_of_ready(key, lane) == state.job_id
        assert keyspace.parse_lane(lane) == (
            state.admitted.band,
            state.admitted.tenant,
            state.admitted.queue,
            state.history.suspect,
        )
        assert lane < key < keyspace.after(lane)
    if lanes[0] == lanes[1]:
        orders = [
            (a.priority, a.submitted_at_ms, a.offset, s.job_id) for s in (one, other) if (a := s.admitted)
        ]
        assert (keys[0] < keys[1]) == (orders[0] < orders[1])
    else:
        assert not keys[0].startswith(lanes[1])
        assert not lanes[0] < keys[1] < keyspace.after(lanes[0])


@given(st.lists(st.tuples(times, names), max_size=20))
def test_timed_keys_are_ordered_by_time(entries):
    keys = sorted(keyspace.timed_key(keyspace.TIMER, at_ms, name) for at_ms, name in entries)
    assert [keyspace.parse_timed(key)[0] for key in keys] == sorted(at_ms for at_ms, _ in entries)
    assert all(keyspace.TIMER < key < keyspace.after(keyspace.TIMER) for key in keys)


def test_prefixes_differ():
    prefixes = [keyspace.META, keyspace.STATE, keyspace.SPEC, keyspace.READY, keyspace.TIMER, keyspace.LEASED]
    prefixes += [keyspace.TIERED, keyspace.DROP, keyspace.INDEXED]
    assert len(set(prefixes)) == len(prefixes)
    assert all(len(prefix) == 1 for prefix in prefixes)


@pytest.mark.parametrize(("due_ms", "expires_at_ms", "first"), [(5, 9, 5), (9, 5, 5), (7, 0, 7)])
def test_a_scheduled_job_is_looked_at_when_the_first_of_its_times_comes(due_ms, expires_at_ms, first):
    admitted = Admitted(1, "t", "q", "x", 3, b"d", 1, 2, 5, 1_000, has_key=False, expires_at_ms=expires_at_ms)
    state = JobState("a", admitted, Phase.SCHEDULED, due_ms=due_ms)
    assert index_keys(state) == (keyspace.timed_key(keyspace.TIMER, first, "a"),)
