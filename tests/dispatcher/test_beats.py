"""Beats: they renew, the first of an epoch is remembered for good, and nothing else of them is."""

import pytest

from scheduler.core.job import NO_HISTORY
from scheduler.core.reports import Beat, Held
from tests.dispatcher.lives import grant, run

FIRST_MS, LEASE_MS = 10_000, 20_000


def test_the_first_beat_of_an_epoch_is_committed_as_started(world, worker):
    lease = grant(world, worker)
    assert not world.state().grant.started
    worker.beat(lease)
    world.turn()
    assert world.state().grant.started


def test_later_beats_commit_nothing_but_positions_once_a_second(world, d1, worker):
    lease = run(world, worker)
    world.wait(2_000)
    world.turn(3)
    before = d1.signals.commits
    for _ in range(20):
        worker.beat(lease)
        world.turn(every_ms=40)
    assert d1.signals.commits - before <= 1
    world.wait(1_200, every_ms=100)
    assert world.meta(lease.shard).positions["reports"] == len(world.broker.log("reports", lease.shard))


def test_a_beat_renews_for_a_whole_period(world, worker):
    lease = run(world, worker)
    start = world.time.ms
    while world.time.ms < start + 100_000:
        world.wait(LEASE_MS - 1_000)
        worker.beat(lease)
        world.turn()
    assert world.state().phase == "leased"
    assert world.state().epoch == lease.epoch


def test_one_beat_renews_many_leases(world, worker):
    worker.offer(20)
    for number in range(20):
        world.submit(f"job-{number}")
    world.turn(2)
    leases = worker.leases()
    for _ in range(4):
        worker.beat(*leases)
        world.wait(9_000)
    assert all(state.phase == "leased" and state.grant.started for state in world.states().values())


def test_a_checkpoint_is_committed_and_says_that_the_run_has_started(world, worker):
    lease = grant(world, worker)
    worker.checkpoint(lease, b"5")
    world.turn()
    state = world.state()
    assert (state.checkpoint, state.grant.started, state.history) == (b"5", True, NO_HISTORY)


def test_the_last_checkpoint_wins(world, worker):
    lease = grant(world, worker)
    for number in range(3):
        worker.checkpoint(lease, b"%d" % number)
    world.turn()
    assert world.state().checkpoint == b"2"


def test_progress_lives_in_memory_only(world, d1, worker):
    lease = run(world, worker)
    worker.say(lease.shard, Beat(worker.sender, (Held("a", lease.epoch, lease.token, 0.5, "half"),)))
    changes = len(world.records("changelog"))
    world.turn()
    entry = d1.engine.seats[lease.shard].leases.get("a", lease.epoch)
    assert (entry.fraction, entry.note) == (0.5, "half")
    assert len(world.records("changelog")) == changes


def test_a_beat_of_a_finished_job_is_answered_with_a_revoke(world, worker):
    lease = run(world, worker)
    worker.done(lease)
    world.turn()
    worker.beat(lease)
    world.turn()
    (revoke,) = worker.revokes()
    assert revoke.epoch == lease.epoch


def test_a_worker_cannot_charge_its_tenant_more_than_the_run_can_have_taken(world, d1, worker):
    lease = run(world, worker)
    worker.done(lease, run_ms=(1 << 63) - 1)
    world.turn()
    tree = d1.engine._fleet.matcher.pool("default").trees[0]
    assert max(node.vtime for node in tree._bands) < 1_000
    assert d1.engine._fleet.estimates.get("t", "x.run", 300_000) < 1_000


@pytest.mark.parametrize("ran_ms", [1_000, 30_000])
def test_a_run_longer_than_its_estimate_is_charged_as_it_goes(world, d1, worker, ran_ms):
    lease = run(world, worker, timeout_ms=5_000)
    entry = d1.engine.seats[lease.shard].leases.get("a", lease.epoch)
    queue = entry.payer
    assert queue.vtime == 5_000.0
    for _ in range(10):
        world.wait(ran_ms // 10)
        worker.beat(lease)
        world.turn(every_ms=0)
    assert queue.vtime == pytest.approx(max(5_000.0, ran_ms), abs=100)
