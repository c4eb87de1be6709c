"""`scheduler schema`, as producers of other languages use it."""

import json
import time

import msgspec
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from scheduler.cli import exits
from scheduler.cli.main import run
from scheduler.codec.job import encode_job
from scheduler.core import keys
from tests.codec.golden import DIRECTORY, PLAIN


@pytest.fixture
def said(capsys):
    return lambda: capsys.readouterr().out


def test_list(said):
    assert run(["schema", "list"]) == exits.OK
    assert "JobV1          c301 6b01d4a5ab17e81d  submit.*, changelog" in said()
    assert run(["schema", "list", "--json"]) == exits.OK
    assert {row["name"] for row in json.loads(said())} >= {"JobV1", "DoneV1", "StateV1"}


def test_a_good_file(said):
    assert run(["schema", "check", str(DIRECTORY / "JobV1.sized-blocks.bin")]) == exits.OK
    assert "of tenant billing; fingerprint 6b01d4a5ab17e81d is JobV1 (accepted)" in said()


def test_a_file_with_faults(said, tmp_path):
    file = tmp_path / "job.bin"
    file.write_bytes(encode_job(msgspec.structs.replace(PLAIN, timeout_ms=86_400_000, priority=10)))
    assert run(["schema", "check", str(file)]) == exits.FAILED
    assert said().splitlines() == [
        "/priority 10 above the limit 9; fingerprint 6b01d4a5ab17e81d is JobV1 (accepted)",
        "/timeout_ms 86400000 above the limit 3600000; fingerprint 6b01d4a5ab17e81d is JobV1 (accepted)",
    ]


def test_queue_settings_count(said, tmp_path):
    file, settings = tmp_path / "job.bin", tmp_path / "settings.yaml"
    file.write_bytes(encode_job(msgspec.structs.replace(PLAIN, timeout_ms=86_400_000)))
    settings.write_text("queues:\n  email:\n    timeout: 24h\n")
    assert run(["schema", "check", str(file), "--settings", str(settings)]) == exits.OK


@pytest.mark.parametrize("name", ["DoneV1.bin", "fingerprints.json"])
def test_what_is_no_job(said, name):
    assert run(["schema", "check", str(DIRECTORY / name)]) == exits.FAILED
    assert "want JobV1" in said()


def test_either_a_file_or_a_topic(capsys):
    assert run(["schema", "check"]) == exits.USAGE
    assert "either a FILE or --topic" in capsys.readouterr().err


def test_the_end_of_a_topic(kafka, fresh_prefix, said):
    topic, shards = f"{fresh_prefix}submit.default", 4
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_topics([NewTopic(topic, shards, 1)])[topic].result()
    producer = Producer({"bootstrap.servers": kafka})

    def publish(value: bytes, job_id: str, off_by: int = 0) -> None:
        partition = (keys.shard_of(job_id, shards) + off_by) % shards
        producer.produce(topic, value, job_id.encode(), partition)
        producer.flush()

    for n in range(30):
        publish(encode_job(msgspec.structs.replace(PLAIN, job_id=f"old-{n}", priority=10)), f"old-{n}")
    time.sleep(0.02)  # the newest are found by their time, in milliseconds
    for n in range(17):
        publish(encode_job(msgspec.structs.replace(PLAIN, job_id=f"job-{n}")), f"job-{n}")
    publish(encode_job(msgspec.structs.replace(PLAIN, job_id="astray")), "astray", off_by=1)
    publish(encode_job(msgspec.structs.replace(PLAIN, job_id="other", tenant="acme", priority=10)), "other")
    publish(b"{}", "broken")

    command = ["-b", kafka, "schema", "check", "--topic", topic, "--last", "20"]
    assert run(command) == exits.FAILED
    lines = said().splitlines()
    assert lines[0] == "20 read: 17 good, 1 wrong partition, 2 refused"
    assert len(lines) == 4
    assert "wrong partition: " in lines[1]
    assert "refused: /priority 10 above the limit 9" in lines[2]
    assert "refused: framing: does not begin with C3 01" in lines[3]

    assert run([*command, "--tenant", "shop"]) == exits.FAILED
    assert said().splitlines()[0] == "19 read: 17 good, 1 wrong partition, 1 refused"

    assert run(["-b", kafka, "schema", "check", "--topic", f"{fresh_prefix}none"]) == exits.NOT_FOUND
