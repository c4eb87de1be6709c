"""Handlers run as in a worker: sync and async, with their lifespans, outcomes and everything that `ctx` offers."""

import asyncio
import contextlib
import dataclasses

import pytest

from scheduler import App, Cancel, Context, Fail, Message, Retry, Snooze
from scheduler.testing import NeverIdle, NoResult


@dataclasses.dataclass
class Parcel:
    weight: int


class Refused(Exception):
    pass


@pytest.fixture
def app():
    return App("post")


def test_sync_and_async_handlers_return_results(app, jobs):
    @app.job()
    def weigh(parcel: Parcel) -> Parcel:
        assert isinstance(parcel, Parcel)
        return Parcel(parcel.weight + 1)

    @app.job()
    async def send(ctx: Context, to: str) -> str:
        await asyncio.sleep(0)
        return f"{to} {ctx.attempt}/{ctx.max_attempts} {ctx.queue} {ctx.tenant}"

    weighed, sent = weigh.submit(Parcel(1)), send.options(queue="q", tenant="acme").submit(to="ann")
    assert (weighed.state, weighed.attempts) == ("accepted", 0)
    jobs.run()
    assert weighed.result() == {"weight": 2}
    assert sent.result() == "ann 1/5 q acme"
    assert (weighed.state, weighed.attempts) == ("succeeded", 1)


def test_a_plain_none_is_a_result_too(app, jobs):
    @app.job()
    def nothing() -> None: ...

    ref = nothing.submit()
    jobs.run()
    assert ref.result() is None


def test_what_can_not_be_encoded_is_no_result_and_no_failure(app, jobs):
    @app.job()
    def odd() -> object:
        return object()

    ref = odd.submit()
    jobs.run()
    assert ref.state == "succeeded"
    with pytest.raises(NoResult, match=r"the result of post\.odd .* was not kept: it can't be encoded"):
        ref.result()


def test_outcomes_raised_and_returned(app, jobs):
    @app.job(max_attempts=2)
    def again() -> Retry:
        return Retry("1m", "the queue is full")

    @app.job()
    def wrong() -> None:
        raise Fail("no such street")

    @app.job()
    def unwanted() -> None:
        raise Cancel("moved away")

    @app.job(give_up_on=(Refused,))
    def refused() -> None:
        raise Refused("at the door")

    refs = [job.submit() for job in (again, wrong, unwanted, refused)]
    jobs.run()
    assert [ref.state for ref in refs] == ["retrying", "failed", "cancelled", "failed"]
    assert [jobs.runs(ref)[-1].outcome for ref in refs] == ["failed", "failed", "cancelled", "failed"]
    jobs.advance("59s")
    assert refs[0].state == "retrying"
    jobs.advance("1s")
    assert refs[0].state == "failed"
    assert jobs.runs(refs[0])[-1].error == "Retry: the queue is full"
    reasons = [(letter.job, letter.reason) for letter in jobs.dead_letters]
    assert reasons == [(refs[1], "failed"), (refs[3], "failed"), (refs[0], "attempts_exhausted")]
    with pytest.raises(NoResult, match=r"it failed \(failed\): .*Refused: at the door"):
        refs[3].result()


def test_a_snooze_is_no_attempt(app, jobs):
    @app.job(max_attempts=1)
    def patient(ctx: Context) -> int:
        if jobs.now < ready_at:
            raise Snooze("10m")
        return ctx.attempt

    ready_at = jobs.now.replace(year=jobs.now.year + 1)
    ref = patient.submit()
    jobs.advance("1h")
    assert [run.outcome for run in jobs.runs(ref)] == ["snoozed"] * 7
    assert {run.attempt for run in jobs.runs(ref)} == {1} and ref.attempts == 0
    ready_at = jobs.now
    jobs.advance("10m")
    assert ref.result() == 1


