"""Beats, deadlines and acknowledgements: how long a run may go on."""

import pytest

from scheduler.core.reports import Beat, Checkpoint, Fail, Release, Verdict
from scheduler.worker.actions import ConfirmSave, GuardRun, KillRun, StartRun, Succeeded
from tests.worker.play import Play


def test_the_first_beat_comes_three_seconds_after_the_start():
    play = Play()
    play.lease()
    play.pass_ms(2_999)
    assert not play.reports(Beat)
    play.pass_ms(1)
    assert len(play.reports(Beat)) == 1


def test_a_job_that_ends_before_needs_no_beat():
    play = Play()
    run = play.lease()
    play.pass_ms(2_000)
    play.finish(run)
    play.pass_ms(10_000)
    assert not play.reports(Beat)


def test_the_first_beat_comes_at_once_if_the_offer_is_old():
    play = Play()
    lease = play.lease_of()
    play.sleep_ms(3_000)
    play.give(lease)
    assert len(play.reports(Beat)) == 1


def test_the_first_beat_of_a_suspect_comes_at_once():
    play = Play()
    play.lease(suspect=True)
    assert len(play.reports(Beat)) == 1


def test_beats_follow_every_quarter_of_the_lease():
    play = Play()
    play.lease()
    play.pass_ms(3_000 + 4 * 5_000)
    assert len(play.reports(Beat)) == 5


def test_a_beat_goes_to_the_shard_of_its_leases_and_names_who_sends_it():
    play = Play()
    play.lease(shard=6)
    play.pass_ms(3_000)
    assert play.partitions(Beat) == [6]
    (beat,) = play.reports(Beat)
    assert (beat.sender.boot_id, beat.sender.inbox) == (b"B" * 16, 3)
    assert (beat.leases[0].job_id, beat.leases[0].epoch) == ("j", 1)


def test_one_beat_renews_all_leases_of_a_shard():
    play = Play(slots=3)
    for n, shard in enumerate((5, 5, 6)):
        play.lease(f"j{n}", n + 1, shard=shard)
    play.pass_ms(3_000)
    assert sorted(len(beat.leases) for beat in play.reports(Beat)) == [1, 2]


def test_a_young_run_does_not_ride_on_the_beat_of_an_older_one():
    play = Play()
    play.lease("old", 1)
    play.pass_ms(2_000)
    play.lease("young", 2)
    play.pass_ms(1_000)
    (beat,) = play.reports(Beat)
    assert [held.job_id for held in beat.leases] == ["old"]


def test_runs_that_have_beaten_share_their_beats():
    play = Play()
    play.lease("a", 1)
    play.pass_ms(1_000)
    play.lease("b", 2)
    play.pass_ms(30_000)
    assert len(play.reports(Beat)) <= 2 + 30_000 // 5_000 + 1
    assert {len(beat.leases) for beat in play.reports(Beat)[2:]} == {2}


def test_a_beat_carries_the_latest_progress():
    play = Play()
    run = play.lease()
    play.session.on_progress(run, 0.1, "first")
    play.session.on_progress(run, 0.4, "second")
    play.pass_ms(3_000)
    (held,) = play.reports(Beat)[0].leases
    assert (held.fraction, held.note) == (0.4, "second")


# -- the deadline ------------------------------------------------------------------------------------------


def test_without_an_acknowledged_beat_a_run_is_killed_at_its_first_deadline_and_reported_lost():
    play = Play()
    play.acks = False
    run = play.lease()
    play.pass_ms(8_999)
    assert not play.all(KillRun)
    play.pass_ms(1)
    assert [kill.run for kill in play.all(KillRun)] == [run]
    assert not play.ends(), "not before it is dead"
    play.gone(run)
    (end,) = play.ends()
    assert (end.reason, end.started) == ("lost", True)


def test_an_acknowledged_beat_moves_the_deadline_to_its_sending_plus_the_lease_less_the_margin():
    play = Play()
    play.acks = False
    run = play.lease()
    play.pass_ms(3_000)
    sent_at = play.now
    play.sleep_ms(1_500)
    play.do(play.session.on_acked(play.tickets(Beat)[0], play.now))
    (guarded,) = play.all(GuardRun)
    assert (guarded.run, guarded.deadline_ms) == (run, sent_at + 20_000 - 2_000)


