"""Hostile records, straight onto every topic of a live system: it survives, tells of each once, and works on."""

import json
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator

import msgspec
import psutil
import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from scheduler.bench.site import Process
from scheduler.codec.commands import encode_command
from scheduler.codec.job import decode_job, encode_job
from scheduler.codec.notices import decode_notice, encode_notice
from scheduler.codec.reports import encode_report
from scheduler.codec.retry import encode_retry
from scheduler.core import bounds, keys
from scheduler.core.notices import Lease, Revoke
from scheduler.core.outputs import Forward, RetryRecord
from scheduler.core.reports import Beat, Done, Echo, Emit, Freed, Held, Offer, Release, ReleaseReason, Sender
from scheduler.core.spec import JobSpec
from tests.integration.scene import Scene

SHARDS = 4
MARKER = "mArKeR-" + secrets.token_hex(8)
NOWHERE = ("nowhere", "no such pool", "nul\0inside", "", "x" * 128)
INPUTS = ("submit.interactive", "submit.default", "submit.bulk", "reports", "requests", "commands", "retry.5s")
HEADER_BYTES = 10


class Attacker:
    """Writes what it likes to a scene's topics, and reads what the scheduler wrote."""

    def __init__(self, scene: Scene, dispatcher: Process, worker: Process) -> None:
        self.scene = scene
        self.processes = (dispatcher, worker)
        self.prefix = scene.site.prefix
        self.dead: dict[tuple[str, int, int], list[Message]] = {}
        self.others: list[bytes] = []
        self.notices: list[Lease] = []
        self._producer = Producer(
            {**scene.site.properties, "message.max.bytes": 100_000_000, "compression.type": "zstd", "linger.ms": 5}
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
            self._producer.produce(f"{self.prefix}{topic}", value, partition=partition, on_delivery=delivered, **how)
        assert self._producer.flush(20) == 0
        return offsets

    def report(self, report: object, partition: int = 1) -> int:
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
            elif headers["reason"] == b"quarantined":
                at = (headers["source_topic"].decode(), int(headers["source_partition"]), int(headers["source_offset"]))
                self.dead.setdefault(at, []).append(message)

    def _notice(self, message: Message) -> None:
        try:
            notice = decode_notice(message.value())
        except Exception:  # noqa: BLE001 - our own rubbish
            return
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


@pytest.fixture
def attacker(scene: Scene) -> Iterator[Attacker]:
    dispatcher, worker = scene.dispatcher("d1"), scene.worker("w1")
    made = Attacker(scene, dispatcher, worker)
    scene.until(lambda: dispatcher.ready() and worker.ready(), 30)
    made.good_jobs_pass()
    yield made
    made.close()


def job(job_id: str, **fields: object) -> JobSpec:
    payload = json.dumps({"n": 1}).encode()
    given = {"tenant": "t", "queue": "it", "type": "tests.integration.jobs:work", "payload": payload, **fields}
    return JobSpec(job_id, **given)  # type: ignore[arg-type]


def id_at_home(shard: int = 1) -> str:
    return next(found for n in range(1_000) if keys.shard_of(found := f"h{n}-{secrets.token_hex(4)}", SHARDS) == shard)


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
        "not utf-8": good.replace(b"tests.integration", b"\xff\xfe\xfd" + b"s.integration"),
        "a huge length": good[:HEADER_BYTES] + b"\xff" * 8 + b"\x7f" + MARKER.encode(),
        "64 kB of lengths": good[:HEADER_BYTES] + b"\xff" * 65_536,
        "zeros": good[:HEADER_BYTES] + b"\0" * 1_000,
        "nested": b"\x02" * 5_001,
    }


def test_rubbish_on_every_input_is_quarantined_once_each(attacker: Attacker) -> None:
    before = [(process.cpu_s(), process.rss_mb()) for process in attacker.processes]
    values = list(rubbish().values())
    strange = {"key": b"\xff" * 100_000, "headers": [("a", None), ("b", b"\xff"), ("c", b"x" * 1_000)]}
    sent = {topic: attacker.publish(topic, values, **strange) for topic in INPUTS}
    attacker.publish("leases.default", values, 0)
    for topic, offsets in sent.items():
        for value, message in zip(values, attacker.quarantined(topic, offsets), strict=True):
            assert (message.value() or b"") == (value or b"")
            assert message.key() == strange["key"]
            assert dict(message.headers() or ())["refusal"].decode() in reasons()
    attacker.good_jobs_pass()
    count = len(values) * len(INPUTS)
    (cpu_s, rss_mb), _ = before
    assert (attacker.processes[0].cpu_s() - cpu_s) / count < 0.01
    assert attacker.processes[0].rss_mb() - rss_mb < 100
    no_marker(attacker)


def reasons() -> set[str]:
    from scheduler.core.outputs import Refusal

    return {str(reason) for reason in Refusal} - {"crashed_dispatcher"}


def no_marker(attacker: Attacker) -> None:
    attacker.until(lambda: True)
    assert not any(MARKER.encode() in text for text in attacker.others)
    assert MARKER not in "".join(path.read_text() for path in attacker.scene.site.folder.glob("*.log"))


def test_records_that_no_dead_letter_can_hold_are_quarantined_by_reference(attacker: Attacker) -> None:
    """A batch may unpack to far more than a topic takes (AV-12), and `reports` takes more than a producer of ours."""
    sent = {
        "reports": [b"\xfe" * 60_000_000, secrets.token_bytes(2_080_000), b"x" * 2_000_000, b"x" * 1_900_000],
        "submit.default": [b"\0" * 30_000_000, encode_job(job("x", payload=b"\0" * 30_000_000 )) if False else b"y" * 1_999_990],
    }
    for topic, values in sent.items():
        offsets = [attacker.publish(topic, [value])[0] for value in values]
        for value, message in zip(values, attacker.quarantined(topic, offsets), strict=True):
            headers = dict(message.headers() or ())
            assert headers["refusal"] != b"crashed_dispatcher"
            assert message.value() in (value, b"") or not message.value()
            if len(value) < 1_990_000:
                assert message.value() == value
    attacker.good_jobs_pass()


def test_forged_reports_change_nothing_and_answers_to_nowhere_stop_nothing(attacker: Attacker) -> None:
    boot = secrets.token_bytes(16)
    lease = attacker.notices[0]
    senders = [Sender("w\0\U0001f600", boot, pool, 0) for pool in NOWHERE]
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
    attacker.report(Done(honest, lease.job_id, lease.epoch, lease.token), lease.shard)  # replayed
    attacker.report(Echo("somebody", 1 << 62))
    for due_ms in (0, (1 << 63) - 1):
        attacker.publish("retry.5s", [encode_retry(RetryRecord("no such job", 1, due_ms))])
    good = lease_bytes = encode_notice(lease)
    foreign = msgspec.structs.replace(lease, boot_id=boot)
    broken = msgspec.structs.replace(lease, epoch=lease.epoch + 100, spec=b"broken")
    bad = [encode_notice(one) for one in (foreign, broken, Revoke(boot, "j", 1, boot, 1, "cancel"))]
    attacker.publish("leases.default", [good, *bad, lease_bytes[:40]], 0)
    attacker.good_jobs_pass()
    ends = Counter(len(ends) for ends in attacker.scene.judge.ends.values())
    assert ends.keys() == {1}
