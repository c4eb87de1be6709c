"""A real worker with real children: what comes back from what handlers do."""

import json

import pytest

from scheduler.core.reports import Beat, Checkpoint, Done, Fail, Release, ReleaseReason, Verdict
from tests.worker.workers import FAST, Worker, appears, eventually, gone, running


@pytest.fixture(scope="module")
def worker():
    with running(slots=2) as started:
        yield started


def test_it_says_when_it_is_ready(worker: Worker):
    assert worker.process.stdout.readline() == "worker w ready: 2 slots, pool default, 21 job types\n"


def test_a_result_is_json(worker: Worker):
    done = worker.end(worker.lease("t.add", {"a": 1, "b": 2}))
    assert isinstance(done, Done)
    assert (done.result, done.result_omitted) == (b"3", "")


def test_an_async_handler_runs_in_a_child_of_the_process_executor(worker: Worker):
    assert worker.end(worker.lease("t.awaited", {"a": 5})).result == b"5"


def test_a_result_above_the_bound_is_left_out_by_name(worker: Worker):
    done = worker.end(worker.lease("t.big"))
    assert (done.result, done.result_omitted) == (b"", "100002 bytes are above 65536")


def test_emits_go_with_the_completion(worker: Worker):
    (emit,) = worker.end(worker.lease("t.emits")).emits
    assert (emit.topic, emit.key, emit.value) == ("out", b"key", b"value")


def test_a_completion_that_cannot_be_told_fails_the_job(worker: Worker):
    assert worker.end(worker.lease("t.emits_nonsense")).verdict is Verdict.FAIL


def test_an_exception_is_a_failed_attempt_with_a_bounded_text_and_its_frames(worker: Worker):
    fail = worker.end(worker.lease("t.fails", {"what": "raise"}))
    assert isinstance(fail, Fail)
    assert fail.verdict is Verdict.RETRY
    assert fail.error.error_class == "ValueError"
    assert fail.error.message.startswith("secret 😀")
    assert len(fail.error.message.encode()) <= 2_048
    assert fail.error.frames[-1].startswith("jobs_app.py:")
    assert fail.error.frames[-1].endswith(":fails")


def test_outcomes_are_performed(worker: Worker):
    retry = worker.end(worker.lease("t.fails", {"what": "retry"}))
    assert (retry.verdict, retry.retry_after_ms) == (Verdict.RETRY, 7_000)
    snooze = worker.end(worker.lease("t.fails", {"what": "snooze"}))
    assert (snooze.reason, snooze.delay_ms) == (ReleaseReason.SNOOZED, 9_000)
    fail = worker.end(worker.lease("t.fails", {"what": "fail"}))
    assert (fail.verdict, fail.error.message) == (Verdict.FAIL, "never")


def test_arguments_that_do_not_fit_are_a_failed_attempt(worker: Worker):
    fail = worker.end(worker.lease("t.add", {"a": "one", "b": 2}))
    assert fail.error.error_class in ("TypeError", "Fail")


def test_sys_exit_in_a_handler_ends_the_run_not_the_child(worker: Worker):
    before = {child.pid for child in worker.children()}
    assert worker.end(worker.lease("t.sys_exit")).error.error_class == "SystemExit"
    assert {child.pid for child in worker.children()} == before


def test_a_child_serves_many_jobs(worker: Worker):
    pids = {worker.end(worker.lease("t.pid_and_log")).result for _ in range(6)}
    assert len(pids) <= 2


def test_a_checkpoint_is_saved_before_the_handler_goes_on(worker: Worker, tmp_path):
    paths = {"started": str(tmp_path / "a"), "go_on": str(tmp_path / "b")}
    worker.slot()
    worker.acks = False
    lease = worker.lease("t.checkpoints", paths, checkpoint=b"41", offer=worker.slot())
    saved = eventually(
        lambda: worker.pump(0.01) or [r for r in worker.reports if isinstance(r, Checkpoint)], "save"
    )
    assert saved[0].data == b"42"
    assert not (tmp_path / "b").exists(), "save returns only when Kafka has it"
    worker.ack_all()
    appears(tmp_path / "b")
    assert worker.end(lease).result == b"41"


@pytest.mark.parametrize(
    ("handler", "detail"),
    [("kill_self", "killed by SIGKILL"), ("exit_zero", "exit code 0"), ("segfault", "killed by SIGSEGV")],
)
def test_a_child_that_dies_is_reported_at_once_as_crashed(worker: Worker, handler, detail):
    lease = worker.lease(f"t.{handler}")
    release = worker.end(lease)
    assert isinstance(release, Release)
    assert (release.reason, release.started, release.detail) == (ReleaseReason.CRASHED, True, detail)
    assert worker.end(worker.lease("t.add", {"a": 1, "b": 1})).result == b"2"


def test_what_a_dead_child_started_dies_before_its_job_can_run_elsewhere(worker: Worker, tmp_path):
    lease = worker.lease("t.leaves_a_child", {"started": str(tmp_path / "a")})
    left = int(appears(tmp_path / "a"))
    assert worker.end(lease).reason is ReleaseReason.CRASHED
    assert gone(left)


