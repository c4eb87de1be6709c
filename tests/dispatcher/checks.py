"""What must hold after every turn, whatever happened; each check names the rule that it guards."""

from collections.abc import Collection, Iterable

from scheduler.codec.state import decode_state
from scheduler.core import keys, keyspace
from scheduler.core.head import Head
from scheduler.core.index import index_keys
from scheduler.core.inputs import TOPIC_OF, Input
from scheduler.core.job import ENDED, MOVES, JobState, Phase
from scheduler.core.shard import Shard
from scheduler.dispatcher.engine import Engine
from scheduler.dispatcher.seat import Seat, Stage
from scheduler.dispatcher.set_aside import SetAside
from tests.dispatcher.fault_broker import FaultBroker

INDEXES = (keyspace.READY, keyspace.TIMER, keyspace.LEASED, keyspace.TIERED, keyspace.DROP)
DURABLE = (keyspace.STATE, keyspace.SPEC, keyspace.META)
_FIRST = b""
_LAST = b"\xff" * 8


def replayed(broker: FaultBroker, shard: int, before: int = 1 << 60) -> dict[bytes, bytes]:
    """Return what the committed changelog of a shard comes to."""
    values: dict[bytes, bytes | None] = {}
    for _, stored in broker.settled("changelog", shard, before):
        values[stored.key or b""] = stored.value
    return {key: value for key, value in values.items() if value is not None}


def states_in(values: dict[bytes, bytes], without: Collection[str] = ()) -> dict[str, JobState]:
    return {
        job_id: decode_state(value)
        for key, value in values.items()
        if key.startswith(keyspace.STATE) and (job_id := key[1:].decode()) not in without
    }


def check_engine(engine: Engine, broker: FaultBroker) -> None:
    """Check every shard that the engine has restored."""
    for seat in engine.seats.values():
        if seat.stage is not Stage.RESTORING:
            _check_seat(seat, broker, engine._intake._set_aside)
    assert not engine._fleet.offers._taken, "slots taken in a turn stay unsettled after it"


def _check_seat(seat: Seat, broker: FaultBroker, set_aside: SetAside) -> None:
    assert seat.store is not None
    stored = dict(seat.store.scan(_FIRST, _LAST, 1 << 30))
    durable = {key: value for key, value in stored.items() if key.startswith(DURABLE)}
    assert durable == replayed(broker, seat.number, seat.store.offset), (
        "the store is a prefix of the changelog"
    )
    states = states_in(durable)
    check_index(stored, states)
    check_specs(stored, states)
    check_homes(seat.number, states, broker.partitions)
    shown = {key: value for key, value in stored.items() if not set_aside.hides(key)}
    _check_memory(seat, states_in(durable, without=set_aside.jobs), shown)
    _check_positions(seat, broker)


def check_index(stored: dict[bytes, bytes], states: dict[str, JobState]) -> None:
    """The index is what the states imply, no more and no less."""
    kept = {key for key in stored if key.startswith(INDEXES)}
    assert kept == {key for state in states.values() for key in index_keys(state)}


def check_specs(stored: dict[bytes, bytes], states: dict[str, JobState]) -> None:
    """A job record is kept until success, cancel or expiry; of failed ones as long as their state."""
    for job_id, state in states.items():
        stub = state.end is not None and state.end.stub
        wanted = state.phase not in ENDED or (state.phase is Phase.FAILED and not stub)
        assert (keyspace.spec_key(job_id) in stored) == wanted, f"{job_id} {state.phase}"
    specs = [key[1:].decode() for key in stored if key.startswith(keyspace.SPEC)]
    assert set(specs) <= set(states), "a record without a state"


def check_homes(number: int, states: dict[str, JobState], shards: int) -> None:
    """A job lives in the shard of its id only."""
    assert all(keys.shard_of(job_id, shards) == number for job_id in states)


