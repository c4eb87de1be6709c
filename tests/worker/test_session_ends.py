"""How runs end: outcomes, deaths of children, undelivered reports, and the drain."""

import pytest

from scheduler.core.job import ErrorInfo
from scheduler.core.reports import Beat, Done, Emit, Fail, Offer, Release, Verdict
from scheduler.worker.actions import (
    Failed,
    GuardRun,
    KillRun,
    Left,
    SendReport,
    Snoozed,
    StartRun,
    StopReason,
    StopRun,
    Succeeded,
)
from tests.worker.play import Play


def reasons(play: Play, job: str = "j") -> list[str]:
    return [str(end.reason) for end in play.ends(job) if isinstance(end, Release)]


# -- outcomes ----------------------------------------------------------------------------------------------


def test_a_success_is_done_with_its_result_emits_and_run_time():
    play = Play()
    run = play.lease(shard=6)
    play.pass_ms(1_234)
    emits = (Emit("out", b"k", b"v"),)
    play.finish(run, Succeeded(b"42", "", emits))
    (done,) = play.reports(Done)
    assert (done.result, done.emits, done.run_ms, done.epoch) == (b"42", emits, 1_234, 1)
    assert play.partitions(Done) == [6]


def test_a_failure_carries_verdict_error_and_wish():
    play = Play()
    error = ErrorInfo("ValueError", "no", ("a.py:1:f",))
    play.finish(play.lease(), Failed(Verdict.RETRY, error, 7_000))
    (fail,) = play.reports(Fail)
    assert (fail.verdict, fail.error, fail.retry_after_ms) == (Verdict.RETRY, error, 7_000)


def test_a_snooze_is_a_release_with_its_delay():
    play = Play()
    play.finish(play.lease(), Snoozed(9_000))
    (release,) = play.reports(Release)
    assert (release.reason, release.delay_ms, release.started) == ("snoozed", 9_000, True)


def test_a_handler_that_leaves_in_time_for_its_timeout_is_a_timeout():
    play = Play()
    play.finish(play.lease(), Left("timeout"))
    assert play.reports(Fail)[0].verdict is Verdict.TIMEOUT


def test_a_handler_that_leaves_since_its_lease_ends_is_lost():
    play = Play()
    play.finish(play.lease(), Left("lost"))
    assert reasons(play) == ["lost"]


def test_a_handler_that_leaves_without_being_asked_to_has_failed_an_attempt():
    """Handed back for free, it would run again at once, and again for ever."""
    play = Play()
    play.finish(play.lease(), Left("cancelled"))
    assert play.reports(Fail)[0].verdict is Verdict.RETRY


# -- deaths ------------------------------------------------------------------------------------------------


def test_a_child_that_dies_by_itself_is_a_crash():
    play = Play()
    play.gone(play.lease(), detail="killed by SIGSEGV")
    (release,) = play.reports(Release)
    assert (release.reason, release.detail, release.started) == ("crashed", "killed by SIGSEGV", True)


def test_a_child_that_dies_under_several_runs_charges_all():
    play = Play()
    play.gone(play.lease("a", 1), play.lease("b", 2))
    assert reasons(play, "a") == reasons(play, "b") == ["crashed"]


def test_killing_a_shared_child_for_one_run_only_interrupts_the_others():
    play = Play()
    culprit, other = play.lease("a", 1, timeout_ms=1_000), play.lease("b", 2)
    play.pass_ms(1_000)
    play.gone(culprit, other)
    assert play.reports(Fail)[0].job_id == "a"
    assert reasons(play, "b") == ["interrupted"]


def test_a_shared_child_that_the_guard_killed_for_one_deadline_only_interrupts_the_others():
    play = Play()
    play.acks = False
    culprit, other = play.lease("a", 1, shard=1), play.lease("b", 2, shard=2)
    play.pass_ms(3_000)
    (renewed,) = play.tickets(Beat, lambda beat: beat.leases[0].job_id == "b")
    play.do(play.session.on_acked(renewed, play.now))
    play.sleep_ms(6_000)
    play.gone(culprit, other)
    assert reasons(play, "a") == ["lost"]
    assert reasons(play, "b") == ["interrupted"]


