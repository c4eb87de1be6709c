"""Hostile records, straight onto every topic of a live system: it survives, tells of each once, and works on."""

import json
import secrets
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from scheduler.bench import runlog
from scheduler.bench.site import Process
from scheduler.codec.commands import encode_command
from scheduler.codec.errors import Refused
from scheduler.codec.job import encode_job
from scheduler.codec.lifecycle import decode_lifecycle
from scheduler.codec.notices import decode_notice, encode_notice
from scheduler.codec.reports import encode_report
from scheduler.codec.retry import encode_retry
from scheduler.core import bounds, keys
from scheduler.core.notices import Lease, Revoke
from scheduler.core.outputs import Forward, Refusal, RetryRecord
from scheduler.core.reports import (
    Beat,
    Done,
    Echo,
    Freed,
    Held,
    Offer,
    Release,
    ReleaseReason,
    Report,
    Sender,
)
from scheduler.core.spec import Backoff, JobSpec
from tests.integration.scene import Scene

SHARDS = 4
MARKER = "mArKeR-" + secrets.token_hex(8)
NOWHERE = ("nowhere", "no such pool", "nul\0inside", "", "x" * 128)
INPUTS = (
    "submit.interactive",
    "submit.default",
    "submit.bulk",
    "reports",
    "requests",
    "commands",
    "retry.5s",
)
HEADER_BYTES = 10


class Attacker:
    """Writes what it likes to a scene's topics, and reads what the scheduler wrote."""

    def __init__(self, scene: Scene, dispatcher: Process, worker: Process) -> None:
        self.scene = scene
        self.processes = (dispatcher, worker)
        self.prefix = scene.site.prefix
        self.dead: dict[tuple[str, int, int], list[Message]] = {}
        self.others: list[bytes] = []  # everything that may not hold a payload
        self.letters: dict[str, list[Message]] = {}  # dead jobs by id
        self.conflicts: Counter[str] = Counter()
        self.notices: list[Lease] = []
        self._producer = Producer(
            {
                **scene.site.properties,
                "message.max.bytes": 100_000_000,
                "compression.type": "zstd",
                "linger.ms": 5,
            }
        )
        self._consumer = Consumer(
            {**scene.site.properties, "group.id": "attacker", "isolation.level": "read_committed"}
        )
        topics = self._consumer.list_topics(timeout=10).topics
        names = [f"{self.prefix}{name}" for name in ("dlq", "lifecycle", "leases.default")]
        self._consumer.assign([TopicPartition(name, n, 0) for name in names for n in topics[name].partitions])

    def close(self) -> None:
        self._consumer.close()

    def publish(self, topic: str, values: list[bytes | None], partition: int = 1, **how: object) -> list[int]:
        """Append values, and return their offsets."""
        offsets: list[int] = []

        def delivered(error: object, message: Message) -> None:
            assert error is None, error
            offsets.append(message.offset() or 0)

        for value in values:
            self._producer.produce(
                f"{self.prefix}{topic}", value, partition=partition, on_delivery=delivered, **how
            )
        assert self._producer.flush(20) == 0
        return offsets

    def report(self, report: Report, partition: int = 1) -> int:
        return self.publish("reports", [encode_report(report)], partition)[0]

    def follow(self) -> None:
        for message in self._consumer.consume(500, 0.05):
            if message.error() is not None:
                continue
            topic = (message.topic() or "").removeprefix(self.prefix)
            if topic == "leases.default":
                self._notice(message)
                continue
            headers = dict(message.headers() or ())
            self.others += [b" ".join(value or b"" for value in headers.values())]
            if topic == "lifecycle":
                self.others.append(message.value() or b"")
                change = decode_lifecycle(message.value())
                self.conflicts[change.job_id] += change.event == "conflict"
            elif headers["reason"] == b"quarantined":
                at = (
                    headers["source_topic"].decode(),
                    int(headers["source_partition"]),
                    int(headers["source_offset"]),
                )
                self.dead.setdefault(at, []).append(message)
            else:
                self.letters.setdefault(headers["job_id"].decode(), []).append(message)

    def _notice(self, message: Message) -> None:
        try:
            notice = decode_notice(message.value())
        except Refused:
            return  # our own rubbish
        if isinstance(notice, Lease):
            self.notices.append(notice)

    def until(self, reached: Callable[[], bool], within_s: float = 20) -> None:
        deadline = time.monotonic() + within_s
        while not reached():
            self.follow()
            assert all(process.alive() for process in self.processes), self.scene.logs()
            assert time.monotonic() < deadline, self.scene.logs()

    def quarantined(self, topic: str, offsets: list[int], partition: int = 1) -> list[Message]:
        """Wait for the quarantine records of these offsets, and return them: one each."""
        wanted = [(f"{self.prefix}{topic}", partition, offset) for offset in offsets]
        self.until(lambda: all(at in self.dead for at in wanted))
        assert [len(self.dead[at]) for at in wanted] == [1] * len(wanted)
        return [self.dead[at][0] for at in wanted]

    def good_jobs_pass(self, count: int = 8) -> None:
        """Submit good jobs and wait for their ends, while everything lives."""
        self.scene.submit(count)
        self.scene.judge.follow(0)

        def done() -> bool:
            self.scene.judge.follow(0.05)
            return not self.scene.judge.unfinished(self.scene.expected)

        self.until(done)