def _check_memory(seat: Seat, states: dict[str, JobState], stored: dict[bytes, bytes]) -> None:
    shard = seat.shard
    leased = {(job_id, state.epoch) for job_id, state in states.items() if state.phase is Phase.LEASED}
    assert {(state.job_id, state.epoch) for state in shard.live()} == leased
    ended = {(job_id, states[job_id].epoch) for job_id in shard.changes.states if job_id in states}
    assert {(entry.job_id, entry.epoch) for entry in seat.leases} == leased - ended, (
        "one renewal entry a live lease, unless its end waits for a transaction"
    )
    assert all(states[job_id] == state for job_id, state in shard._ready.items()), (
        "what is kept in memory is true"
    )
    assert shard._ready_specs.keys() <= shard._ready.keys()
    assert all(stored[keyspace.spec_key(job_id)] == raw for job_id, raw in shard._ready_specs.items())
    assert shard.epoch >= max((state.epoch for state in states.values()), default=0)
    _check_heads(seat, shard, stored)


def _check_heads(seat: Seat, shard: Shard, stored: dict[bytes, bytes]) -> None:
    """Every key on disk is either in memory or above what memory knows: nothing waits for ever."""
    for prefix, head in ((keyspace.TIMER, shard.timers), (keyspace.DROP, shard.drops)):
        _check_head(head, [key for key in stored if key.startswith(prefix)])
    if seat.stage is not Stage.ACTIVE:
        return
    lanes: dict[bytes, list[bytes]] = {}
    for key in stored:
        if key.startswith(keyspace.READY):
            lanes.setdefault(keyspace.lane_of(key), []).append(key)
    for lane, ready in lanes.items():
        queue = shard.fleet.matcher._queues[lane]
        assert queue.active, "a queue with ready jobs stands outside the tree"
        _check_head(queue._heads[shard.number], ready)


def _check_head(head: Head, wanted: Iterable[bytes]) -> None:
    assert not head._fresh, "the turn is over: everything pushed is in the store"
    known = set(head._heap)
    for key in wanted:
        assert key in known or (head._horizon is not None and key > head._horizon), key


def _check_positions(seat: Seat, broker: FaultBroker) -> None:
    for source, offset in seat.positions.items():
        assert 0 <= offset <= len(broker.log(TOPIC_OF[source], seat.number)), Input(source).name


def check_history(broker: FaultBroker) -> None:
    """Over the whole changelog: moves are legal, epochs rise, ended is ended."""
    reach = reachable()
    for shard in range(broker.partitions):
        last: dict[str, JobState] = {}
        forgotten: dict[str, int] = {}
        for _, stored in broker.settled("changelog", shard, 1 << 60):
            key = stored.key or b""
            if not key.startswith(keyspace.STATE):
                continue
            job_id = key[1:].decode()
            if stored.value is None:
                dropped = last.pop(job_id)
                assert dropped.phase in ENDED, f"{job_id} was dropped alive"
                forgotten[job_id] = max(dropped.epoch, forgotten.get(job_id, 0))
                continue
            state = decode_state(stored.value)
            before = last.get(job_id)
            if before is not None and lives_again(before, state):
                forgotten[job_id] = max(before.epoch, forgotten.get(job_id, 0))
                before = None
            if before is None:
                assert state.epoch == 0 or state.epoch > forgotten.get(job_id, 0), (
                    "a forgotten id starts higher"
                )
            else:
                assert state.phase in reach[before.phase], f"{job_id}: {before.phase} -> {state.phase}"
                assert state.epoch >= before.epoch
                if state.epoch == before.epoch and before.grant and state.grant:
                    assert state.grant.token == before.grant.token
            last[job_id] = state


def lives_again(before: JobState, state: JobState) -> bool:
    """Say whether a transaction dropped an ended job and admitted it anew: it holds a key once."""
    return before.phase in ENDED and state.admitted.submitted_at_ms > before.admitted.submitted_at_ms


def reachable() -> dict[Phase, set[Phase]]:
    """What one turn may take a job to: any number of legal moves."""
    reach = {phase: {phase, *MOVES[phase]} for phase in Phase}
    for phase in ENDED:
        reach[phase] = {phase}  # nobody asks for a new life here
    for _ in Phase:
        reach = {phase: set().union(*(reach[step] for step in steps)) for phase, steps in reach.items()}
    return reach
