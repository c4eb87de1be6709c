"""Tests don't see each other, and nothing stays behind: neither after a test that passes nor after one that fails."""

import pytest

from scheduler import App
from scheduler.client import request
from scheduler.client.submitter import KafkaSubmitter
from scheduler.worker import app as app_module
from scheduler.worker import liverun
from scheduler.worker.executors import handlers
from scheduler.worker.jobs import Job
from tests.testing.child import run_tests

app = App("alone")


@app.job()
def job() -> int:
    return 1


def seams():
    submitting = [KafkaSubmitter.submit, KafkaSubmitter.asubmit, KafkaSubmitter.submit_many]
    time = [request._from_now, liverun.mono_ms]
    return [*submitting, *time, Job.request, handlers.outcome_of_error, list(app_module._substitutes)]


def test_everything_is_put_back(in_memory):
    before = seams()
    with in_memory():
        assert all(now is not then for now, then in zip(seams(), before, strict=True))
    assert seams() == before


def test_everything_is_put_back_after_a_failure(in_memory):
    before = seams()
    with pytest.raises(ZeroDivisionError), in_memory() as jobs:
        job.submit()
        jobs.run()
        _ = 1 / 0
    assert seams() == before


def test_everything_is_put_back_when_a_lifespan_fails_to_close(in_memory):
    import contextlib

    before, other = seams(), App("closing")

    @other.lifespan
    @contextlib.contextmanager
    def resource():
        yield 1
        raise OSError("can't close")

    @other.job()
    def run() -> None: ...

    with pytest.raises(OSError, match="can't close"), in_memory() as jobs:
        run.submit()
        jobs.run()
    assert seams() == before


def test_blocks_may_be_nested(in_memory):
    with in_memory() as outer:
        job.submit()
        with in_memory() as inner:
            job.submit()
            inner.run()
            assert inner.submitted[0].ref.state == "succeeded"
        job.submit()
        outer.run()
        assert len(outer.submitted) == 2 and len(inner.submitted) == 1


TESTS = """
import pytest
from scheduler import App, Context, NotSubmitted

app = App("shop", connection={"bootstrap.servers": "127.0.0.1:1"})

@app.job()
def job(ctx: Context) -> int:
    return ctx.epoch

def test_fails(jobs):
    job.submit()
    jobs.kill_worker()
    jobs.run()
    jobs.advance("1h")
    assert False, "on purpose"

def test_fails_in_the_middle(jobs):
    job.submit()
    jobs.run(most_runs=0)

def test_starts_anew(jobs):
    assert jobs.submitted == [] and jobs.dead_letters == []
    ref = job.submit()
    jobs.run()
    assert ref.result() == 1 and len(jobs.runs(ref)) == 1

def test_needs_kafka_without_the_fixture():
    assert type(app.submitter()).__name__ == "KafkaSubmitter"

@pytest.fixture
def jobs_twice(jobs):
    return jobs

def test_fixtures_share_it(jobs, jobs_twice):
    assert jobs is jobs_twice

class TestOverridden:
    @pytest.fixture
    def jobs(self):
        return "mine"

    def test_a_fixture_of_that_name_wins(self, jobs):
        assert jobs == "mine"
"""


def test_a_users_test_may_fail(tmp_path):
    (tmp_path / "test_shop.py").write_text(TESTS)
    done = run_tests(tmp_path)
    assert "2 failed, 4 passed" in done.stdout, done.stdout + done.stderr
    assert "on purpose" in done.stdout and "NeverIdle" in done.stdout
