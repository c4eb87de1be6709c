"""A handler that lets time pass: leases are renewed, timeouts end it, `ctx` says so in time."""

import asyncio
import logging
from datetime import timedelta

import pytest

from scheduler import App, Context


@pytest.fixture
def app():
    return App("slow")


def test_a_run_takes_as_long_as_it_says_and_keeps_its_lease(app, jobs):
    @app.job(timeout="30m")
    def long(ctx: Context) -> float:
        jobs.advance("20m")
        return ctx.remaining()

    ref = long.submit()
    jobs.run()
    (run,) = jobs.runs(ref)
    assert run.ended_at - run.started_at == timedelta(minutes=20)
    assert ref.state == "succeeded" and 0 < ref.result() <= 600


def test_a_run_over_its_timeout_is_killed_and_counts_as_an_attempt(app, jobs):
    log: list[str] = []

    @app.job(timeout="10s", max_attempts=2)
    def hangs() -> None:
        log.append("begins")
        jobs.advance("1m")
        log.append("is never reached")

    ref = hangs.submit()
    jobs.run()
    (run,) = jobs.runs(ref)
    assert (run.outcome, run.error) == ("timeout", "Timeout: timeout after 10s")
    assert run.ended_at - run.started_at == timedelta(seconds=10)
    assert ref.state == "retrying" and ref.attempts == 1
    jobs.advance("1m")
    assert ref.state == "failed" and log == ["begins", "begins"]
    assert jobs.dead_letters[0].error == "Timeout: timeout after 10s"


def test_an_async_run_over_its_timeout_is_killed_too(app, jobs):
    @app.job(timeout="10s", max_attempts=1)
    async def hangs() -> None:
        try:
            await asyncio.sleep(0)
            jobs.advance("1m")
        except Exception:
            return

    ref = hangs.submit()
    jobs.run()
    assert ref.state == "failed" and jobs.runs(ref)[0].outcome == "timeout"


def test_a_run_that_checks_leaves_by_itself(app, jobs):
    log: list[str] = []

    @app.job(timeout="10s", max_attempts=1)
    def checks(ctx: Context) -> None:
        try:
            while True:
                jobs.advance("4s")
                ctx.check()
        finally:
            log.append(ctx.stopping)

    ref = checks.submit()
    jobs.run()
    assert jobs.runs(ref)[0].outcome == "timeout"

    @app.job(timeout="10s", max_attempts=1)
    def checks_often(ctx: Context) -> None:
        try:
            while True:
                jobs.advance("100ms")
                ctx.check()
        finally:
            log.append(ctx.stopping)

    ref = checks_often.submit()
    jobs.run()
    (run,) = jobs.runs(ref)
    assert run.outcome == "timeout" and run.ended_at - run.started_at == timedelta(seconds=9)
    assert log == [
        "timeout"
    ]  # the first was killed: it checked at 8 s, and at 10 s it was in the middle of a step


def test_a_killed_run_that_goes_on_all_the_same_changes_nothing(app, jobs):
    @app.job(timeout="10s", max_attempts=1)
    def stubborn(ctx: Context) -> str:
        for step in (
            lambda: jobs.advance("1m"),
            lambda: ctx.save(1),
            stubborn.submit,
            ctx.check,
            ctx.remaining,
        ):
            try:
                step()
            except BaseException as error:
                logging.getLogger("stubborn").info("%r", error)
            else:
                raise AssertionError("it lives on")
        return "done"

    ref = stubborn.submit()
    jobs.run()
    assert ref.state == "failed" and jobs.runs(ref)[0].outcome == "timeout"
    assert len(jobs.submitted) == 1


def test_what_becomes_due_meanwhile_runs_afterwards(app, jobs):
    @app.job()
    def quick() -> None: ...

    @app.job()
    def long() -> None:
        jobs.advance("2m")

    begun = jobs.now
    late = quick.options(delay="1m").submit()
    long.submit()
    jobs.run()
    assert [run.started_at - begun for run in jobs.runs(late)] == [timedelta(minutes=2)]


def test_a_worker_may_die_in_a_run_that_has_gone_on_for_long(app, jobs):
    @app.job(timeout="30m")
    def long(ctx: Context) -> int:
        for n in range(ctx.checkpoint or 0, 4):
            jobs.advance("1m")
            ctx.save(n + 1)
        return ctx.checkpoint

    ref = long.submit()
    jobs.kill_worker(after_checkpoint=2)
    jobs.run()
    lost, last = jobs.runs(ref)
    assert lost.outcome == "lost" and lost.ended_at - lost.started_at == timedelta(minutes=2)
    assert last.checkpoint == 2 and ref.result() == 4
    assert (
        timedelta(seconds=10) < last.started_at - lost.ended_at <= timedelta(seconds=20)
    )  # what is left of the lease
