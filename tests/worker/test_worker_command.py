"""`scheduler worker MODULE:APP` as people run it."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import psutil
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from scheduler.codec.job import encode_job
from scheduler.codec.notices import encode_notice
from scheduler.codec.reports import decode_report
from scheduler.core.notices import Lease
from scheduler.core.reports import Done, Offer
from scheduler.core.spec import JobSpec
from scheduler.kafka.apply import apply
from scheduler.kafka.layout import Layout
from tests.worker.workers import HERE, end_all, eventually

NOWHERE = "127.0.0.1:1"


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "scheduler", *arguments]


ENVIRONMENT = {**os.environ, "PYTHONPATH": str(HERE.parents[1])}


def ran(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments),
        cwd=HERE / "apps",
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@contextmanager
def running(*arguments: str, stderr: int | None = None, **environment: str):
    process = subprocess.Popen(
        command(*arguments),
        cwd=HERE / "apps",
        env={**ENVIRONMENT, **environment},
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
    )
    try:
        yield process
    finally:
        end_all(process)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["jobs_app"], "'jobs_app' is not MODULE:APP"),
        (["jobs_app:app", "--slots", "0"], "0 is not in the range"),
        (["jobs_app:app", "--reserve", "bulk=1"], "'bulk=1' is not interactive=N with N up to 8"),
        (["jobs_app:app", "--reserve", "interactive=9"], "is not interactive=N with N up to 8"),
        (["jobs_app:app", "--reserve", "interactive=101%"], "nor interactive=N% up to 100%"),
        (["jobs_app:app", "--drain-timeout", "25"], "25"),
    ],
)
def test_a_wrong_option_is_a_usage_error(arguments, text):
    done = ran("worker", *arguments)
    assert done.returncode == 2
    assert text in done.stderr


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("broken_app:app", "RuntimeError: no database"),
        ("no_such_module:app", "No module named 'no_such_module'"),
        ("jobs_app:nothing", "jobs_app has no 'nothing'; its App is app"),
        ("jobs_app:LOG", "jobs_app:LOG is no App, but of type Logger; its App is app"),
    ],
)
def test_an_application_that_cannot_be_loaded_is_named(target, text):
    done = ran("-b", NOWHERE, "worker", target)
    assert done.returncode == 1
    assert f"{target} can't be loaded" in done.stderr
    assert text in done.stderr
    assert "importlib" not in done.stderr


def test_a_broker_that_does_not_answer_is_told_of_and_a_signal_ends_the_wait():
    arguments = ["-b", NOWHERE, "worker", "jobs_app:app", "--slots", "1"]
    with running(*arguments, stderr=subprocess.PIPE) as process, process.stderr as said:
        assert said.readline() == f"no broker answers at {NOWHERE} yet; trying for 30 s\n"
        assert len(psutil.Process(process.pid).children()) == 2  # the guard and the first one
        process.send_signal(signal.SIGTERM)
        assert eventually(lambda: process.poll() is not None, "exit")
        assert process.returncode == 0


def test_it_runs_a_job_that_is_leased_through_kafka(kafka, fresh_prefix):
    apply({"bootstrap.servers": kafka}, Layout(shards=2, leases={"default": 4}, prefix=fresh_prefix))
    reports = Consumer({"bootstrap.servers": kafka, "group.id": "x", "enable.auto.commit": False})
    reports.assign([TopicPartition(f"{fresh_prefix}reports", p, 0) for p in range(2)])
    producer = Producer({"bootstrap.servers": kafka})
    arguments = [
        "-b",
        kafka,
        "worker",
        "jobs_app:app",
        "--slots",
        "1",
        "--name",
        "w1",
        "--prefix",
        fresh_prefix,
    ]

    def report(kind):
        message = reports.poll(0.1)
        found = None if message is None else decode_report(message.value())
        return found if isinstance(found, kind) else None

    with running(*arguments, JOBS_RELEASE="r7") as process:
        offer = eventually(lambda: report(Offer), "offer")
        assert (offer.sender.worker, offer.sender.release, offer.slots) == ("w1", "r7", 1)
        spec = encode_job(JobSpec("j1", "acme", "q", "t.add", b'{"a": 2, "b": 3}'))
        lease = Lease(
            offer.sender.boot_id, "j1", 1, b"t" * 16, 1, offer.sequence, 20_000, 60_000, 1, False, 5, b"", spec
        )  # fmt: skip
        producer.produce(f"{fresh_prefix}leases.default", encode_notice(lease), partition=offer.sender.inbox)
        producer.flush(10)
        done = eventually(lambda: report(Done), "completion")
        assert (done.job_id, done.result, done.token) == ("j1", b"5", b"t" * 16)
        process.send_signal(signal.SIGTERM)
        assert eventually(lambda: report(Offer), "withdrawal").slots == 0
        assert eventually(lambda: process.poll() is not None, "exit")
        assert process.returncode == 0
        assert process.stdout.read() == "worker w1 ready: 1 slot, pool default, 21 job types\n"
    reports.close()