@pytest.fixture(scope="module")
def attacker(kafka: str) -> Iterator[Attacker]:
    """One system for all of it, so that each attack meets what the ones before have left."""
    scene = Scene(kafka, f"t{uuid.uuid4().hex[:8]}-")
    admin = AdminClient(scene.site.properties)
    for made in admin.create_topics(
        [NewTopic(f"{scene.site.prefix}user-{name}", 1) for name in ("kept", "gone")]
    ).values():
        made.result(20)
    topics = [f"{scene.site.prefix}user-{name}" for name in ("kept", "gone")]
    scene.settings.write_text(json.dumps({"queues": {"it": {"lease": "10s"}}, "emits": {"it": topics}}))
    environ = {runlog.FOLDER: str(scene.runs), "PYTHONPATH": str(Path.cwd())}
    dispatcher = scene.dispatcher("d1")
    worker = scene.site.worker("w1", "tests.integration.hostile_jobs:app", slots=4, environ=environ)
    found = Attacker(scene, dispatcher, worker)
    try:
        scene.until(lambda: dispatcher.ready() and worker.ready(), 30)
        found.good_jobs_pass()
        yield found
    finally:
        found.close()
        scene.judge.close()
        scene.site.close()


@pytest.fixture(autouse=True)
def survives(attacker: Attacker) -> Iterator[None]:
    """After each attack good jobs pass, every job has ended once, and no payload is where it should not be."""
    yield
    attacker.good_jobs_pass()
    assert {len(ends) for ends in attacker.scene.judge.ends.values()} == {1}
    assert not any(MARKER.encode() in text for text in attacker.others)
    assert MARKER not in "".join(path.read_text() for path in attacker.scene.site.folder.glob("*.log"))


def job(job_id: str, **fields: object) -> JobSpec:
    payload = json.dumps({"n": 1}).encode()
    given = {"tenant": "t", "queue": "it", "type": "it.work", "payload": payload, **fields}
    return JobSpec(job_id, **given)  # type: ignore[arg-type]


def id_at_home(shard: int = 1) -> str:
    return next(
        found for n in range(1_000) if keys.shard_of(found := f"h{n}-{secrets.token_hex(4)}", SHARDS) == shard
    )