def test_what_a_job_prints_and_logs_goes_to_standard_error_with_the_job(capfd):
    with running(slots=1) as worker:
        worker.end(worker.lease("t.pid_and_log", job_id="j-77"))
        text = ""

        def told():
            nonlocal text
            text += capfd.readouterr().err
            return "printed by a job" in text and "hello from a job" in text

        eventually(told, "text")
        assert "WARNING jobs_app: hello from a job [job j-77 attempt 1 tenant acme]" in text


def test_a_child_that_cannot_start_is_tried_again_and_nothing_is_offered_meanwhile(tmp_path, monkeypatch):
    flag = tmp_path / "flag"
    monkeypatch.setenv("FLAKY", str(flag))
    with running("flaky_app:app", slots=1) as worker:
        offer = worker.slot()
        flag.touch()
        lease = worker.lease("f.die", offer=offer)
        release = worker.end(lease)
        assert (release.reason, release.freed) == (ReleaseReason.CRASHED, None)
        eventually(lambda: not worker.children(), "a failed start")
        worker.pump()
        seen = len(worker.reports)
        flag.unlink()
        assert isinstance(worker.end(worker.lease("f.pid")), Done)
        assert len(worker.reports) > seen


def test_a_crash_harms_no_neighbour(worker: Worker, tmp_path):
    paths = {"started": str(tmp_path / "a"), "go_on": str(tmp_path / "b")}
    good = worker.lease("t.until", paths)
    appears(tmp_path / "a")
    assert worker.end(worker.lease("t.kill_self")).reason is ReleaseReason.CRASHED
    (tmp_path / "b").touch()
    assert worker.end(good).result == b'"done"'


def test_a_run_above_its_memory_is_killed_and_fails(worker: Worker, tmp_path):
    fail = worker.end(worker.lease("t.hog", {"started": str(tmp_path / "a")}))
    assert isinstance(fail, Fail)
    assert fail.verdict is Verdict.OUT_OF_MEMORY
    assert "100 MB allowed" in fail.error.message


def test_a_run_over_its_time_is_killed_with_all_it_started(worker: Worker, tmp_path):
    lease = worker.lease("t.parent_of", {"started": str(tmp_path / "a")}, timeout_ms=1_500)
    child, grandchild = map(int, appears(tmp_path / "a").split())
    fail = worker.end(lease)
    assert (fail.verdict, fail.error.message) == (Verdict.TIMEOUT, "timeout after 1500ms")
    assert gone(child)
    assert gone(grandchild)


def test_a_handler_that_checks_leaves_before_it_is_killed_for_its_timeout(worker: Worker, tmp_path):
    before = {
        child.pid for child in eventually(lambda: len(worker.children()) == 2 and worker.children(), "two")
    }
    fail = worker.end(worker.lease("t.polite", {"started": str(tmp_path / "a")}, timeout_ms=3_000))
    assert fail.verdict is Verdict.TIMEOUT
    assert fail.run_ms < 3_000
    assert {child.pid for child in worker.children()} == before


def test_a_cancelled_handler_that_checks_leaves_by_itself(worker: Worker, tmp_path):
    lease = worker.lease("t.polite", {"started": str(tmp_path / "a")})
    appears(tmp_path / "a")
    worker.revoke(lease, "cancel")
    assert worker.end(lease).reason is ReleaseReason.STOPPED


def test_a_revoked_run_that_may_run_elsewhere_is_killed_at_once(worker: Worker, tmp_path):
    lease = worker.lease("t.stubborn", {"started": str(tmp_path / "a")})
    pid = int(appears(tmp_path / "a"))
    worker.revoke(lease, "unknown")
    assert worker.end(lease).reason is ReleaseReason.STOPPED
    assert gone(pid)


def test_progress_goes_with_the_beats(tmp_path):
    with running(timing=FAST, slots=1) as worker:
        paths = {"started": str(tmp_path / "a"), "go_on": str(tmp_path / "b")}
        lease = worker.lease("t.progress", paths, lease_ms=2_000)

        def told():
            worker.pump(0.01)
            held = [
                h for r in worker.reports if isinstance(r, Beat) for h in r.leases if h.token == lease.token
            ]
            return [h for h in held if h.fraction == 0.5]

        assert eventually(told, "progress")[0].note == "half way"
        (tmp_path / "b").touch()
        assert isinstance(worker.end(lease), Done)


def test_a_child_is_replaced_after_so_many_jobs():
    with running(slots=1, jobs_per_child=3) as worker:
        pids = [json.loads(worker.end(worker.lease("t.pid_and_log")).result) for _ in range(3)]
        assert len(set(pids)) == 1
        eventually(lambda: gone(pids[0]), "retirement")
        assert json.loads(worker.end(worker.lease("t.pid_and_log")).result) != pids[0]
