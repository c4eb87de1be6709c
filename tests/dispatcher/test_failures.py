"""Runs that end badly: what counts as an attempt, when the next one comes, and where it ends."""

import pytest

from scheduler.codec.job import decode_job
from scheduler.core.job import ErrorInfo
from scheduler.core.reports import Verdict
from scheduler.core.spec import Backoff
from tests.dispatcher.lives import grant, grant_again

NO_WAIT = Backoff(base_ms=1, factor=1.0, max_ms=1)
ATTEMPTS = (Verdict.RETRY, Verdict.TIMEOUT, Verdict.OUT_OF_MEMORY)


@pytest.mark.parametrize("verdict", ATTEMPTS)
def test_an_attempt_is_counted_and_the_job_waits_for_its_next(world, worker, verdict):
    lease = grant(world, worker, max_attempts=2)
    worker.fail(lease, verdict)
    world.turn(2)
    state = world.state()
    assert (state.phase, state.history.attempt, state.history.losses) == ("retrying", 1, 0)
    (attempt,) = state.history.attempts
    assert (attempt.epoch, attempt.worker, attempt.release) == (lease.epoch, "w", "r1")
    assert attempt.outcome == ("failed" if verdict is Verdict.RETRY else str(verdict))
    assert attempt.error == ErrorInfo("ValueError", "no", ("frame",))


@pytest.mark.parametrize("most", [1, 3])
def test_max_attempts_is_the_bound_and_the_first_run_counts(world, worker, most):
    lease = grant(world, worker, max_attempts=most, backoff=NO_WAIT)
    for number in range(1, most + 1):
        assert lease.attempt == number
        worker.fail(lease)
        world.turn(3)
        if number < most:
            lease = grant_again(world, worker)
    state = world.state()
    assert (state.phase, state.end.reason, state.history.attempt) == ("failed", "attempts_exhausted", most)
    (dead,) = world.dead_letters()
    assert dead["reason"] == "attempts_exhausted"
    assert dead["attempts"] == f"{most}/{most}"
    assert (dead["error_class"], dead["error_message"], dead["error_frames"]) == ("ValueError", "no", "frame")
    assert (dead["worker"], dead["release"], dead["job_id"]) == ("w", "r1", "a")
    assert [told.event for told in world.lifecycle()] == ["failed"]


def test_a_dead_letter_holds_the_record_as_it_came(world, worker):
    spec = world.submit("a", payload=b"\x00\xff", max_attempts=1)
    lease = grant_again(world, worker)
    worker.fail(lease)
    world.turn(2)
    (stored,) = world.records("dlq")
    assert decode_job(stored.value) == spec
    assert stored.key == b"a"


def test_fail_is_the_end_whatever_is_left_of_attempts(world, worker):
    worker.fail(grant(world, worker), Verdict.FAIL)
    world.turn(2)
    state = world.state()
    assert (state.phase, state.end.reason, state.history.attempt) == ("failed", "failed", 1)
    assert [dead["reason"] for dead in world.dead_letters()] == ["failed"]
    assert state.end.error == ErrorInfo("ValueError", "no", ("frame",))


def test_a_handler_may_call_the_job_off(world, worker):
    worker.fail(grant(world, worker), Verdict.CANCEL)
    world.turn(2)
    state = world.state()
    assert (state.phase, state.end.reason, state.history.attempt) == ("cancelled", "handler", 0)
    assert world.dead_letters() == []
    assert [told.event for told in world.lifecycle()] == ["cancelled"]


@pytest.mark.parametrize("chance", [0.0, 0.25, 0.999])
def test_the_delay_is_the_jittered_backoff(world, d1, worker, chance):
    d1.dice.fixed = chance
    worker.fail(grant(world, worker, backoff=Backoff(base_ms=4_000, factor=3.0, max_ms=60_000)))
    world.turn()
    assert world.state().due_ms == world.time.ms - 5 + int(4_000 * chance)


def test_the_backoff_grows_with_each_attempt_up_to_its_most(world, d1, worker):
    d1.dice.fixed = 0.999999
    lease = grant(world, worker, backoff=Backoff(base_ms=1_000, factor=2.0, max_ms=3_000), max_attempts=5)
    delays = []
    for _ in range(4):
        worker.fail(lease)
        world.turn()
        delays.append(round((world.state().due_ms - (world.time.ms - 5)) / 1_000))
        lease = grant_again(world, worker, wait_ms=3_500)
    assert delays == [1, 2, 3, 3]


@pytest.mark.parametrize("after_ms", [0, 1_000, 90_000])
def test_retry_after_means_not_before(world, d1, worker, after_ms):
    d1.dice.fixed = 0.5
    worker.fail(grant(world, worker, backoff=Backoff(base_ms=20_000)), retry_after_ms=after_ms)
    world.turn()
    assert world.state().due_ms == world.time.ms - 5 + max(10_000, after_ms)


def test_retries_that_failed_together_come_back_apart(world, d1, worker):
    d1.dice.fixed = None
    world.checking = False
    worker.offer(1_000)
    for number in range(1_000):
        world.submit(f"job-{number}", backoff=Backoff(base_ms=4_900, factor=1.0, max_ms=4_900))
    world.turn(5)
    for lease in worker.leases():
        worker.fail(lease)
    world.turn(5)
    woken: list[int] = []
    start = world.time.ms
    while world.time.ms < start + 5_000:
        if not (world.time.ms - start) % 4_000:
            worker.offer(1_000)
        world.turn(every_ms=20)
        woken += [world.time.ms - start for _ in worker.leases()]
    assert len(woken) == 1_000
    assert max(woken) - min(woken) > 4_500
    assert max(sum(at <= moment < at + 100 for moment in woken) for at in range(0, 5_000, 100)) <= 50


def test_the_last_five_attempts_are_remembered(world, worker):
    lease = grant(world, worker, max_attempts=9, backoff=NO_WAIT)
    for number in range(8):
        worker.fail(lease, error=ErrorInfo("E", str(number)))
        world.turn(3)
        if number < 7:
            lease = grant_again(world, worker)
    assert [attempt.error.message for attempt in world.state().history.attempts] == ["3", "4", "5", "6", "7"]


def test_a_checkpoint_reaches_the_next_attempt(world, worker):
    lease = grant(world, worker, backoff=NO_WAIT)
    worker.checkpoint(lease, b"17")
    worker.fail(lease)
    world.turn(3)
    assert grant_again(world, worker).checkpoint == b"17"


def test_an_attempt_is_told_to_the_worker(world, worker):
    worker.fail(grant(world, worker, backoff=NO_WAIT))
    world.turn(3)
    assert grant_again(world, worker).attempt == 2


def test_the_record_of_a_dead_job_stays_and_that_of_a_finished_one_goes(world, d1, worker):
    worker.fail(grant(world, worker, "dead", max_attempts=1))
    world.turn(2)
    worker.done(grant(world, worker, "fine"))
    world.turn(2)
    assert d1.engine.seats[world.home("dead")].shard.raw_spec("dead") is not None
    assert d1.engine.seats[world.home("fine")].shard.raw_spec("fine") is None
