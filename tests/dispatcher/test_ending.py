"""Runs that the dispatcher wants to end: time-out and cancel, and what the worker says to it."""

import msgspec
import pytest

from scheduler.core.job import Ending
from scheduler.core.reporting import revoke_of
from scheduler.core.reports import ReleaseReason, Verdict
from tests.dispatcher.lives import grant_again, run
from tests.dispatcher.world import World

GRACE_MS = 15_000
RELEASES = [
    ReleaseReason.STOPPED,
    ReleaseReason.LOST,
    ReleaseReason.CRASHED,
    ReleaseReason.BUSY,
    ReleaseReason.SNOOZED,
]


def end(world: World, why: Ending, job_id: str = "a") -> None:
    """Set `ending` and revoke, as a cancel request does."""
    shard = next(iter(world.dispatchers.values())).engine.seats[world.home(job_id)].shard
    state = shard.state(job_id)
    state = msgspec.structs.replace(state, grant=msgspec.structs.replace(state.grant, ending=why))
    shard.put(state)
    shard.notify(state.grant.pool, state.grant.inbox, revoke_of(shard, state, str(why)))
    world.turn()


def beat_until(world: World, worker, lease, ms: int) -> None:
    stop = world.time.ms + ms
    while world.time.ms < stop:
        worker.beat(lease)
        world.wait(min(2_000, stop - world.time.ms))


@pytest.mark.parametrize("timeout_ms", [100, 7_000])
def test_the_dispatchers_timeout_comes_15_s_after_the_workers(world, worker, timeout_ms):
    lease = run(world, worker, timeout_ms=timeout_ms)
    granted = world.time.ms - 20
    beat_until(world, worker, lease, timeout_ms + GRACE_MS - 1_000)
    assert world.state().grant.ending == ""
    assert worker.revokes() == []
    beat_until(world, worker, lease, 3_000)
    assert world.state().grant.ending == "timeout"
    assert {(one.epoch, one.token, one.reason) for one in worker.revokes()} == {
        (lease.epoch, lease.token, "timeout")
    }
    assert world.state().phase == "leased"
    assert world.time.ms - granted <= timeout_ms + GRACE_MS + 2_500


def test_the_revoke_is_sent_again_at_each_beat_which_still_renews(world, worker):
    lease = run(world, worker)
    end(world, Ending.TIMEOUT)
    assert len(worker.revokes()) == 1
    for _ in range(15):
        world.wait(4_000)
        worker.beat(lease)
        world.turn()
        assert [one.reason for one in worker.revokes()] == ["timeout"]
    assert world.state().phase == "leased"


@pytest.mark.parametrize("why", [Ending.TIMEOUT, Ending.CANCEL])
def test_a_completion_that_comes_first_wins(world, worker, why):
    lease = run(world, worker)
    end(world, why)
    worker.done(lease, result=b"1")
    world.turn()
    assert world.state().phase == "succeeded"


@pytest.mark.parametrize("verdict", list(Verdict))
def test_a_failure_while_cancelling_is_cancelled(world, worker, verdict):
    lease = run(world, worker)
    end(world, Ending.CANCEL)
    worker.fail(lease, verdict)
    world.turn()
    state = world.state()
    assert (state.phase, state.end.reason) == ("cancelled", "cancelled")
    assert world.dead_letters() == []


@pytest.mark.parametrize("reason", RELEASES)
def test_a_release_while_cancelling_is_cancelled(world, worker, reason):
    lease = run(world, worker)
    end(world, Ending.CANCEL)
    worker.release(lease, reason)
    world.turn()
    assert world.state().phase == "cancelled"


@pytest.mark.parametrize("verdict", list(Verdict))
def test_a_failure_while_timing_out_is_one_attempt(world, worker, verdict):
    lease = run(world, worker, max_attempts=3)
    end(world, Ending.TIMEOUT)
    worker.fail(lease, verdict)
    world.turn()
    state = world.state()
    assert (state.phase, state.history.attempt) == ("retrying", 1)


@pytest.mark.parametrize("reason", RELEASES)
def test_a_release_while_timing_out_is_one_attempt(world, worker, reason):
    lease = run(world, worker, max_attempts=3)
    end(world, Ending.TIMEOUT)
    worker.release(lease, reason)
    world.turn()
    state = world.state()
    assert (state.phase, state.history.attempt, state.history.losses) == ("retrying", 1, 0)
    assert state.history.attempts[-1].outcome == "timeout"


def test_a_timeout_of_the_last_attempt_ends_the_job(world, worker):
    lease = run(world, worker, max_attempts=1)
    end(world, Ending.TIMEOUT)
    worker.release(lease, ReleaseReason.STOPPED)
    world.turn()
    assert world.state().end.reason == "attempts_exhausted"


@pytest.mark.parametrize(
    ("why", "phase", "losses"), [(Ending.CANCEL, "cancelled", 0), (Ending.TIMEOUT, "retrying", 0)]
)
def test_a_worker_that_says_nothing_more_is_ended_by_expiry(world, worker, why, phase, losses):
    run(world, worker)
    end(world, why)
    world.wait(23_000)
    state = world.state()
    assert (state.phase, state.history.losses) == (phase, losses)
    assert state.history.attempt == (1 if why is Ending.TIMEOUT else 0)


def test_a_hung_job_is_ended_however_well_it_beats(world, worker):
    lease = run(world, worker, timeout_ms=5_000, max_attempts=1)
    beat_until(world, worker, lease, 25_000)
    assert worker.revokes()
    worker.fail(lease, Verdict.TIMEOUT)
    world.turn(2)
    assert world.state().end.reason == "attempts_exhausted"


def test_the_next_lease_knows_nothing_of_the_ending(world, worker):
    lease = run(world, worker)
    end(world, Ending.TIMEOUT)
    worker.release(lease, ReleaseReason.STOPPED)
    world.turn()
    again = grant_again(world, worker, wait_ms=10_000)
    assert world.state().grant.ending == ""
    worker.release(again, ReleaseReason.SHUTDOWN)
    world.turn()
    assert world.state().phase == "ready"


def test_an_ending_is_decided_once(world, worker):
    lease = run(world, worker, timeout_ms=100)
    beat_until(world, worker, lease, 20_000)
    changes = len(world.records("changelog"))
    worker.hear()
    world.wait(5_000)
    states = [one for one in world.records("changelog")[changes:] if (one.key or b"").startswith(b"s")]
    assert states == []
    assert worker.revokes() == []