def rubbish() -> dict[str, bytes | None]:
    """Values that no topic accepts, by the reason they are refused for."""
    good = encode_job(job(id_at_home(), payload=MARKER.encode()))
    return {
        "null": None,
        "empty": b"",
        "one byte": b"\xc3",
        "four bytes": b"\xc3\x01\x00\x00",
        "other magic": b"\xc3\x02" + good[2:],
        "foreign": json.dumps({"secret": MARKER}).encode(),
        "registry": b"\0\0\0\0\x07" + MARKER.encode(),
        "unknown schema": b"\xc3\x01" + b"\xee" * 8 + MARKER.encode(),
        "truncated": good[:-3],
        "trailing": good + b"0123456789",
        "not utf-8": good.replace(b"it.work", b"\xff\xfe.work"),
        "a huge length": good[:HEADER_BYTES] + b"\xff" * 8 + b"\x7f" + MARKER.encode(),
        "64 kB of lengths": good[:HEADER_BYTES] + b"\xff" * 65_536,
        "zeros": good[:HEADER_BYTES] + b"\0" * 1_000,
        "nested": b"\x02" * 5_001,
    }


def test_rubbish_on_every_input_is_quarantined_once_each(attacker: Attacker) -> None:
    dispatcher, _ = attacker.processes
    cpu_s, rss_mb = dispatcher.cpu_s(), dispatcher.rss_mb()
    values = list(rubbish().values())
    key = b"\xff" * 100_000
    headers = [("a", None), ("b", b"\xff"), *((f"h{n}", b"x" * 100) for n in range(100))]
    sent = {topic: attacker.publish(topic, values, key=key, headers=headers) for topic in INPUTS}
    attacker.publish("leases.default", values, 0)
    for topic, offsets in sent.items():
        for value, message in zip(values, attacker.quarantined(topic, offsets), strict=True):
            assert (message.value() or b"") == (value or b"")
            assert message.key() == key
            assert dict(message.headers() or ())["refusal"].decode() in {*Refusal} - {
                Refusal.CRASHED_DISPATCHER
            }
    assert (dispatcher.cpu_s() - cpu_s) / (len(values) * len(INPUTS)) < 0.01
    assert dispatcher.rss_mb() - rss_mb < 100


def test_records_that_no_dead_letter_can_hold_are_quarantined_by_reference(attacker: Attacker) -> None:
    """A batch may unpack to far more than a topic takes (AV-12), and `reports` takes more than our producers send."""
    sent = {
        "reports": [b"\xfe" * 30_000_000, secrets.token_bytes(2_080_000), b"x" * 1_900_001, b"x" * 1_899_999],
        "submit.default": [b"\0" * 30_000_000, b"y" * 1_899_999],
    }
    for topic, values in sent.items():
        offsets = [attacker.publish(topic, [value])[0] for value in values]
        for value, message in zip(values, attacker.quarantined(topic, offsets), strict=True):
            assert dict(message.headers() or ())["refusal"] != b"crashed_dispatcher"
            assert (message.value() or b"") == (value if len(value) < 1_900_000 else b"")


def test_forged_reports_change_nothing_and_answers_to_nowhere_stop_nothing(attacker: Attacker) -> None:
    boot = secrets.token_bytes(16)
    attacker.until(lambda: len(attacker.notices) > 1)
    lease, other = attacker.notices[:2]
    senders = [Sender("w\0\U0001f600", boot, pool, 0, "\0") for pool in NOWHERE]
    senders += [Sender("w", boot, "default", inbox) for inbox in (64, 10_000, (1 << 31) - 1)]
    for sender in senders:
        attacker.report(Done(sender, lease.job_id, lease.epoch + 1, secrets.token_bytes(16)), lease.shard)
        attacker.report(Offer(sender, 1, bounds.SLOTS_MAX))
        attacker.report(Beat(sender, tuple(Held(f"j{n}", 1, boot) for n in range(bounds.BEAT_LEASES_MAX))))
        attacker.report(Release(sender, "j", 1, boot, ReleaseReason.BUSY, freed=Freed(9)))
    honest = Sender("w", boot, "default", 0)
    guesses: list[bytes | None] = [
        encode_report(Done(honest, lease.job_id, epoch, secrets.token_bytes(16))) for epoch in range(1, 1_001)
    ]
    attacker.publish("reports", guesses, lease.shard)
    attacker.report(Done(honest, lease.job_id, lease.epoch, other.token), lease.shard)
    attacker.report(Done(honest, lease.job_id, lease.epoch, lease.token), lease.shard)  # replayed
    attacker.report(Echo("somebody", 1 << 62))
    attacker.publish(
        "retry.5s", [encode_retry(RetryRecord("no such job", 1, due_ms)) for due_ms in (0, (1 << 63) - 1)]
    )
    raw = encode_notice(lease)
    foreign = msgspec.structs.replace(lease, boot_id=boot)
    broken = msgspec.structs.replace(lease, epoch=lease.epoch + 100, spec=b"broken")
    far = msgspec.structs.replace(lease, epoch=lease.epoch + 101, shard=(1 << 31) - 1)
    bad = [encode_notice(one) for one in (foreign, broken, far, Revoke(boot, "j", 1, boot, 1, "cancel"))]
    for partition in range(64):
        attacker.publish("leases.default", [raw, *bad, raw[:40]], partition)


