"""Adopting a shard: what is read before the own echo, what is sent after it, and who gets how much time."""

import pytest

from scheduler.codec.reports import encode_report
from scheduler.core.notices import Lease, Revoke
from scheduler.core.reports import Echo
from scheduler.dispatcher.seat import Stage
from tests.dispatcher.world import World

FIRST_MS, LEASE_MS = 10_000, 20_000


@pytest.fixture
def two():
    """Two shards at `d1`, the others wait; the worker has offered its slots through one of them."""
    world = World()
    world.start("d1", shards=[0, 1])
    world.outlive()
    yield world
    world.finish()


def job_of(world: World, shard: int, *, number: int = 0) -> str:
    """Return an id that lives in `shard`."""
    fitting = (f"job-{n}" for n in range(10_000) if world.home(f"job-{n}") == shard)
    return [next(fitting) for _ in range(number + 1)][-1]


def hold_echoes(world: World, name: str) -> list[tuple[int, bytes]]:
    """Keep echoes back, as a slow broker would; return those kept."""
    kept: list[tuple[int, bytes]] = []
    world.dispatchers[name].log.echo = lambda shard, value: kept.append((shard, value))  # type: ignore[method-assign]
    return kept


def let_go(world: World, kept: list[tuple[int, bytes]]) -> None:
    for shard, value in kept:
        world.broker.append("reports", shard, None, value, at_ms=world.time.ms)
    kept.clear()


def test_shards_that_are_active_go_on_while_another_one_is_adopted(two):
    worker = two.worker()
    kept = hold_echoes(two, "d1")
    two.group.assign("d1", [2])
    ready = job_of(two, 2)
    two.submit(ready)
    two.turn(5)
    assert two.dispatchers["d1"].stages()[2] is Stage.ADOPTING
    assert two.state(ready).phase == "ready"  # admitted, but not granted
    other = job_of(two, 0)
    two.submit(other)
    worker.offer(4)
    two.turn(3)
    assert [lease.job_id for lease in worker.leases()] == [other]
    let_go(two, kept)
    two.turn(2)
    assert [lease.job_id for lease in worker.leases()] == [ready]


def test_ready_jobs_on_disk_and_of_this_turn_are_granted_once_the_echo_is_read(two):
    old = [job_of(two, 2, number=n) for n in range(3)]
    two.start("d2", shards=[2])
    two.outlive()
    for job_id in old:
        two.submit(job_id)
    two.turn(3)
    two.kill("d2")
    kept = hold_echoes(two, "d1")
    two.group.assign("d1", [2])
    two.turn(5)
    new = job_of(two, 2, number=5)
    two.submit(new)
    let_go(two, kept)
    worker = two.worker()
    worker.offer(10)
    two.turn(2)
    assert sorted(lease.job_id for lease in worker.leases()) == sorted([*old, new])


def grant(world: World, worker, job_id: str) -> Lease:
    world.submit(job_id)
    worker.offer()
    world.turn(2)
    (lease,) = worker.leases()
    return lease


def test_every_live_lease_is_sent_again_with_the_same_epoch_and_token(world, worker):
    lease = grant(world, worker, "a")
    world.kill("d1")
    world.join("d2")
    world.until(world.dispatchers["d2"].is_active)
    assert worker.hear() == [lease]


def test_reports_before_the_echo_are_heard_before_anything_is_sent_again(world, worker):
    lease = grant(world, worker, "a")
    world.kill("d1")
    worker.done(lease)
    world.start("d2")
    assert world.state("a").phase == "succeeded"
    assert worker.hear() == []


def test_echoes_of_another_owner_end_no_adoption(world, worker):
    lease = grant(world, worker, "a")
    world.kill("d1")
    world.join("d2")
    kept = hold_echoes(world, "d2")
    for shard in range(world.shards):
        for sequence in range(5):
            value = encode_report(Echo("d1", sequence))
            world.broker.append("reports", shard, None, value, at_ms=world.time.ms)
    world.turn(10)
    assert set(world.dispatchers["d2"].stages().values()) == {Stage.ADOPTING}
    assert worker.hear() == []
    let_go(world, kept)
    world.turn(2)
    assert worker.hear() == [lease]