def test_a_shared_child_killed_for_a_run_that_then_succeeded_only_interrupts_the_others():
    play = Play()
    culprit, other = play.lease("a", 1, timeout_ms=1_000), play.lease("b", 2)
    play.pass_ms(1_000)
    play.finish(culprit)
    play.gone(culprit, other)
    assert play.reports(Done)[0].job_id == "a"
    assert reasons(play, "b") == ["interrupted"]


def test_a_run_whose_child_died_before_it_began_is_not_charged():
    play = Play()
    play.begins = False
    play.gone(play.lease())
    (release,) = play.reports(Release)
    assert (release.reason, release.started) == ("interrupted", False)


def test_a_run_over_its_memory_is_killed_and_fails_an_attempt():
    play = Play()
    run = play.lease()
    play.do(play.session.on_over_memory(run, "200 MB used, 100 MB allowed", play.now))
    assert [kill.run for kill in play.all(KillRun)] == [run]
    play.gone(run)
    (fail,) = play.reports(Fail)
    assert (fail.verdict, fail.error.message) == (Verdict.OUT_OF_MEMORY, "200 MB used, 100 MB allowed")


def test_a_failure_told_by_a_run_that_is_being_killed_does_not_count_twice():
    play = Play()
    run = play.lease(timeout_ms=1_000)
    play.pass_ms(1_000)
    play.finish(run, Failed(Verdict.RETRY))
    assert not play.ends()
    play.gone(run)
    assert [end.verdict for end in play.ends()] == [Verdict.TIMEOUT]


# -- reports that do not arrive ------------------------------------------------------------------------------


def test_an_undelivered_completion_is_sent_again_without_the_slot_it_freed():
    play = Play()
    run = play.lease()
    play.acks = False
    play.finish(run, Succeeded(b"1"))
    assert play.reports(Done)[0].freed is not None
    play.do(play.session.on_failed(play.tickets(Done)[0], play.now, retriable=True, why="away"))
    play.pass_ms(499)
    assert len(play.reports(Done)) == 1
    play.pass_ms(1)
    first, second = play.reports(Done)
    assert (second.result, second.token, second.freed) == (first.result, first.token, None)


def test_a_completion_that_kafka_refuses_for_good_fails_the_job_by_name():
    play = Play()
    run = play.lease()
    play.acks = False
    play.finish(run, Succeeded(b"1"))
    play.do(
        play.session.on_failed(play.tickets(Done)[0], play.now, retriable=False, why="MSG_SIZE_TOO_LARGE")
    )
    (fail,) = play.reports(Fail)
    assert (fail.verdict, fail.epoch) == (Verdict.FAIL, 1)
    assert "MSG_SIZE_TOO_LARGE" in fail.error.message


def test_a_ticket_is_settled_once():
    play = Play()
    run = play.lease()
    play.acks = False
    play.finish(run)
    ticket = play.tickets(Done)[0]
    play.do(play.session.on_acked(ticket, play.now))
    play.do(play.session.on_failed(ticket, play.now, retriable=True, why="?"))
    play.pass_ms(1_000)
    assert len(play.reports(Done)) == 1


# -- the drain ---------------------------------------------------------------------------------------------


def drain(play: Play, drain_ms: int = 25_000, grace_ms: int = 5_000) -> list[object]:
    now = play.now
    return play.do(play.session.on_drain(now + drain_ms - grace_ms, now + drain_ms, now))


def test_a_draining_worker_releases_new_leases_and_offers_nothing():
    play = Play()
    drain(play)
    offers = len(play.reports(Offer))
    assert not play.lease()
    assert reasons(play) == ["shutdown"]
    play.pass_ms(20_000)
    assert len(play.reports(Offer)) == offers


