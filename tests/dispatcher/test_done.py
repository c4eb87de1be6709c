"""Completions: accepted once, also late, never under another epoch or token."""

import pytest

from scheduler.core.reports import Beat, Held, ReleaseReason
from tests.dispatcher.lives import grant, grant_again, run
from tests.dispatcher.worker import forged


def test_a_completion_ends_the_job_with_its_result(world, worker):
    lease = run(world, worker)
    worker.done(lease, result=b'{"n":1}', run_ms=42)
    world.turn()
    state = world.state()
    assert (state.phase, state.end.result, state.end.reason) == ("succeeded", b'{"n":1}', "")
    assert [told.event for told in world.lifecycle()] == ["succeeded"]
    assert world.counts["attempts", "q", "ok"] == 1
    assert world.dead_letters() == []


def test_why_a_result_is_left_out_is_kept(world, worker):
    worker.done(grant(world, worker), result_omitted="100000 bytes above the limit 65536")
    world.turn()
    assert world.state().end.result_omitted == "100000 bytes above the limit 65536"


def test_a_completion_before_any_beat_counts(world, worker):
    worker.done(grant(world, worker))
    world.turn()
    assert world.state().phase == "succeeded"


def test_the_same_completion_again_changes_nothing(world, worker):
    lease = grant(world, worker)
    worker.done(lease, result=b"1")
    world.turn(2)
    worker.done(lease, result=b"2")
    world.turn(2)
    assert world.state().end.result == b"1"
    assert len(world.lifecycle()) == 1
    assert world.counts["stale_reports", "finished"] == 1


def test_two_completions_in_one_turn_are_one(world, worker):
    lease = grant(world, worker)
    worker.done(lease, result=b"1")
    worker.done(lease, result=b"2")
    world.turn()
    assert world.state().end.result == b"1"
    assert len(world.lifecycle()) == 1


# -- late ------------------------------------------------------------------------------------------------


def expire(world) -> None:
    world.until(lambda: world.state().phase == "ready", turns=1_000, every_ms=100)


def test_a_late_completion_of_the_latest_epoch_counts_while_the_job_is_ready(world, worker):
    lease = grant(world, worker)
    expire(world)
    worker.done(lease, result=b"1")
    world.turn()
    assert world.state().phase == "succeeded"
    assert world.counts["attempts", "q", "late_ok"] == 1
    worker.offer()
    world.turn(3)
    assert worker.leases() == []


def test_a_late_completion_counts_while_the_job_waits_for_its_next_attempt(world, worker):
    lease = run(world, worker, timeout_ms=100)
    while world.state().phase == "leased":
        world.wait(1_000)
    assert world.state().phase == "retrying"
    worker.done(lease)
    world.turn()
    assert world.state().phase == "succeeded"
    world.wait(10_000)
    assert world.state().phase == "succeeded"


def test_a_late_completion_counts_also_after_a_take_over(world, worker):
    lease = grant(world, worker)
    expire(world)
    world.kill("d1")
    worker.done(lease)
    world.start("d2")
    assert world.state().phase == "succeeded"


def test_a_late_completion_is_refused_once_a_higher_epoch_was_granted(world, worker):
    first = grant(world, worker)
    expire(world)
    other = world.worker(name="other", inbox=1)
    second = grant_again(world, other)
    worker.done(first, result=b"late")
    world.turn(2)
    state = world.state()
    assert (state.phase, state.epoch) == ("leased", second.epoch)
    assert world.counts["stale_reports", "epoch"] == 1
    (revoke,) = worker.revokes()
    assert (revoke.epoch, revoke.token, revoke.reason) == (first.epoch, first.token, "unknown")
    other.done(second, result=b"2")
    world.turn()
    assert world.state().end.result == b"2"


@pytest.mark.parametrize("order", ["done first", "grant first"])
def test_a_late_completion_and_a_new_grant_exclude_each_other_in_one_turn(world, worker, order):
    first = grant(world, worker)
    expire(world)
    other = world.worker(name="other", inbox=1)
    if order == "done first":
        worker.done(first)
        other.offer()
        world.turn(2)
        assert world.state().phase == "succeeded"
        assert other.leases() == []
    else:
        other.offer()
        world.turn()
        worker.done(first)
        world.turn(2)
        assert world.state().phase == "leased"
        assert len(other.leases()) == 1


# -- who may speak ---------------------------------------------------------------------------------------------


def all_reports(worker, lease) -> None:
    worker.say(lease.shard, Beat(worker.sender, (Held(lease.job_id, lease.epoch, lease.token),)))
    worker.checkpoint(lease, b"stolen")
    worker.fail(lease)
    worker.release(lease, ReleaseReason.CRASHED)
    worker.done(lease, result=b"stolen")


