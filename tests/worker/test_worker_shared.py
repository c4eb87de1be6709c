"""Children that run many jobs at a time: the executors `asyncio` and `thread`."""

import json

import pytest

from scheduler.core.reports import Done, Fail, ReleaseReason, Verdict
from tests.worker.workers import appears, eventually, gone, running


def result(report: object) -> object:
    assert isinstance(report, Done)
    return json.loads(report.result)


@pytest.fixture(scope="module")
def worker():
    with running("async_app:app", slots=4) as started:
        yield started


def test_an_application_of_async_jobs_runs_in_one_child(worker):
    pids = {result(worker.end(worker.lease("a.pid"))) for _ in range(4)}
    assert pids == {child.pid for child in worker.children()}
    assert len(pids) == 1


def test_a_suspect_runs_alone_in_a_child_that_goes_with_it(worker):
    (shared,) = worker.children()
    pid = result(worker.end(worker.lease("a.pid", suspect=True)))
    assert pid != shared.pid
    eventually(lambda: gone(pid), "exit")


def test_a_suspect_that_dies_harms_nobody(worker, tmp_path):
    (shared,) = worker.children()
    assert worker.end(worker.lease("a.kill_self", suspect=True)).reason is ReleaseReason.CRASHED
    assert [child.pid for child in worker.children()] == [shared.pid]


def test_a_task_over_its_time_is_cancelled_without_harm_to_its_neighbours(worker, tmp_path):
    (shared,) = worker.children()
    lease = worker.lease("a.forever", {"started": str(tmp_path / "a")}, timeout_ms=1_000)
    fail = worker.end(lease)
    assert isinstance(fail, Fail)
    assert fail.verdict is Verdict.TIMEOUT
    assert [child.pid for child in worker.children()] == [shared.pid]


def test_a_cancelled_task_ends_without_harm_to_its_neighbours(tmp_path):
    with running("async_app:app", slots=2, grace_ms=500) as worker:
        lease = worker.lease("a.forever", {"started": str(tmp_path / "a")})
        appears(tmp_path / "a")
        (shared,) = worker.children()
        worker.revoke(lease, "cancel")
        assert worker.end(lease).reason is ReleaseReason.STOPPED
        assert [child.pid for child in worker.children()] == [shared.pid]


def test_a_task_that_blocks_the_loop_is_killed_and_its_neighbours_are_only_interrupted(tmp_path):
    with running("async_app:app", slots=2) as worker:
        neighbour = worker.lease("a.forever", {"started": str(tmp_path / "a")})
        appears(tmp_path / "a")
        deaf = worker.lease("a.deaf", {"started": str(tmp_path / "b")}, timeout_ms=1_000)
        assert worker.end(deaf).verdict is Verdict.TIMEOUT
        assert worker.end(neighbour).reason is ReleaseReason.INTERRUPTED
        assert isinstance(worker.end(worker.lease("a.pid")), Done)


def test_threads_share_one_child_and_run_side_by_side(tmp_path):
    with running("jobs_app:app", executor="thread", slots=2) as worker:
        first = worker.lease("t.until", {"started": str(tmp_path / "a"), "go_on": str(tmp_path / "c")})
        second = worker.lease("t.until", {"started": str(tmp_path / "b"), "go_on": str(tmp_path / "c")})
        assert appears(tmp_path / "a") == appears(tmp_path / "b")
        (tmp_path / "c").touch()
        assert isinstance(worker.end(first), Done)
        assert isinstance(worker.end(second), Done)
        assert worker.end(worker.lease("t.awaited", {"a": 3})).result == b"3"


def test_a_job_with_a_memory_bound_gets_a_child_of_its_own(tmp_path):
    with running("jobs_app:app", executor="thread", slots=2) as worker:
        neighbour = worker.lease("t.until", {"started": str(tmp_path / "a"), "go_on": str(tmp_path / "c")})
        shared = int(appears(tmp_path / "a"))
        assert (
            worker.end(worker.lease("t.hog", {"started": str(tmp_path / "b")})).verdict
            is Verdict.OUT_OF_MEMORY
        )
        assert not gone(shared)
        (tmp_path / "c").touch()
        assert isinstance(worker.end(neighbour), Done)
