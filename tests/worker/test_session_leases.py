"""Start or release: which leases a session accepts, and what it remembers of those it ended."""

import pytest

from scheduler.core.reports import Beat, Done, Offer, Release, ReleaseReason
from scheduler.worker.actions import KillRun, Snoozed, StartRun, StopRun, Succeeded
from tests.worker.play import Play, replaced


def reasons(play: Play, job: str = "j") -> list[str]:
    return [str(end.reason) for end in play.ends(job) if isinstance(end, Release)]


def test_a_lease_that_answers_a_young_offer_starts_its_job_with_the_offers_deadline():
    play = Play()
    sent_at = play.now
    play.sleep_ms(500)
    play.lease()
    (start,) = play.all(StartRun)
    assert start.deadline_ms == sent_at + 10_000 - 1_000
    assert not play.ends()


@pytest.mark.parametrize(("age_ms", "started"), [(8_999, True), (9_000, False), (9_001, False)])
def test_it_starts_only_while_younger_than_the_first_period_less_a_second(age_ms, started):
    play = Play()
    lease = play.lease_of()
    play.sleep_ms(age_ms)
    assert bool(play.give(lease)) is started
    assert reasons(play) == ([] if started else ["too_late"])


def test_a_lease_of_an_offer_never_made_is_too_late():
    play = Play()
    assert not play.lease(offer=99)
    assert reasons(play) == ["too_late"]


def test_a_lease_of_another_boot_id_is_neither_acted_on_nor_answered():
    play = Play()
    assert not play.lease(boot_id=b"X" * 16)
    assert not play.ends()
    assert play.session.counts["foreign"] == 1


def test_a_revoke_of_another_boot_id_is_neither_acted_on_nor_answered():
    play = Play()
    play.lease()
    assert play.revoke(boot_id=b"X" * 16) == []


def test_a_surplus_lease_is_released_as_busy_without_a_slot_to_offer():
    play = Play(slots=1)
    play.lease("a", 1)
    assert not play.lease("b", 2)
    (release,) = play.ends("b")
    assert release.reason is ReleaseReason.BUSY
    assert release.freed is None
    assert not release.started


def test_an_unknown_type_is_released_and_its_slot_offered_again():
    play = Play(slots=1)
    assert not play.lease(type_="other")
    (release,) = play.ends()
    assert release.reason is ReleaseReason.UNKNOWN_TYPE
    assert "'other'" in release.detail
    assert release.freed is not None
    assert play.lease("k", 2, offer=release.freed.sequence)


def test_a_record_that_cannot_be_read_is_released():
    play = Play()
    play.do(play.session.on_lease(play.lease_of(), None, play.now))
    assert reasons(play) == ["unknown_type"]


# -- leases sent again ---------------------------------------------------------------------------------


def test_a_running_epoch_leased_again_is_answered_with_a_beat_at_once():
    play = Play()
    lease = play.lease_of()
    play.give(lease)
    play.sleep_ms(100)
    assert not play.give(lease)
    assert [held.epoch for beat in play.reports(Beat) for held in beat.leases] == [1]


def test_a_running_epoch_leased_again_after_its_offer_is_forgotten_gets_a_beat_not_a_release():
    play = Play()
    lease = play.lease_of()
    play.give(lease)
    play.pass_ms(12_000)
    play.clear()
    play.give(lease)
    assert len(play.reports(Beat)) == 1
    assert not play.ends()


@pytest.mark.parametrize("outcome", [Succeeded(), Snoozed(5)])
def test_an_ended_epoch_leased_again_gets_nothing(outcome):
    play = Play()
    lease = play.lease_of()
    play.finish(play.give(lease), outcome)
    play.clear()
    assert not play.give(lease)
    assert play.actions == []


def test_a_released_epoch_leased_again_gets_nothing():
    play = Play(slots=1)
    play.lease("a", 1)
    busy = play.lease_of("b", 2)
    play.give(busy)
    play.finish(play.all(StartRun)[0].run)
    play.clear()
    assert not play.give(busy)  # a slot is free by now, but it was handed back
    assert play.actions == []


def test_an_ended_epoch_is_remembered_as_long_as_its_offer_could_start_it():
    play = Play()
    lease = play.lease_of()
    play.finish(play.give(lease))
    play.sleep_ms(8_999)
    play.clear()
    assert not play.give(lease)
    assert not play.ends()


def test_a_lease_of_a_lower_epoch_than_one_that_ended_here_gets_nothing():
    play = Play()
    old = play.lease_of(epoch=1)
    play.finish(play.lease(epoch=2))
    play.clear()
    assert not play.give(old)
    assert play.actions == []


def test_a_lease_of_a_lower_epoch_than_the_running_one_gets_nothing():
    play = Play()
    old = play.lease_of(epoch=1)
    play.lease(epoch=2)
    play.clear()
    assert not play.give(old)
    assert play.actions == []


def test_a_higher_epoch_kills_the_lower_one_and_starts_only_when_that_is_dead():
    play = Play()
    first = play.lease(epoch=1)
    assert not play.lease(epoch=2)
    assert [kill.run for kill in play.all(KillRun)] == [first]
    actions = play.gone(first)
    (start,) = [action for action in actions if isinstance(action, StartRun)]
    assert start.lease.epoch == 2
    assert not play.ends(), "nobody waits for a word on the lower epoch"