def test_the_echo_is_repeated_each_second_until_one_comes_back(two):
    kept = hold_echoes(two, "d1")
    two.group.assign("d1", [2])
    two.turn(4)
    start = two.time.ms
    two.wait(5_000, every_ms=50)
    assert two.time.ms - start == 5_000
    assert len([shard for shard, _ in kept if shard == 2]) in (5, 6)


def test_nothing_is_granted_or_expired_before_the_echo_is_read(world, worker):
    lease = grant(world, worker, "a")
    world.kill("d1")
    world.join("d2")
    kept = hold_echoes(world, "d2")
    worker.offer(5)
    world.submit("b")
    world.wait(60_000)
    assert worker.hear() == []
    assert world.state("a").epoch == lease.epoch
    assert world.state("a").phase == "leased"
    assert world.state("b").phase == "ready"
    worker.offer(5)
    let_go(world, kept[-world.shards :])
    world.turn()
    assert world.state("a").phase == "leased"
    assert world.state("b").phase == "leased"


def test_a_take_over_gives_each_live_lease_a_whole_fresh_period(world, worker):
    grant(world, worker, "a")
    world.wait(FIRST_MS - 1_000)
    world.kill("d1")
    taken_over = world.time.ms
    world.start("d2")
    world.until(lambda: world.state("a").phase != "leased", turns=10_000, every_ms=50)
    assert LEASE_MS <= world.time.ms - taken_over <= LEASE_MS + 2_500


def test_an_ending_lease_is_not_sent_again_but_revoked(world, worker):
    world.submit("a", timeout_ms=100)
    worker.offer()
    world.turn(2)
    (lease,) = worker.leases()
    for _ in range(6):
        worker.beat(lease)
        world.wait(3_000)
    assert world.state("a").grant.ending == "timeout"
    worker.hear()
    world.kill("d1")
    world.start("d2")
    (notice,) = worker.hear()
    assert isinstance(notice, Revoke)
    assert (notice.job_id, notice.epoch, notice.token, notice.reason) == (
        "a",
        lease.epoch,
        lease.token,
        "timeout",
    )


def test_a_take_over_starts_without_offers(world, worker):
    worker.offer(5)
    world.wait(1_500)
    world.kill("d1")
    world.start("d2")
    world.submit("a")
    world.turn(5)
    assert worker.leases() == []


def test_a_wall_clock_that_runs_ahead_does_not_say_how_far_submits_are_read(world):
    world.kill("d1")
    d2 = world.join("d2")
    d2.clock.ahead_ms = 3_600_000
    hold_echoes(world, "d2")
    world.turn(10)
    for seat in d2.engine.seats.values():
        assert seat.stage is Stage.ADOPTING
        assert max(seat.shard.read_up_to_ms.values()) <= world.time.ms


def test_an_echo_sent_before_the_shard_was_lost_and_regained_says_nothing(two):
    # Both carry the same owner. Were the numbers to begin anew, the old echo would pass for the new one.
    d1 = two.dispatchers["d1"]
    two.group.assign("d1", [2])
    kept = hold_echoes(two, "d1")
    two.turn(5)
    assert d1.stages()[2] is Stage.ADOPTING
    old = [(shard, value) for shard, value in kept if shard == 2]
    kept.clear()
    d1.log.rejoin([2])
    two.turn(5)
    assert kept  # sent anew
    let_go(two, old)
    two.turn(5)
    assert d1.stages()[2] is Stage.ADOPTING
    let_go(two, kept)
    two.turn(2)
    assert d1.stages()[2] is Stage.ACTIVE