def test_a_drain_withdraws_the_offers_that_stand():
    play = Play()
    stood = set(play.partitions(Offer))
    latest = play.offer().sequence
    before = len(play.sent)
    drain(play)
    withdrawn = play.sent[before:]
    assert {sent.partition for sent in withdrawn} == stood
    assert all(sent.report.slots == 0 and sent.report.sequence > latest for sent in withdrawn)


def test_a_run_may_finish_in_the_drain_and_its_completion_frees_nothing():
    play = Play()
    run = play.lease()
    drain(play)
    play.pass_ms(10_000)
    play.finish(run)
    assert play.reports(Done)[0].freed is None
    assert play.reports(Beat), "it was renewed all the while"


def test_a_run_that_does_not_finish_is_asked_to_leave_then_killed_and_released():
    play = Play()
    run = play.lease()
    drain(play)
    play.pass_ms(19_999)
    assert not play.all(StopRun)
    play.pass_ms(1)
    assert play.all(StopRun) == [StopRun(run, StopReason.DRAINING, 5_000)]
    play.pass_ms(5_000)
    assert [kill.run for kill in play.all(KillRun)] == [run]
    play.gone(run)
    assert reasons(play) == ["shutdown"]


def test_a_run_that_leaves_when_asked_is_released_with_shutdown():
    play = Play()
    run = play.lease()
    drain(play)
    play.pass_ms(20_000)
    play.finish(run, Left("draining"))
    assert reasons(play) == ["shutdown"]


def test_it_is_drained_only_when_kafka_has_every_report():
    play = Play()
    run = play.lease()
    drain(play)
    play.acks = False
    play.finish(run)
    play.pass_ms(1_000)
    assert not play.session.drained(play.now)
    assert play.session.unconfirmed() == 1
    play.do(play.session.on_acked(play.tickets(Done)[-1], play.now))
    assert play.session.drained(play.now)


def test_a_drained_worker_lingers_for_leases_under_way():
    play = Play()
    drain(play)
    assert not play.session.drained(play.now)
    play.pass_ms(300)
    assert play.session.drained(play.now)


def test_it_is_not_drained_unless_told_to():
    assert not Play().session.drained(10**9)


def test_told_again_it_hurries():
    play = Play()
    run = play.lease()
    drain(play)
    play.pass_ms(1_000)
    play.do(play.session.on_drain(play.now, play.now + 5_000, play.now, hurry=True))
    assert play.all(StopRun) == [StopRun(run, StopReason.DRAINING, 5_000)]
    play.do(play.session.on_drain(play.now, play.now, play.now, hurry=True))
    assert [kill.run for kill in play.all(KillRun)] == [run]


# -- shields -----------------------------------------------------------------------------------------------


def test_a_shield_keeps_a_cancel_from_killing_but_not_for_ever():
    play = Play()
    run = play.lease()
    play.do(play.session.on_shield(run, 12_000, play.now))
    play.revoke(reason="cancel")
    play.pass_ms(11_999)
    assert not play.all(KillRun)
    play.pass_ms(1)
    assert play.all(KillRun)


def test_a_shield_that_ends_early_protects_no_longer():
    play = Play()
    run = play.lease()
    play.do(play.session.on_shield(run, 60_000, play.now))
    play.revoke(reason="cancel")
    play.pass_ms(6_000)
    play.do(play.session.on_shield(run, 0, play.now))
    assert play.all(KillRun)


@pytest.mark.parametrize("end", ["timeout", "deadline", "unknown", "hurry"])
def test_a_shield_does_not_protect_from(end):
    play = Play()
    run = play.lease(timeout_ms=4_000 if end == "timeout" else 600_000)
    play.do(play.session.on_shield(run, 600_000, play.now))
    play.acks = end != "deadline"
    if end == "unknown":
        play.revoke(reason="unknown")
    elif end == "hurry":
        play.do(play.session.on_drain(play.now, play.now, play.now, hurry=True))
    play.pass_ms(9_000)
    assert play.all(KillRun)


def test_actions_are_handed_over_once():
    play = Play()
    play.lease()
    assert not [a for a in play.session.tick(play.now) if isinstance(a, StartRun | SendReport | GuardRun)]