def test_a_success_of_a_superseded_epoch_is_not_reported():
    play = Play()
    first = play.lease(epoch=1)
    play.lease(epoch=2)
    play.finish(first)
    assert not play.ends()
    play.gone(first)
    assert play.session.running == 1


def test_a_higher_epoch_whose_offer_has_aged_meanwhile_is_too_late():
    play = Play()
    first = play.lease(epoch=1)
    play.lease(epoch=2)
    play.sleep_ms(9_000)
    play.gone(first)
    assert reasons(play) == ["too_late"]
    assert play.ends()[0].epoch == 2


def test_a_revoked_higher_epoch_does_not_start_after_the_lower_one():
    play = Play()
    first = play.lease(epoch=1)
    play.lease(epoch=2)
    play.revoke(epoch=2)
    actions = play.gone(first)
    assert not [action for action in actions if isinstance(action, StartRun)]
    assert [(end.epoch, str(end.reason)) for end in play.ends()] == [(2, "stopped")]


# -- revokes -------------------------------------------------------------------------------------------


def test_a_cancelled_run_is_asked_to_leave_then_killed_then_released():
    play = Play()
    run = play.lease()
    play.revoke(reason="cancel")
    (stop,) = play.all(StopRun)
    assert (stop.run, stop.reason, stop.grace_ms) == (run, "cancelled", 5_000)
    play.pass_ms(4_999)
    assert not play.all(KillRun)
    play.pass_ms(1)
    assert [kill.run for kill in play.all(KillRun)] == [run]
    assert not play.ends(), "not before it is dead"
    play.gone(run)
    assert reasons(play) == ["stopped"]


def test_a_cancel_told_again_does_not_prolong_the_grace():
    play = Play()
    play.lease()
    play.revoke(reason="cancel")
    play.pass_ms(4_000)
    play.revoke(reason="cancel")
    play.pass_ms(1_000)
    assert len(play.all(KillRun)) == 1
    assert len(play.all(StopRun)) == 1


@pytest.mark.parametrize("reason", ["timeout", "unknown"])
def test_a_run_that_may_be_running_elsewhere_is_killed_at_once(reason):
    play = Play()
    run = play.lease()
    play.revoke(reason=reason)
    assert [kill.run for kill in play.all(KillRun)] == [run]
    play.gone(run)
    assert reasons(play) == ["stopped"]


def test_a_run_that_succeeds_after_a_revoke_is_done_not_released():
    play = Play()
    run = play.lease()
    play.revoke(reason="cancel")
    play.finish(run, Succeeded(b"1"))
    assert [type(end) for end in play.ends()] == [Done]


def test_a_run_that_fails_after_a_revoke_is_released():
    play = Play()
    run = play.lease()
    play.revoke(reason="cancel")
    play.finish(run, Snoozed(10))
    assert reasons(play) == ["stopped"]


def test_a_revoke_of_an_epoch_never_seen_is_answered_once_and_its_lease_never_starts():
    play = Play()
    lease = play.lease_of()
    play.revoke()
    assert [(end.epoch, str(end.reason), end.started) for end in play.ends()] == [(1, "stopped", False)]
    play.revoke()
    assert len(play.ends()) == 1
    assert not play.give(lease)
    assert len(play.ends()) == 1


def test_a_revoke_of_an_ended_epoch_gets_nothing():
    play = Play()
    play.finish(play.lease())
    play.clear()
    assert play.revoke(reason="unknown") == []


def test_a_revoke_of_a_lower_epoch_leaves_the_running_one_alone():
    play = Play()
    play.lease(epoch=2)
    assert play.revoke(epoch=1) == []


def test_a_revoke_of_a_higher_epoch_leaves_the_running_one_alone():
    play = Play()
    play.lease(epoch=1)
    play.clear()
    play.revoke(epoch=2)
    assert not play.all(StopRun)
    assert not play.all(KillRun)
    assert [end.epoch for end in play.ends()] == [2]


def test_a_revoke_with_another_token_is_not_obeyed():
    play = Play()
    play.lease()
    assert play.revoke(token=b"?" * 16, reason="unknown") == []
    assert play.session.counts["forged_revokes"] == 1


# -- slots of moved offers ---------------------------------------------------------------------------------


def test_a_late_answer_to_an_offer_that_was_repeated_takes_the_free_slot_all_the_same():
    play = Play(slots=1)
    old = play.offer().sequence
    play.pass_ms(4_000)
    new = play.offer().sequence
    assert new > old
    assert play.lease("a", 1, offer=old)
    assert not play.lease("b", 2, offer=new)
    assert reasons(play, "b") == ["busy"]


def test_two_leases_of_one_job_never_run_together():
    play = Play()
    lease = play.lease_of()
    assert play.give(lease)
    assert not play.give(replaced(lease, token=b"other" * 3 + b"!"))
    assert play.session.running == 1


def test_offers_name_the_sender():
    offer = Play().reports(Offer)[0]
    assert (offer.sender.worker, offer.sender.inbox, offer.sender.release) == ("w", 3, "r1")