def test_lifespans_are_opened_once_and_closed_with_the_test_in_reverse(app, in_memory):
    log: list[str] = []

    @app.lifespan
    @contextlib.contextmanager
    def first():
        log.append("first opens")
        yield 1
        log.append("first closes")

    @app.lifespan
    @contextlib.asynccontextmanager
    async def second():
        task = asyncio.current_task()
        log.append("second opens")
        yield "two"
        assert asyncio.current_task() is task, "opened in one task, closed in another"
        log.append("second closes")

    @app.job()
    def sync(ctx: Context) -> int:
        with pytest.raises(LookupError, match="async lifespans are not open for sync jobs: second"):
            ctx.get(str)
        return ctx.get(int)

    @app.job()
    async def later(ctx: Context) -> str:
        return ctx.get(str) * ctx.get(int)

    with in_memory() as jobs:
        refs = [job.submit() for job in (sync, sync, later, later)]
        jobs.run()
        refs += [later.submit()]
        jobs.run()
        assert [ref.result() for ref in refs] == [1, 1, "two", "two", "two"]
        assert log == ["first opens", "first opens", "second opens"]
    assert log[3:] == ["second closes", "first closes", "first closes"]


def test_a_lifespan_that_can_not_be_opened_ends_the_run_of_the_test(app, jobs):
    @app.lifespan
    @contextlib.contextmanager
    def broken():
        raise ConnectionError("no database")
        yield

    @app.job()
    def sync() -> None: ...

    sync.submit()
    with pytest.raises(ConnectionError, match="no database"):
        jobs.run()


def test_an_async_lifespan_that_can_not_be_opened_ends_the_run_of_the_test(app, jobs):
    @app.lifespan
    @contextlib.asynccontextmanager
    async def broken():
        raise ConnectionError("no database")
        yield

    @app.job()
    async def later() -> None: ...

    later.submit()
    with pytest.raises(ConnectionError, match="no database"):
        jobs.run()


def test_around_surrounds_each_run(app, jobs):
    log: list[str] = []

    @app.around
    @contextlib.contextmanager
    def noted(ctx: Context):
        log.append(f"{ctx.type} begins")
        yield
        log.append("ends")

    @app.job()
    def sync() -> None:
        log.append("runs")

    sync.submit()
    jobs.run()
    assert log == ["post.sync begins", "runs", "ends"]


def test_checkpoints_progress_and_labels_reach_the_run_and_what_is_told_of_it(app, jobs):
    @app.job(max_attempts=2, labels={"order": "17"})
    async def careful(ctx: Context) -> list[object]:
        start = ctx.checkpoint or {"n": 0}
        await asyncio.to_thread(ctx.save, {"n": start["n"] + 1})
        ctx.progress(0.5, "half")
        if ctx.attempt == 1:
            raise OSError("first time")
        return [ctx.checkpoint, dict(ctx.labels), ctx.stopping, 0 < ctx.remaining() <= 9]

    ref = careful.options(timeout="9s").submit()
    jobs.advance("5s")
    first, second = jobs.runs(ref)
    assert ref.result() == [{"n": 2}, {"order": "17"}, "", True]
    assert (first.checkpoint, second.checkpoint) == (None, {"n": 1})
    assert (first.outcome, first.error, first.progress) == ("failed", "OSError: first time", (0.5, "half"))
    assert first.epoch < second.epoch and first.ended_at < second.started_at


def test_emits_are_published_only_by_the_completion_that_is_accepted(app, jobs):
    @app.job()
    def child(n: int) -> int:
        return n

    @app.job(max_attempts=2)
    def parent(ctx: Context) -> None:
        ctx.emit(child.request(ctx.attempt))
        ctx.emit(Message("reports", key="k", value=b"v%d" % ctx.attempt))
        if ctx.attempt == 1:
            raise OSError("after the emits")

    parent.submit()
    jobs.advance("1m")
    assert [(one.type, one.arguments) for one in jobs.submitted] == [
        ("post.parent", {}),
        ("post.child", {"n": 2}),
    ]
    assert jobs.submitted[1].ref.result() == 2
    assert jobs.messages("reports") == [Message("reports", key=b"k", value=b"v2")]


