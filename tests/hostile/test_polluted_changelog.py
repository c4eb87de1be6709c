"""A changelog that somebody else wrote to: the next owner says so and works on."""

import pytest

from tests.dispatcher.world import World

RUBBISH = {
    "meta": (b"m", b"rubbish"),
    "meta gone": (b"m", None),
    "state": (b"sX", b"rubbish"),
    "state of no text": (b"s\xff\xfe", b"rubbish"),
    "job record": (b"j\xff\xfe", b"rubbish"),
    "long key": (b"j" + b"k" * 100_000, b"rubbish"),
    "large job record": (b"jX", b"x" * 2_050_000),
    "an index": (b"rX", b""),
    "empty key": (b"", b"1"),
    "null key": (None, b"1"),
}


@pytest.mark.parametrize("own_disk", [False, True])
@pytest.mark.parametrize("what", RUBBISH)
def test_rubbish_in_a_changelog_stops_no_owner(
    what: str, own_disk: bool, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    first = world.start("d1")
    world.submit("a")
    world.turn(5)
    world.kill("d1")
    for seat in first.engine.seats.values():
        assert seat.store is not None
        seat.store.close()  # a killed process holds no lock
    world.broker.append("changelog", 0, RUBBISH[what][0], RUBBISH[what][1], at_ms=world.time.ms)
    world.checking = False  # what is expected is read from the changelog, rubbish included
    world.start("d2", stores=first.stores if own_disk else None)
    worker = world.worker()
    world.submit("b")
    for shard in range(4):
        worker.offer(2, shard=shard, sequence=1)
    world.wait(2_000)
    for lease in worker.leases():
        worker.done(lease)
    world.wait(2_000)
    ended = {change.job_id: change.event for change in world.lifecycle() if change.event != "refused"}
    assert ended == {"a": "succeeded", "b": "succeeded"}
    assert len(caplog.text) < 20_000
