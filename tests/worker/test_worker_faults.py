"""A real worker under faults: killed, stopped, told to go, with handlers that do not cooperate."""

import signal
import subprocess
import sys

import pytest

from scheduler.core.notices import Drain
from scheduler.core.reports import Beat, Done, Release, ReleaseReason
from tests.worker.workers import BOOT_ID, FAST, HERE, appears, eventually, gone, running


def test_a_handler_that_holds_the_interpreter_lock_does_not_stop_beats(tmp_path):
    """LV-02: the lease is renewed in another process."""
    with running(timing=FAST, slots=1) as worker:
        lease = worker.lease("t.hold_gil", {"started": str(tmp_path / "a"), "seconds": 4}, lease_ms=2_000)
        done = worker.end(lease)
        assert isinstance(done, Done)
        assert done.result == b'"slept"'
        assert len(worker.beats(lease)) >= 5


def test_without_acknowledgements_a_run_is_ended_at_its_deadline_though_it_holds_the_lock(tmp_path):
    with running(timing=FAST, slots=1) as worker:
        worker.slot()
        worker.acks = False
        offer = worker.reports[0].sequence
        lease = worker.lease("t.hold_gil", {"started": str(tmp_path / "a"), "seconds": 60}, offer=offer)
        pid = int(appears(tmp_path / "a"))
        release = worker.end(lease)
        assert (release.reason, release.started) == (ReleaseReason.LOST, True)
        assert gone(pid)


def test_a_stopped_parent_does_not_keep_its_children_beyond_their_deadline(tmp_path):
    with running(timing=FAST, slots=1) as worker:
        lease = worker.lease("t.stubborn", {"started": str(tmp_path / "a")}, lease_ms=2_000)
        pid = int(appears(tmp_path / "a"))
        worker.process.send_signal(signal.SIGSTOP)
        eventually(lambda: gone(pid), "the guard's kill")
        worker.process.send_signal(signal.SIGCONT)
        assert worker.end(lease).reason is ReleaseReason.LOST


def test_when_the_parent_is_killed_the_guard_kills_children_and_grandchildren(tmp_path):
    with running(slots=2) as worker:
        worker.lease("t.parent_of", {"started": str(tmp_path / "a")})
        worker.lease("t.hold_gil", {"started": str(tmp_path / "b"), "seconds": 100})
        child, grandchild = map(int, appears(tmp_path / "a").split())
        holder = int(appears(tmp_path / "b"))
        guard = worker.guard().pid
        worker.process.kill()
        for pid in (child, grandchild, holder, guard):
            eventually(lambda pid=pid: gone(pid), f"end of {pid}")


def test_when_the_guard_is_killed_the_worker_ends_with_all_children(tmp_path):
    with running(slots=1) as worker:
        worker.lease("t.stubborn", {"started": str(tmp_path / "a")})
        pid = int(appears(tmp_path / "a"))
        worker.guard().kill()
        assert worker.wait() != 0
        assert gone(pid)


def test_jobs_that_finish_in_the_drain_are_confirmed_before_the_worker_goes(tmp_path):
    """SH-03."""
    with running(slots=4) as worker:
        leases = []
        for n in range(3):
            paths = {"started": str(tmp_path / f"a{n}"), "go_on": str(tmp_path / f"b{n}")}
            leases.append(worker.lease("t.until", paths))
            appears(tmp_path / f"a{n}")
        worker.slot()
        worker.process.terminate()
        eventually(
            lambda: worker.pump(0.01) or [r for r in worker.reports if getattr(r, "slots", 1) == 0],
            "withdrawal",
        )
        worker.acks = False
        for n in range(3):
            (tmp_path / f"b{n}").touch()
        for lease in leases:
            done = worker.end(lease)
            assert isinstance(done, Done)
            assert done.freed is None
        assert worker.process.poll() is None, "Kafka has not confirmed them"
        worker.ack_all()
        assert worker.wait() == 0


def test_a_draining_worker_hands_new_leases_back(tmp_path):
    with running(slots=2) as worker:
        paths = {"started": str(tmp_path / "a"), "go_on": str(tmp_path / "b")}
        first = worker.lease("t.until", paths)
        appears(tmp_path / "a")
        offer = worker.slot()
        worker.process.terminate()
        eventually(
            lambda: worker.pump(0.01) or [r for r in worker.reports if getattr(r, "slots", 1) == 0],
            "withdrawal",
        )
        late = worker.lease("t.add", {"a": 1, "b": 1}, offer=offer)
        assert worker.end(late).reason is ReleaseReason.SHUTDOWN
        (tmp_path / "b").touch()
        assert isinstance(worker.end(first), Done)
        assert worker.wait() == 0