def test_forged_commands_stop_nothing(attacker: Attacker) -> None:
    home, elsewhere = id_at_home(1), id_at_home(2)
    good = Forward(1, encode_job(job(home)), "t", 0, 1, 0)
    command = msgspec.structs.replace
    now_ms = time.time_ns() // 1_000_000
    bad = [
        command(good, appended_at_ms=-1),
        command(good, appended_at_ms=-1, spec=encode_job(job(home, run_at_ms=now_ms + 500))),
        command(good, topic="x" * 300_000),
        command(good, band=-1),
        command(good, spec=b"\xc3\x01"),
        command(good, spec=encode_job(job(""))),
    ]
    loop = [encode_command(command(good, spec=encode_job(job(elsewhere))))] * 20
    offsets = attacker.publish("commands", [encode_command(one) for one in bad])
    attacker.publish("commands", [*loop, encode_command(good)])
    attacker.quarantined("commands", offsets)
    attacker.until(lambda: {home, elsewhere} <= set(_ended(attacker)))


def _ended(attacker: Attacker) -> dict[str, list[str]]:
    attacker.scene.judge.follow(0.05)
    return attacker.scene.judge.ends


def test_jobs_at_their_bounds_and_beyond(attacker: Attacker) -> None:
    now_ms = time.time_ns() // 1_000_000
    longest = {f"{n:02}" + "n" * 62: "v" * 64 for n in range(bounds.LABELS_MAX)}
    fine: list[dict[str, object]] = [
        {"run_at_ms": 0},
        {"run_at_ms": now_ms - 1},
        {"run_at_ms": 1},
        {"max_attempts": bounds.MAX_ATTEMPTS_MAX},
        {
            "labels": longest,
            "queue": "it",
            "tenant": "x" * bounds.NAME_MAX_CHARS,
            "content_type": "application/json",
        },
        {"backoff": Backoff(1, 100.0, bounds.BACKOFF_MAX_MS), "timeout_ms": bounds.QUEUE_TIMEOUT_DEFAULT_MS},
    ]
    sleeping: list[dict[str, object]] = [
        {"run_at_ms": bounds.TIME_MAX_MS},
        {"run_at_ms": now_ms + 3_000_000_000},
    ]
    refused: list[dict[str, object]] = [
        *(
            {name: value}
            for name in ("run_at_ms", "expires_at_ms")
            for value in (-1, bounds.TIME_MAX_MS + 1, (1 << 63) - 1)
        ),
        *({"max_attempts": value} for value in (-1, 0, 1_001)),
        {"labels": {f"n{n}": "" for n in range(bounds.LABELS_MAX)} | {"": ""}},
        {"labels": {"n" * 65: ""}},
        {"tenant": "t\0"},
        {"queue": "it\n"},
        {"type": "x" * 129},
        {"priority": 10},
        {"content_type": "\u202e"},
        {"payload": MARKER.encode() + b"x" * bounds.PAYLOAD_MAX_BYTES},
    ]
    ids = [id_at_home() for _ in fine]
    attacker.publish(
        "submit.default", [encode_job(job(name, **one)) for name, one in zip(ids, fine, strict=True)]
    )
    attacker.publish("submit.bulk", [encode_job(job(id_at_home(), **one)) for one in sleeping])
    bad = attacker.publish("submit.default", [encode_job(job(id_at_home(), **one)) for one in refused])
    for message in attacker.quarantined("submit.default", bad):
        assert dict(message.headers() or ())["refusal"] == b"out_of_bounds"
    attacker.until(lambda: set(ids) <= set(_ended(attacker)))
    assert {attacker.scene.judge.ends[name][0] for name in ids} == {"succeeded"}
    # Another tenant's id: the first record of it stays.
    attacker.publish("submit.default", [encode_job(job(ids[0], tenant="thief", payload=b'{"n":2}'))])
    attacker.until(lambda: attacker.conflicts[ids[0]] == 1)


