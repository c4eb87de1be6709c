"""Leases handed back without a verdict."""

import pytest

from scheduler.core.reports import ReleaseReason
from tests.dispatcher.lives import grant, grant_again

AT_ONCE = (ReleaseReason.BUSY, ReleaseReason.SHUTDOWN, ReleaseReason.INTERRUPTED, ReleaseReason.STOPPED)
BACKS_OFF = (ReleaseReason.TOO_LATE, ReleaseReason.UNKNOWN_TYPE)
LOSSES = (ReleaseReason.LOST, ReleaseReason.CRASHED)


@pytest.mark.parametrize("reason", AT_ONCE)
def test_it_costs_nothing_and_the_job_is_ready_at_once(world, worker, reason):
    lease = grant(world, worker)
    worker.release(lease, reason)
    world.turn()
    state = world.state()
    assert state.phase == "ready"
    history = state.history
    assert (history.attempt, history.losses, history.undelivered) == (0, 0, 0)
    again = grant_again(world, worker)
    assert (again.attempt, again.suspect) == (1, False)
    assert again.epoch > lease.epoch


@pytest.mark.parametrize("reason", BACKS_OFF)
def test_what_could_not_start_backs_off_from_1_s_to_60_s(world, worker, reason):
    lease = grant(world, worker)
    delays = []
    for _ in range(8):
        worker.release(lease, reason)
        world.turn()
        state = world.state()
        assert state.phase == "retrying"
        delays.append(state.due_ms - (world.time.ms - 5))
        world.wait(delays[-1] + 1_000)
        lease = grant_again(world, worker)
    assert delays == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]
    assert world.state().history.attempt == 0


def test_a_job_that_nobody_knows_waits_and_never_dies(world, worker):
    lease = grant(world, worker)
    for _ in range(15):
        worker.release(lease, ReleaseReason.UNKNOWN_TYPE)
        world.wait(61_500)
        lease = grant_again(world, worker)
    assert world.dead_letters() == []
    other = world.worker(name="knows", inbox=1)
    worker.release(lease, ReleaseReason.UNKNOWN_TYPE)
    last = grant_again(world, other, wait_ms=61_500)
    assert last.attempt == 1


def test_a_snooze_waits_as_long_as_asked_and_is_no_attempt(world, worker):
    worker.release(grant(world, worker, max_attempts=1), ReleaseReason.SNOOZED, delay_ms=3_000)
    world.turn()
    state = world.state()
    assert (state.phase, state.due_ms) == ("retrying", world.time.ms - 5 + 3_000)
    assert (state.history.snoozes, state.history.attempt) == (1, 0)
    assert grant_again(world, worker, wait_ms=3_500).attempt == 1


@pytest.mark.parametrize("reason", LOSSES)
def test_a_loss_makes_it_a_suspect_and_three_end_it(world, worker, reason):
    lease = grant(world, worker)
    for losses in (1, 2):
        worker.release(lease, reason, detail="signal 9")
        world.turn()
        state = world.state()
        assert (state.phase, state.history.losses, state.history.attempt) == ("ready", losses, 0)
        lease = grant_again(world, worker, takes_suspect=True)
        assert lease.suspect
    worker.release(lease, reason)
    world.turn()
    state = world.state()
    assert (state.phase, state.end.reason, state.history.losses) == ("failed", "lost", 3)
    (dead,) = world.dead_letters()
    assert (dead["reason"], dead["losses"], dead["worker"]) == ("lost", "3", "w")


def test_losses_survive_a_take_over(world, worker):
    lease = grant(world, worker)
    for _ in range(2):
        worker.release(lease, ReleaseReason.CRASHED)
        world.turn(2)
        world.kill(next(iter(world.dispatchers)))
        world.start(f"d{len(world.group.evicted) + 1}")
        world.outlive()
        lease = grant_again(world, worker, takes_suspect=True)
    worker.release(lease, ReleaseReason.CRASHED)
    world.turn(2)
    assert world.state().end.reason == "lost"


def test_only_the_culprit_is_charged_when_a_shared_child_is_killed(world, worker):
    worker.offer(3)
    for job_id in ("a", "b", "c"):
        world.submit(job_id)
    world.turn(2)
    for lease in worker.leases():
        worker.release(lease, ReleaseReason.CRASHED if lease.job_id == "a" else ReleaseReason.INTERRUPTED)
    world.turn(2)
    assert [world.state(job_id).history.losses for job_id in ("a", "b", "c")] == [1, 0, 0]


def test_releases_leave_a_trace(world, worker):
    worker.release(grant(world, worker), ReleaseReason.SHUTDOWN)
    world.turn(2)
    history = world.state().history
    assert history.releases == 1
    assert [attempt.outcome for attempt in history.attempts] == ["released:shutdown"]