def refused(worker, job_id):
    """Have a lease refused: whatever was sent to the worker before has had its effect by then."""
    return worker.end(worker.lease("t.add", {"a": 1, "b": 1}, offer=99, job_id=job_id))


def test_the_signal_that_follows_a_notice_to_drain_does_not_hurry_it(tmp_path):
    with running(slots=1, grace_ms=0) as worker:  # hurried, the job would be killed at once
        paths = {"started": str(tmp_path / "a"), "go_on": str(tmp_path / "b")}
        lease = worker.lease("t.until", paths)
        appears(tmp_path / "a")
        worker.send(Drain(BOOT_ID, "deploy"))
        refused(worker, "after the notice")
        assert refused(worker, "draining").reason is ReleaseReason.SHUTDOWN
        worker.process.terminate()
        refused(worker, "after the signal")
        assert not worker.ended(lease)
        (tmp_path / "b").touch()
        assert isinstance(worker.end(lease), Done)
        assert worker.wait() == 0


def test_jobs_that_do_not_finish_in_the_drain_leave_if_they_check_and_are_killed_if_not(tmp_path):
    with running(slots=2, drain_ms=1_500, grace_ms=1_000) as worker:
        polite = worker.lease("t.polite", {"started": str(tmp_path / "a")})
        stubborn = worker.lease("t.stubborn", {"started": str(tmp_path / "b")})
        appears(tmp_path / "a")
        pid = int(appears(tmp_path / "b"))
        worker.process.terminate()
        for lease in (polite, stubborn):
            release = worker.end(lease)
            assert isinstance(release, Release)
            assert release.reason is ReleaseReason.SHUTDOWN
        assert gone(pid)
        assert worker.wait() == 0


def test_a_shielded_section_is_not_cut_by_a_cancel(tmp_path):
    with running(slots=1, grace_ms=200) as worker:
        paths = {"started": str(tmp_path / "a"), "go_on": str(tmp_path / "b")}
        lease = worker.lease("t.shielded", paths)
        appears(tmp_path / "a")
        worker.revoke(lease, "cancel")
        quick = worker.lease("t.add", {"a": 1, "b": 1}, offer=99, job_id="marker")
        worker.end(quick)
        (tmp_path / "b").touch()
        assert worker.end(lease).result == b'"whole"'


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP, signal.SIGTERM])
def test_an_idle_worker_goes_cleanly(number):
    with running(slots=1) as worker:
        worker.slot()
        worker.process.send_signal(number)
        assert worker.wait() == 0


def test_a_third_signal_ends_it_at_once(tmp_path):
    with running(slots=1) as worker:
        lease = worker.lease("t.stubborn", {"started": str(tmp_path / "a")})
        appears(tmp_path / "a")
        # Two that come together may be heard as one.
        eventually(lambda: worker.process.terminate() or worker.pump(0.01) or worker.ended(lease), "end", 4.0)
        assert worker.end(lease).reason is ReleaseReason.SHUTDOWN
        assert worker.wait() == 0


def test_an_application_that_cannot_be_imported_ends_the_worker_with_the_reason():
    config = '{"target": "broken_app:app", "worker": "w", "boot_id": "Ym9vdGJvb3Rib290Ym9vdA=="}'
    code = f"""
import sys, msgspec
sys.path.insert(0, {str(HERE)!r})
from scheduler.worker.parent import *
from scheduler.worker.clock import SystemClock
Parent(msgspec.json.decode({config!r}, type=ParentConfig), None, SystemClock(), None, print).run()
"""
    ran = subprocess.run([sys.executable, "-c", code], cwd=HERE / "apps", capture_output=True, text=True, timeout=60,
                         env={"PYTHONPATH": str(HERE.parents[1]), "PATH": ""}, check=False)  # fmt: skip
    assert ran.returncode == 1
    assert "WorkerError: broken_app:app can't be loaded" in ran.stderr
    assert "RuntimeError: no database" in ran.stderr


def test_beats_name_the_boot_id(tmp_path):
    with running(timing=FAST, slots=1) as worker:
        paths = {"started": str(tmp_path / "a"), "go_on": str(tmp_path / "b")}
        lease = worker.lease("t.until", paths, lease_ms=2_000)
        (beat, *_) = eventually(lambda: worker.beats(lease), "beat")
        assert isinstance(beat, Beat)
        assert beat.sender.boot_id == BOOT_ID
        (tmp_path / "b").touch()
        worker.end(lease)
