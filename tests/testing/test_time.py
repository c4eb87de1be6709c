"""Virtual time: it moves when told, runs what becomes due on the way, and is the same in every run."""

import time
from datetime import timedelta

import pytest

from scheduler import App, Context
from scheduler.testing import NoResult

app = App("clock")
ran: list[tuple[str, timedelta]] = []


@app.job()
def note(ctx: Context, name: str) -> str:
    return name


@app.job(max_attempts=3)
def fails() -> None:
    raise OSError


def started(jobs, begun):
    """Return which jobs have run, and how long after `begun`."""
    runs = [
        (run.started_at - begun, one.arguments["name"])
        for one in jobs.submitted
        for run in jobs.runs(one.ref)
    ]
    return [(name, after.total_seconds()) for after, name in sorted(runs)]


def test_a_delayed_job_waits_for_its_time(jobs):
    ref = note.options(delay="2h").submit("a")
    assert jobs.submitted[0].delay == timedelta(hours=2)
    jobs.run()
    assert ref.state == "scheduled" and jobs.runs(ref) == []
    jobs.advance("1h59m59s")
    assert ref.state == "scheduled"
    jobs.advance("1s")
    assert ref.state == "succeeded"


def test_delays_count_from_virtual_time(jobs):
    begun = jobs.now
    jobs.advance("3h")
    note.options(delay="1h").submit("a")
    jobs.advance("1h")
    assert started(jobs, begun) == [("a", 4 * 3600)]


def test_everything_becomes_due_in_order_and_at_its_own_time(jobs):
    begun = jobs.now
    for delay, name in (("30m", "c"), ("10m", "a"), ("20m", "b")):
        note.options(delay=delay).submit(name)
    jobs.advance("1h")
    assert started(jobs, begun) == [("a", 600), ("b", 1200), ("c", 1800)]
    assert jobs.now - begun == timedelta(hours=1)


def test_a_job_for_a_moment_knows_it(jobs):
    @app.job(name="nominal")
    def nominal(ctx: Context) -> str:
        return ctx.nominal_time.isoformat()

    moment = jobs.now + timedelta(days=40)
    ref = nominal.options(run_at=moment).submit()
    assert jobs.submitted[0].run_at == moment
    jobs.advance("40d")
    assert ref.result() == moment.isoformat()


def test_a_moment_computed_from_the_wall_clock_is_reached(jobs):
    moment = time.time() + 7200
    ref = note.options(run_at=jobs.now.fromtimestamp(moment, jobs.now.tzinfo)).submit("a")
    jobs.run()
    assert ref.state == "scheduled"
    jobs.advance("2h")
    assert ref.state == "succeeded"


def test_a_job_that_nobody_ran_in_time_expires(jobs):
    ref = note.options(expires_in="1h", delay="2h").submit("a")
    jobs.advance("59m")
    assert ref.state == "scheduled"
    jobs.advance("1m")
    assert ref.state == "expired" and jobs.runs(ref) == []


def test_time_stands_still_in_run(jobs):
    begun = jobs.now
    note.submit("a")
    ref = fails.submit()
    jobs.run()
    jobs.run()
    assert jobs.now == begun and ref.state == "retrying" and len(jobs.runs(ref)) == 1


def test_every_test_sees_the_same_delays(in_memory):
    seen = []
    for _ in range(2):
        with in_memory() as jobs:
            begun = jobs.now
            refs = [fails.submit() for _ in range(20)]
            jobs.advance("1h")
            seen.append([[run.started_at - begun for run in jobs.runs(ref)] for ref in refs])
    assert seen[0] == seen[1]
    first_delays = {times[1] for times in seen[0]}
    assert len(first_delays) > 10 and timedelta(seconds=2.5) <= min(first_delays) <= max(
        first_delays
    ) < timedelta(seconds=5)


def test_a_month_costs_no_time(jobs):
    ref = fails.submit()
    began = time.monotonic()
    jobs.advance(timedelta(days=30))
    assert ref.state == "failed"
    assert time.monotonic() - began < 5


def test_a_state_is_remembered_after_the_scheduler_has_dropped_it(jobs):
    ref = note.submit("a")
    jobs.run()
    jobs.advance("3d")
    assert ref.state == "succeeded" and ref.result() == "a"


def test_an_idempotency_key_holds_for_its_time(jobs):
    once = note.options(idempotency_key="order-17")
    assert once.submit("a") == once.submit("a")
    jobs.run()
    jobs.advance("1h")
    ref = once.submit("a")
    jobs.run()
    assert len(jobs.submitted) == 3 and len(jobs.runs(ref)) == 1
    jobs.advance("2d")
    once.submit("a")
    jobs.run()
    assert len(jobs.runs(ref)) == 2


def test_hundreds_of_retries_in_one_tier_all_come_back(jobs):
    refs = app.submit_many(fails.options(backoff={"base": "60s", "max": "60s"}).request() for _ in range(700))
    jobs.run()
    assert {ref.state for ref in refs} == {"retrying"}
    jobs.advance("3m")
    assert {(ref.state, ref.attempts) for ref in refs} == {("failed", 3)}


# -- result() waits -------------------------------------------------------------------------------------


def test_result_waits_in_virtual_time(jobs):
    begun = jobs.now
    assert note.options(delay="20s").submit("a").result(timeout="30s") == "a"
    assert jobs.now - begun == timedelta(seconds=20)


def test_result_gives_up_when_its_time_is_over(jobs):
    begun = jobs.now
    ref = note.options(delay="1h").submit("a")
    with pytest.raises(TimeoutError, match="is scheduled after 30"):
        ref.result(timeout="30s")
    assert jobs.now - begun == timedelta(seconds=30)
    assert ref.result() == "a"


def test_result_of_a_failed_job_says_why(jobs):
    with pytest.raises(
        NoResult, match=r"clock\.fails .* has no result: it failed \(attempts_exhausted\): OSError"
    ):
        fails.submit().result()


def test_a_handler_can_not_wait_for_another_job(jobs):
    @app.job(name="waits", max_attempts=1)
    def waits() -> None:
        note.submit("a").result()

    ref = waits.submit()
    jobs.run()
    assert "can't end while a handler waits for it" in jobs.runs(ref)[0].error
