"""Records of megabytes: what is kept of them in memory, and what a dead letter holds."""

import pytest

from scheduler.core.outputs import Refusal
from scheduler.dispatcher.waiting_room import READ_AHEAD_BYTES
from tests.dispatcher.world import World

MB = 1_000_000


@pytest.fixture
def world() -> World:
    made = World()
    made.start()
    return made


@pytest.mark.parametrize("topic", ["reports", "submit.default", "commands"])
def test_what_no_dead_letter_can_hold_is_quarantined_by_reference_at_once(world: World, topic: str) -> None:
    """The broker would refuse it, and the turn would be tried four times over."""
    fits = world.broker.append(topic, 1, b"k", b"x" * (19 * MB // 10 - 1), at_ms=world.time.ms)
    large = world.broker.append(topic, 1, b"k", b"x" * (19 * MB // 10), at_ms=world.time.ms)
    world.turn(3)
    first, second = world.records("dlq")
    assert len(first.value) == 19 * MB // 10 - 1
    assert (first.key, second.key, second.value) == (b"k", b"", b"")
    heads = [dict(one.headers) for one in (first, second)]
    assert [int(head["source_offset"]) for head in heads] == [fits, large]
    assert {head["refusal"] for head in heads} == {str(Refusal.FRAMING)}
    assert "1900001 bytes" in heads[1]["detail"]
    assert world.dispatchers["d1"].signals.failures.total() == 0


def test_rubbish_in_a_retry_topic_waits_in_bounded_memory_and_none_is_lost(world: World) -> None:
    world.checking = False
    offsets = [
        world.broker.append("retry.30s", 0, None, b"x" * (MB // 2 + n), at_ms=world.time.ms)
        for n in range(40)
    ]
    engine = world.dispatchers["d1"].engine
    for _ in range(40):
        world.turn()
        held = sum(len(record.value or b"") for seat in engine.seats.values() for room in seat.rooms.values()
                   for record in room._records)  # fmt: skip
        assert held < READ_AHEAD_BYTES + MB
    world.wait(40_000)
    assert [int(dead["source_offset"]) for dead in world.dead_letters()] == offsets
    assert [len(one.value) for one in world.records("dlq")] == [MB // 2 + n for n in range(40)]