def test_the_schedulers_own_topics_are_refused_as_in_production(app, jobs):
    @app.job()
    def sly(ctx: Context) -> None:
        ctx.emit(Message("jobs.reports", value=b"forged"))

    ref = sly.submit()
    jobs.run()
    assert [(letter.job, letter.reason) for letter in jobs.dead_letters] == [(ref, "emit_refused")]
    assert "may not emit to jobs.reports" in jobs.dead_letters[0].error


def test_handlers_submit_in_every_way(app, jobs):
    @app.job()
    def leaf(name: str) -> str:
        return name

    @app.job()
    def sync_parent() -> None:
        leaf.submit("one")
        app.submit_many(leaf.request(name) for name in ("two", "three"))

    @app.job()
    async def async_parent() -> str:
        ref = await leaf.asubmit("four")
        return ref.state

    sync_parent.submit()
    parent = async_parent.submit()
    jobs.run()
    assert [one.arguments["name"] for one in jobs.submitted[2:]] == ["one", "two", "three", "four"]
    assert [one.ref.state for one in jobs.submitted] == ["succeeded"] * 6
    assert parent.result() == "accepted"


def test_jobs_run_in_the_order_that_bands_and_priorities_ask_for(app, jobs):
    order: list[str] = []

    @app.job()
    def note(name: str) -> None:
        order.append(name)

    note.options(priority="bulk").submit("bulk")
    note.submit("default, first")
    note.options(priority=1).submit("default, urgent")
    note.submit("default, last")
    note.options(priority="interactive").submit("interactive")
    jobs.run()
    assert order == ["interactive", "default, urgent", "default, first", "default, last", "bulk"]


def test_a_job_that_submits_itself_for_ever_is_stopped_with_its_name(app, jobs):
    @app.job()
    def endless() -> None:
        endless.submit()

    endless.submit()
    with pytest.raises(NeverIdle, match=r"not idle after 50 runs: 50 of post\.endless\."):
        jobs.run(most_runs=50)


def test_a_job_that_snoozes_for_ever_is_stopped_too(app, jobs):
    @app.job()
    def endless() -> None:
        raise Snooze("1s")

    endless.submit()
    with pytest.raises(NeverIdle, match=r"50 of post\.endless"):
        jobs.advance("1h", most_runs=50)


def test_a_thousand_jobs_are_run(app, jobs):
    @app.job()
    def count(n: int) -> int:
        return n

    refs = app.submit_many(count.request(n) for n in range(1_000))
    jobs.run()
    assert [ref.result() for ref in refs] == list(range(1_000))


def test_sys_exit_ends_the_run_as_in_a_child(app, jobs):
    @app.job(max_attempts=1)
    def leaves() -> None:
        raise SystemExit(3)

    ref = leaves.submit()
    jobs.run()
    assert ref.state == "failed" and jobs.runs(ref)[0].error == "SystemExit: 3"


@pytest.mark.parametrize("kind", [KeyboardInterrupt, pytest.fail.Exception, pytest.skip.Exception])
def test_what_ends_a_test_goes_through_a_handler(app, jobs, kind):
    @app.job()
    def sync() -> None:
        raise kind("now")

    @app.job()
    async def later() -> None:
        raise kind("now")

    for job in (sync, later):
        ref = job.submit()
        with pytest.raises(kind, match="now"):
            jobs.run()
        assert jobs.runs(ref)[-1].outcome == "lost"


def test_running_inside_a_handler_is_refused(app, jobs):
    @app.job(max_attempts=1)
    def nested() -> None:
        jobs.run()

    ref = nested.submit()
    jobs.run()
    assert (
        jobs.runs(ref)[0].error
        == "RuntimeError: jobs.run() inside a handler: here jobs run one after another"
    )