@pytest.mark.parametrize(("lease_ms", "margin_ms"), [(10_000, 1_000), (20_000, 2_000), (60_000, 6_000)])
def test_the_margin_is_a_tenth_of_the_lease_but_a_second_at_least(lease_ms, margin_ms):
    play = Play()
    play.lease(lease_ms=lease_ms)
    play.pass_ms(3_000)
    assert play.all(GuardRun)[0].deadline_ms == play.now + lease_ms - margin_ms


def test_an_acknowledgement_handled_at_the_deadline_revives_nothing():
    play = Play()
    play.acks = False
    run = play.lease()
    play.pass_ms(3_000)
    play.sleep_ms(6_000)
    actions = play.do(play.session.on_acked(play.tickets(Beat)[0], play.now))
    assert [action.run for action in actions if isinstance(action, KillRun)] == [run]
    assert not play.all(GuardRun)


def test_an_acknowledgement_handled_just_before_the_deadline_counts():
    play = Play()
    play.acks = False
    play.lease()
    play.pass_ms(3_000)
    play.sleep_ms(5_999)
    play.do(play.session.on_acked(play.tickets(Beat)[0], play.now))
    assert play.all(GuardRun)
    assert not play.all(KillRun)


def test_an_older_beat_acknowledged_later_never_moves_the_deadline_back():
    play = Play()
    play.acks = False
    play.lease()
    play.pass_ms(8_000)
    first, second = play.tickets(Beat)
    play.do(play.session.on_acked(second, play.now))
    play.do(play.session.on_acked(first, play.now))
    assert len(play.all(GuardRun)) == 1


def test_a_process_that_was_stopped_past_a_deadline_kills_first_whatever_it_handles_first():
    for event in ("lease", "revoke", "capacity", "tick"):
        play = Play()
        run = play.lease()
        play.acks = False
        play.pass_ms(3_000)
        play.sleep_ms(60_000)
        before = len(play.actions)
        if event == "lease":
            play.lease("other", 2)
        elif event == "revoke":
            play.revoke("other", 2)
        elif event == "capacity":
            play.do(play.session.on_capacity(2, play.now))
        else:
            play.do(play.session.tick(play.now))
        assert isinstance(play.actions[before], KillRun), event
        assert play.actions[before].run == run


def test_a_lost_run_beats_no_more():
    play = Play()
    play.acks = False
    play.lease()
    play.pass_ms(9_000)
    play.sent.clear()
    play.pass_ms(20_000)
    assert not play.reports(Beat)


def test_a_lost_run_does_not_ride_on_the_beat_of_a_living_one():
    play = Play()
    lost = play.lease("lost", 1, lease_ms=10_000)
    play.lease("living", 2, lease_ms=60_000)
    play.pass_ms(3_000)
    play.acks = False
    play.pass_ms(9_000)
    assert [kill.run for kill in play.all(KillRun)] == [lost]
    play.clear()
    play.pass_ms(20_000)
    assert {held.job_id for beat in play.reports(Beat) for held in beat.leases} == {"living"}


def test_a_lost_run_that_had_not_begun_is_too_late_not_lost():
    play = Play()
    play.begins = False
    run = play.lease()
    play.acks = False
    play.pass_ms(9_000)
    play.gone(run)
    assert [str(end.reason) for end in play.ends()] == ["too_late"]


def test_a_success_counts_however_late_it_is_handled():
    play = Play()
    play.acks = False
    run = play.lease()
    play.pass_ms(9_000)
    play.finish(run, Succeeded(b"1"))
    assert [type(end).__name__ for end in play.ends()] == ["Done"]
    play.gone(run)
    assert len(play.ends()) == 1


def test_a_failed_beat_is_followed_by_another_soon():
    play = Play()
    play.acks = False
    play.lease()
    play.pass_ms(3_000)
    play.do(play.session.on_failed(play.tickets(Beat)[0], play.now, retriable=True, why="x"))
    play.pass_ms(500)
    assert len(play.reports(Beat)) == 2


