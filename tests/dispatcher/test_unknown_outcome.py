"""A commit whose answer was lost: it happened, or it did not; either way nothing is lost and nothing done twice."""

import pytest

from scheduler.core.reports import ReleaseReason
from scheduler.dispatcher.seat import Stage
from tests.dispatcher.fault_log import unknown_aborted, unknown_committed
from tests.dispatcher.lives import grant, run

BOTH = [unknown_committed, unknown_aborted]


@pytest.fixture(params=BOTH, ids=["happened", "did not happen"])
def fault(request):
    return request.param


def test_all_shards_are_restored_and_adopted(world, d1, fault):
    world.submit("a")
    d1.log.fail("commit", fault)
    world.turn()
    assert set(d1.stages().values()) == {Stage.RESTORING}
    world.turn()
    assert "reopen" in d1.log.calls
    assert d1.signals.failures["unknown"] == 1
    world.until(d1.is_active)


def test_a_submit_is_admitted_once(world, d1, fault):
    world.submit("a")
    d1.log.fail("commit", fault)
    world.turn()
    world.until(d1.is_active)
    world.turn(2)
    assert world.state().phase == "ready"
    assert world.meta(world.home("a")).positions["submit.default"] == 1


def test_a_grant_reaches_its_worker_once_in_effect(world, d1, worker, fault):
    worker.offer()
    world.submit("a")
    d1.log.fail("commit", fault)
    world.turn()
    assert worker.hear() == []
    world.until(d1.is_active)
    world.turn(3)
    leases = worker.leases()
    assert {(lease.epoch, lease.token) for lease in leases} == {
        (world.state().epoch, world.state().grant.token)
    }
    worker.done(leases[0])
    world.turn()
    assert world.state().phase == "succeeded"


def test_a_completion_counts_once_and_its_emits_are_published_once(world, d1, worker, fault):
    lease = run(world, worker)
    worker.done(lease, result=b"1")
    d1.log.fail("commit", fault)
    world.turn()
    world.until(d1.is_active)
    world.turn(3)
    assert world.state().phase == "succeeded"
    assert [told.event for told in world.lifecycle()] == ["succeeded"]


def test_a_failure_is_counted_once(world, d1, worker, fault):
    lease = run(world, worker)
    worker.release(lease, ReleaseReason.CRASHED)
    d1.log.fail("commit", fault)
    world.turn()
    world.until(d1.is_active)
    world.turn(3)
    assert world.state().history.losses == 1


def test_renewals_that_were_read_stay_read(world, d1, worker, fault):
    lease = run(world, worker)
    world.wait(15_000)
    world.submit("b")
    d1.log.fail("commit", fault)
    world.turn()
    world.until(d1.is_active)
    entry = d1.engine.seats[lease.shard].leases.get("a", lease.epoch)
    assert d1.clock.mono_ms() - entry.read_at_ms >= 15_000


def test_no_entry_of_a_grant_that_never_was_stays_behind(world, d1, worker):
    worker.offer()
    world.submit("a")
    d1.log.fail("commit", unknown_aborted)
    world.turn()
    world.time.ms += 6_000  # the offer dies, so the job stays ready
    world.until(d1.is_active)
    world.wait(1_000)
    assert world.state().phase == "ready"
    assert len(d1.engine.seats[world.home("a")].leases) == 0
    echoes = d1.log.calls.count("echo")
    world.wait(60_000)
    assert d1.log.calls.count("echo") == echoes + 1  # nothing looks due: it asks for the time


def test_it_may_be_unknown_again_and_again(world, d1, worker, fault):
    for _ in range(4):
        d1.log.fail("commit", fault)
    worker.offer()
    world.submit("a")
    world.turn(40)
    worker.offer()
    world.turn(2)
    assert world.state().phase == "leased"


def test_virtual_times_are_forgotten(world, d1, worker, fault):
    run(world, worker, timeout_ms=5_000)
    world.submit("b")
    d1.log.fail("commit", fault)
    world.turn()
    world.until(d1.is_active)
    pool = d1.engine._fleet.matcher.pool("default")
    assert [node.vtime for node in pool.trees[0]._bands] == [0.0, 0.0, 0.0]


def test_a_lease_of_the_changelog_keeps_its_token(world, d1, worker, fault):
    lease = grant(world, worker)
    world.submit("b")
    d1.log.fail("commit", fault)
    world.turn()
    world.until(d1.is_active)
    assert lease in worker.leases()
