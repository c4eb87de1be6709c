"""Judges a run from outside: what the topics hold and what handlers wrote down, nothing that a process claims."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from confluent_kafka import Consumer, TopicPartition

from scheduler.bench.figures import percentile
from scheduler.bench.runlog import read_runs
from scheduler.codec.lifecycle import decode_lifecycle

ENDS: Final = frozenset({"succeeded", "failed", "cancelled", "expired"})
_BATCH: Final = 1_000


class Expected(msgspec.Struct, frozen=True):
    """One submitted job: when it was handed over, and before when it must not start; Unix milliseconds."""

    submitted_ms: int
    not_before_ms: int = 0


class Verdict(msgspec.Struct, frozen=True):
    """What came of everything that was submitted."""

    submitted: int
    succeeded: int
    dead_lettered: int
    dead_lettered_by_reason: dict[str, int]
    retried: int
    second_runs: int
    quarantined: int
    lost: int
    completed_twice: int
    started_early: int
    submit_to_start_p50_ms: float
    submit_to_start_p99_ms: float
    jobs_per_s: float

    @property
    def clean(self) -> bool:
        """Whether every zero is zero."""
        return not (self.lost or self.completed_twice or self.started_early)


class Judge:
    """Follows `lifecycle` and `dlq`, committed records only."""

    def __init__(self, properties: Mapping[str, str], prefix: str) -> None:
        """Read both topics from their beginning."""
        self._dlq = f"{prefix}dlq"
        self.ends: dict[str, list[str]] = {}
        self.end_ms: list[int] = []
        self.types: dict[str, str] = {}
        self.dead: Counter[str] = Counter()
        self.quarantined = 0
        self._consumer = Consumer(
            {
                **properties,
                "group.id": "judge",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
            }
        )
        topics = self._consumer.list_topics(timeout=10).topics
        self._consumer.assign(
            [
                TopicPartition(topic, n, 0)
                for topic in (f"{prefix}lifecycle", self._dlq)
                for n in topics[topic].partitions
            ]
        )

    def follow(self, wait_s: float) -> None:
        """Read what has come within `wait_s`."""
        for message in self._consumer.consume(_BATCH, wait_s):
            if message.error() is not None:
                continue
            if message.topic() == self._dlq:
                self._dead_letter(dict(message.headers() or ()))
            else:
                self._change(message.value() or b"", message.timestamp()[1])

    def close(self) -> None:
        """Stop following."""
        self._consumer.close()

    def unfinished(self, expected: Mapping[str, Expected]) -> int:
        """Return how many of the submitted jobs have not ended."""
        return sum(job_id not in self.ends for job_id in expected)

    def ended_by(self, outcome: str) -> int:
        """Return how many jobs ended so."""
        return sum(outcome in ends for ends in self.ends.values())

    def missing_children(self, parent_type: str, expected: Mapping[str, Expected]) -> int:
        """Return how many follow-up jobs have not ended: one for each job of `parent_type` that succeeded."""
        parents = sum(
            self.types[job_id] == parent_type and "succeeded" in ends for job_id, ends in self.ends.items()
        )
        return parents - sum(job_id not in expected for job_id in self.ends)

    def verdict(self, expected: Mapping[str, Expected], children: int, runs: Path) -> Verdict:
        """Judge; `children` is what `missing_children` said at the end."""
        starts = _starts(read_runs(runs))
        firsts = {job_id: min(times) for job_id, times in starts.items()}
        waits = [
            firsts[job_id] - job.submitted_ms
            for job_id, job in expected.items()
            if job_id in firsts and not job.not_before_ms
        ]
        span_s = (max(self.end_ms, default=0) - min(job.submitted_ms for job in expected.values())) / 1000
        return Verdict(
            submitted=len(expected),
            succeeded=self.ended_by("succeeded"),
            dead_lettered=sum(self.dead.values()),
            dead_lettered_by_reason=dict(sorted(self.dead.items())),
            retried=sum(len(times) > 1 for times in starts.values()),
            second_runs=sum(len(times) - 1 for times in starts.values()),
            quarantined=self.quarantined,
            lost=self.unfinished(expected) + max(children, 0),
            completed_twice=sum(len(ends) > 1 for ends in self.ends.values()),
            started_early=sum(
                job_id in firsts and firsts[job_id] < job.not_before_ms for job_id, job in expected.items()
            ),
            submit_to_start_p50_ms=percentile(waits, 0.50),
            submit_to_start_p99_ms=percentile(waits, 0.99),
            jobs_per_s=round(len(self.ends) / span_s, 1) if span_s > 0 else 0.0,
        )

    def _change(self, value: bytes, at_ms: int) -> None:
        change = decode_lifecycle(value)
        if change.event in ENDS:
            self.ends.setdefault(change.job_id, []).append(change.event)
            self.types[change.job_id] = change.type
            self.end_ms.append(at_ms)

    def _dead_letter(self, headers: dict[str, Any]) -> None:
        reason = (headers.get("reason") or b"").decode()
        if reason == "quarantined":
            self.quarantined += 1
        else:
            self.dead[reason] += 1


def _starts(runs: list[dict[str, Any]]) -> dict[str, list[int]]:
    starts: dict[str, list[int]] = {}
    for line in runs:
        if "start_ms" in line:
            starts.setdefault(line["job"], []).append(line["start_ms"])
    return starts