# -- timeouts ----------------------------------------------------------------------------------------------


def test_a_run_is_killed_when_its_time_is_up_and_reported_as_a_timeout():
    play = Play()
    run = play.lease(timeout_ms=30_000)
    play.pass_ms(29_999)
    assert not play.all(KillRun)
    play.pass_ms(1)
    assert [kill.run for kill in play.all(KillRun)] == [run]
    assert not play.ends()
    play.gone(run)
    (end,) = play.ends()
    assert isinstance(end, Fail)
    assert (end.verdict, end.error.message, end.run_ms) == (Verdict.TIMEOUT, "timeout after 30s", 30_000)


def test_its_time_counts_from_when_a_child_got_it():
    play = Play()
    play.begins = False
    run = play.lease(timeout_ms=5_000)
    play.pass_ms(2_000)
    play.do(play.session.on_began(run, play.now))
    play.pass_ms(4_999)
    assert not play.all(KillRun)
    play.pass_ms(1)
    assert play.all(KillRun)


def test_a_run_that_is_being_killed_is_killed_once_and_keeps_its_lease_until_it_is_dead():
    play = Play()
    run = play.lease(timeout_ms=5_000)
    play.pass_ms(30_000)
    assert len(play.all(KillRun)) == 1
    assert len(play.reports(Beat)) > 4
    play.gone(run)
    assert [end.verdict for end in play.ends()] == [Verdict.TIMEOUT]


# -- checkpoints -------------------------------------------------------------------------------------------


def test_a_checkpoint_is_confirmed_when_kafka_has_it_and_not_before():
    play = Play()
    play.acks = False
    run = play.lease(shard=6)
    play.do(play.session.on_save(run, 1, b"7", play.now))
    (checkpoint,) = play.reports(Checkpoint)
    assert (checkpoint.data, checkpoint.epoch, play.partitions(Checkpoint)) == (b"7", 1, [6])
    assert not play.all(ConfirmSave)
    play.do(play.session.on_acked(play.tickets(Checkpoint)[0], play.now))
    assert play.all(ConfirmSave) == [ConfirmSave(run, 1)]


def test_an_undelivered_checkpoint_is_sent_again():
    play = Play()
    play.acks = False
    run = play.lease()
    play.do(play.session.on_save(run, 1, b"7", play.now))
    play.do(play.session.on_failed(play.tickets(Checkpoint)[0], play.now, retriable=True, why="away"))
    play.pass_ms(500)
    assert len(play.reports(Checkpoint)) == 2
    play.do(play.session.on_acked(play.tickets(Checkpoint)[1], play.now))
    assert play.all(ConfirmSave) == [ConfirmSave(run, 1)]


def test_a_checkpoint_that_is_refused_for_good_is_told_to_the_handler():
    play = Play()
    play.acks = False
    run = play.lease()
    play.do(play.session.on_save(run, 1, b"7", play.now))
    play.do(play.session.on_failed(play.tickets(Checkpoint)[0], play.now, retriable=False, why="too large"))
    assert play.all(ConfirmSave) == [ConfirmSave(run, 1, "too large")]


def test_a_checkpoint_above_the_bound_is_not_sent():
    play = Play()
    run = play.lease()
    play.do(play.session.on_save(run, 1, b"x" * (16 * 1024 + 1), play.now))
    assert not play.reports(Checkpoint)
    assert "above 16384" in play.all(ConfirmSave)[0].error


def test_a_checkpoint_of_a_run_that_is_being_killed_is_not_sent():
    play = Play()
    run = play.lease()
    play.revoke(reason="unknown")
    play.do(play.session.on_save(run, 1, b"7", play.now))
    assert not play.reports(Checkpoint)
    assert play.all(ConfirmSave)[0].error


def test_a_checkpoint_does_not_renew_the_lease():
    play = Play()
    run = play.lease()
    play.do(play.session.on_save(run, 1, b"7", play.now))
    assert not play.all(GuardRun)
    assert play.all(StartRun)[0].deadline_ms == play.now + 9_000
    assert not [end for end in play.ends() if isinstance(end, Release)]