def test_what_is_admitted_fits_every_record_that_follows(attacker: Attacker) -> None:
    """Byte by byte around the limit (LO-06): refused, or leased and dead-lettered with every byte."""
    sizes = range(bounds.PAYLOAD_MAX_BYTES - 4, bounds.PAYLOAD_MAX_BYTES + 5)
    jobs = [
        job(id_at_home(), payload=secrets.token_bytes(size)) for size in sizes
    ]  # no JSON: its first run fails it
    nested = [
        b"[" * 5_001,
        b'{"n":' + b"[" * 5_001,
        b'{"n":' + b"[" * 5_000 + b"]" * 5_000 + b"}",
        MARKER.encode(),
    ]
    jobs += [job(id_at_home(), payload=payload, max_attempts=1) for payload in nested]
    headers = [(f"h{n}", b"x" * 300) for n in range(100)]
    raws = [encode_job(one) for one in jobs]
    offsets = attacker.publish("submit.interactive", raws, key=b"k" * 30_000, headers=headers)  # type: ignore[arg-type]
    admitted = [one for one in jobs if len(one.payload) <= bounds.PAYLOAD_MAX_BYTES]
    attacker.quarantined(
        "submit.interactive",
        [offset for offset, one in zip(offsets, jobs, strict=True) if one not in admitted],
    )
    attacker.until(lambda: all(one.job_id in attacker.letters for one in admitted))
    for one in admitted:
        (message,) = attacker.letters[one.job_id]
        assert message.value() == encode_job(one)


def test_errors_of_a_megabyte_and_emits_to_nowhere(attacker: Attacker) -> None:
    prefix = attacker.prefix
    admin = AdminClient(attacker.scene.site.properties)
    admin.delete_topics([f"{prefix}user-gone"])[f"{prefix}user-gone"].result(20)
    calls = {
        "it.shout": [{"secret": MARKER}],
        "it.emit": [
            {"topic": topic, "count": count, "size": size}
            for topic, count, size in (
                (f"{prefix}reports", 100, 10),
                ("\0", 100, 10),
                ("x" * 500, 1, 10),
                (f"{prefix}user-kept", 101, 10),
                (f"{prefix}user-kept", 1, 300_000),
                (f"{prefix}user-gone", 1, 10),
            )
        ],
    }
    jobs = [
        job(id_at_home(), type=kind, payload=json.dumps(call).encode(), max_attempts=1)
        for kind, given in calls.items()
        for call in given
    ]
    attacker.publish("submit.default", [encode_job(one) for one in jobs])
    attacker.until(lambda: all(one.job_id in attacker.letters for one in jobs), 40)
    for one in jobs:
        (message,) = attacker.letters[one.job_id]
        headers = dict(message.headers() or ())
        assert len(headers["error_message"] or b"") <= bounds.ERROR_MAX_BYTES
        assert message.value() == encode_job(one)
