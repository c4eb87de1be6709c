"""What a worker's log says of attempts that failed."""

import logging

import pytest

from scheduler.core.job import ErrorInfo
from scheduler.core.notices import Lease
from scheduler.core.reports import Done, Fail, Release, ReleaseReason, Sender, Verdict
from scheduler.core.spec import JobSpec
from scheduler.worker.actions import StartRun
from scheduler.worker.failures import TYPES_MAX, FailureLog

SENDER = Sender("w", b"boot" * 4, "default", 0, "")
TOKEN = b"t" * 16
ERROR = ErrorInfo("ConnectionError", "the mail server\nis busy", ("main.py:1:main", "jobs.py:9:send_email"))


@pytest.fixture
def told(caplog):
    caplog.set_level(logging.INFO, "scheduler.worker")
    return lambda: [record.getMessage() for record in caplog.records]


@pytest.fixture
def failures():
    log = FailureLog()
    spec = JobSpec("j1", "acme", "email", "shop.send_email", b'{"to": "secret"}')
    lease = Lease(SENDER.boot_id, "j1", 7, TOKEN, 2, 1, 20_000, 60_000, 1, False, 5, b"", b"")  # fmt: skip
    log.started(StartRun(1, lease, spec, 0))
    return log


def failed(verdict=Verdict.RETRY, error=ERROR, epoch=7):
    return Fail(SENDER, "j1", epoch, TOKEN, verdict, error=error)


def released(reason, detail="", job_id="j1"):
    return Release(SENDER, job_id, 7, TOKEN, reason, detail=detail)


@pytest.mark.parametrize(
    ("report", "why"),
    [
        (failed(), "ConnectionError: the mail server is busy (jobs.py:9:send_email)"),
        (failed(Verdict.FAIL, ErrorInfo("Fail", "no such user")), "Fail: no such user, not to be retried"),
        (failed(error=ErrorInfo("Retry")), "Retry"),
        (failed(Verdict.TIMEOUT, ErrorInfo("Timeout", "timeout after 1s")), "Timeout: timeout after 1s"),
    ],
)
def test_a_failed_attempt_is_one_line(failures, told, report, why):
    failures.reported(report)
    failures.reported(report)  # sent again
    assert told() == [f"shop.send_email j1: attempt 2 of 5 failed: {why}"]


@pytest.mark.parametrize(
    ("report", "why"),
    [
        (released(ReleaseReason.CRASHED, "exit code 3"), "its process died: exit code 3"),
        (released(ReleaseReason.LOST), "its lease was not renewed"),
    ],
)
def test_a_loss_is_no_failed_attempt(failures, told, report, why):
    failures.reported(report)
    assert told() == [f"shop.send_email j1: attempt 2 of 5 was lost: {why}"]


@pytest.mark.parametrize(
    "report",
    [
        Done(SENDER, "j1", 7, TOKEN),
        failed(Verdict.CANCEL),
        failed(epoch=6),
        released(ReleaseReason.SNOOZED),
        released(ReleaseReason.SHUTDOWN),
        released(ReleaseReason.BUSY),
    ],
)
def test_nothing_is_said_of_what_is_no_failed_attempt(failures, told, report):
    failures.reported(report)
    assert told() == []


def test_a_type_that_nobody_here_knows_is_told_once(told):
    log = FailureLog()
    for number in range(3):
        log.reported(released(ReleaseReason.UNKNOWN_TYPE, "no handler for 'a.b'", f"j{number}"))
    assert told() == [
        "job j0 is handed back: no handler for 'a.b'; workers of a pool have to know the same types"
    ]


def test_complaints_about_types_do_not_gather(told):
    log = FailureLog()
    for number in range(TYPES_MAX + 5):
        log.reported(released(ReleaseReason.UNKNOWN_TYPE, f"no handler for 'a.{number}'"))
    assert len(told()) == TYPES_MAX