def test_guessed_epochs_and_tokens_are_refused_and_counted(world, worker):
    lease = run(world, worker)
    before = world.state()
    thief = world.worker(name="thief", inbox=2)
    for epoch in range(50):
        if epoch != lease.epoch:
            thief.done(forged(lease, epoch=epoch))
    thief.done(forged(lease, token=b"\0" * 16))
    thief.done(forged(lease, token=lease.token[:-1] + bytes([lease.token[-1] ^ 1])))
    world.turn(3)
    after = world.state()
    assert (after.phase, after.grant) == ("leased", before.grant)
    assert world.counts["stale_reports", "epoch"] == 49
    assert world.counts["stale_reports", "token"] == 2
    worker.done(lease)
    world.turn()
    assert world.state().phase == "succeeded"


def test_the_token_of_another_job_opens_nothing(world, worker):
    mine, theirs = grant(world, worker, "mine"), grant(world, worker, "theirs")
    all_reports(worker, forged(theirs, token=mine.token))
    world.turn(2)
    state = world.state("theirs")
    assert (state.phase, state.checkpoint, state.grant.started) == ("leased", b"", False)
    assert state.history.losses == state.history.attempt == 0


def test_nothing_an_old_incarnation_says_touches_the_new_lease(world, worker):
    old = run(world, worker)
    world.until(lambda: world.state().phase == "ready", turns=1_000, every_ms=100)
    again = world.worker(name="w", inbox=1)  # the same name
    new = grant_again(world, again, takes_suspect=True)
    entry = next(iter(world.dispatchers["d1"].engine.seats[new.shard].leases))
    renewed_ms = entry.read_at_ms
    before = world.state()
    all_reports(worker, old)
    world.turn(2)
    after = world.state()
    assert (after.grant, after.checkpoint, after.phase) == (before.grant, before.checkpoint, "leased")
    assert entry.read_at_ms == renewed_ms
    assert world.counts["stale_reports", "epoch"] == 5
    assert len(worker.revokes()) == 5


def test_a_forged_report_cannot_stop_a_live_run(world, worker):
    # The revoke that answers it goes to the sender and carries the token that was reported.
    lease = run(world, worker)
    thief = world.worker(name="thief", inbox=0)
    thief.done(forged(lease, token=b"\1" * 16))
    world.turn(2)
    assert worker.revokes() == []
    (revoke,) = thief.revokes()
    assert revoke.token == b"\1" * 16


def test_a_report_of_an_unknown_job_is_answered(world, worker):
    lease = forged(grant(world, worker), job_id="nobody", shard=world.home("nobody"))
    worker.done(lease)
    world.turn(2)
    (revoke,) = worker.revokes()
    assert (revoke.job_id, revoke.reason) == ("nobody", "unknown")
    assert world.counts["stale_reports", "unknown_job"] == 1
    assert "nobody" not in world.states()


def refused_reports(world):
    return [event for event in world.state().history.timeline if event.event == "stale_report"]


def test_the_first_refused_report_of_an_epoch_goes_to_the_timeline(world, worker):
    first = grant(world, worker)
    expire(world)
    second = grant_again(world, worker)
    for _ in range(3):
        worker.done(first, result=b"x" * 17)
        world.turn()
    (event,) = refused_reports(world)
    assert event.event == "stale_report"
    assert f"epoch {first.epoch}" in event.text
    assert "17 bytes" in event.text
    worker.release(second, ReleaseReason.BUSY)
    world.turn()
    grant_again(world, worker)
    worker.fail(second)
    world.turn(2)
    assert len(refused_reports(world)) == 2


def test_forged_epochs_do_not_fill_the_timeline(world, worker):
    lease = grant(world, worker)
    for epoch in range(lease.epoch + 1, lease.epoch + 100):
        worker.done(forged(lease, epoch=epoch))
    world.turn(2)
    assert world.state().history.timeline == ()


def test_a_freed_slot_counts_whatever_one_thinks_of_the_report(world, worker):
    lease = grant(world, worker)
    worker.done(lease)
    world.turn()
    world.submit("b")
    world.submit("c")
    worker.done(lease, freed=worker.freed())  # refused
    world.turn(2)
    assert len(worker.leases()) == 1


@pytest.mark.parametrize("kind", ["done", "fail", "release"])
def test_a_freed_slot_is_an_offer(world, worker, kind):
    lease = grant(world, worker)
    world.submit("b")
    getattr(worker, kind)(lease, freed=worker.freed())
    world.turn(2)
    assert len(worker.leases()) == 1
