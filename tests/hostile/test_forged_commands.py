"""Forged records that would have killed every owner of a shard, one after the other."""

import pytest

from scheduler.codec.commands import decode_command, encode_command
from scheduler.codec.errors import Refused
from scheduler.codec.job import encode_job
from scheduler.core import bounds
from scheduler.core.outputs import Forward
from scheduler.core.reports import Done, Emit
from scheduler.core.spec import JobSpec
from tests.dispatcher.world import World


@pytest.fixture
def world() -> World:
    made = World()
    made.start()
    return made


def forward(world: World, spec: JobSpec, **fields: object) -> None:
    known = {"band": 1, "topic": "t", "partition": 0, "offset": 1, "appended_at_ms": world.time.ms}
    command = Forward(**{"spec": encode_job(spec), **known, **fields})  # type: ignore[arg-type]
    world.broker.append(
        "commands", world.home(spec.job_id), None, encode_command(command), at_ms=world.time.ms
    )


@pytest.mark.parametrize("appended_at_ms", [-1, -(1 << 63), bounds.TIME_MAX_MS + 1, (1 << 63) - 1])
def test_an_append_time_that_no_key_can_hold_is_refused_before_it_is_in_a_state(
    world: World, appended_at_ms: int
) -> None:
    """Admitted as scheduled, such a job committed, and its timer then killed each owner."""
    forward(world, world.spec("later", run_at_ms=world.time.ms + 100), appended_at_ms=appended_at_ms)
    forward(world, world.spec("now"), appended_at_ms=appended_at_ms)
    world.wait(2_000)
    assert [dead["refusal"] for dead in world.dead_letters()] == ["out_of_bounds"] * 2
    assert all("/appended_at_ms" in dead["detail"] for dead in world.dead_letters())
    assert not world.states()


def test_a_source_longer_than_lifecycle_takes_is_refused(world: World) -> None:
    world.submit("a")
    world.turn(3)
    forward(world, world.spec("a", payload=b"other"), topic="x" * 300_000)
    world.turn(5)
    (dead,) = world.dead_letters()
    assert dead["refusal"] == "out_of_bounds"
    assert len(dead["detail"]) < 200


def test_forwards_that_name_the_wrong_shard_go_on_once(world: World) -> None:
    spec = world.spec("a")
    wrong = next(shard for shard in range(4) if shard != world.home("a"))
    command = Forward(1, encode_job(spec), "t", 0, 1, world.time.ms)
    for _ in range(50):
        world.broker.append("commands", wrong, None, encode_command(command), at_ms=world.time.ms)
    world.turn(20)
    assert list(world.states()) == ["a"]
    assert world.counts[("repeated",)] == 49
    assert len(world.records("commands")) == 50


def test_a_number_below_its_range_is_said_to_be_below() -> None:
    value = encode_command(Forward(1, b"", "t", 0, -1, 0))
    with pytest.raises(Refused, match="/offset: -1 is below the limit 0"):
        decode_command(value)


def test_a_hundred_forbidden_topics_leave_a_bounded_error(world: World) -> None:
    worker = world.worker()
    world.submit("a")
    worker.offer(1, shard=world.home("a"))
    world.turn(5)
    (lease,) = worker.leases()
    emits = tuple(Emit("\U0001f600" * 60 + str(n), b"", b"") for n in range(bounds.EMITS_MAX))
    worker.say(lease.shard, Done(worker.sender, "a", lease.epoch, lease.token, emits=emits))
    world.turn(5)
    (dead,) = world.dead_letters()
    assert dead["reason"] == "emit_refused"
    assert len(dead["error_message"].encode()) <= bounds.ERROR_MAX_BYTES


def test_emitted_jobs_that_nobody_can_read_are_quarantined_and_the_completion_counts(world: World) -> None:
    worker = world.worker()
    world.submit("a")
    worker.offer(1, shard=world.home("a"))
    world.turn(5)
    (lease,) = worker.leases()
    good = encode_job(world.spec("child"))
    values = (b"", b"\xc3", good[:-2], good + b"x", encode_job(world.spec("")), good)
    emits = tuple(Emit("", b"\xff" * n, value) for n, value in enumerate(values))
    worker.say(lease.shard, Done(worker.sender, "a", lease.epoch, lease.token, emits=emits))
    world.turn(10)
    assert sorted(dead["refusal"] for dead in world.dead_letters()) == sorted(
        ["empty", "framing", "undecodable", "trailing_bytes", "out_of_bounds"]
    )
    assert {job_id: str(state.phase) for job_id, state in world.states().items()} == {
        "a": "succeeded",
        "child": "ready",
    }
