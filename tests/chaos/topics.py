"""What the topics say of jobs: committed records only, read past the proxy.

The same record twice is one word of one end: a lost marker is mended by a record once more (`kafka.lost_markers`), and a
reader may be given one again when leaders change. Whoever really decides twice does so at another time.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from scheduler.codec.lifecycle import decode_lifecycle
from scheduler.codec.state import decode_state
from scheduler.core.job import JobState
from scheduler.core.keyspace import STATE
from tests.chaos.evidence import ENDS, End

BATCH: Final = 1_000
ASK_S: Final = 20.0
QUARANTINED: Final = b"quarantined"
SILENT: Final = 0
"""Brokers go and come all the time; the client need not say so."""


class Topics:
    """Follows `lifecycle`, and reads `changelog` and `dlq` to their ends when asked."""

    def __init__(self, bootstrap: str, prefix: str) -> None:
        self._bootstrap = bootstrap
        self._prefix = prefix
        self.ends: dict[str, list[End]] = {}
        self.repeated = 0
        self._seen: set[bytes] = set()
        self._consumer = self._reader()
        _assign(self._consumer, f"{prefix}lifecycle")

    def follow(self, wait_s: float) -> None:
        """Read what has come within `wait_s`."""
        for message in self._consumer.consume(BATCH, wait_s):
            value = message.value()
            if message.error() is None and value is not None:
                self._take(value)

    def _take(self, value: bytes) -> None:
        change = decode_lifecycle(value)
        if change.event not in ENDS:
            return
        if value in self._seen:
            self.repeated += 1
            return
        self._seen.add(value)
        end = End(change.event, change.reason, change.epoch, change.at_ms)
        self.ends.setdefault(change.job_id, []).append(end)

    def states(self) -> Mapping[str, JobState]:
        """Return the last committed state of every job."""
        found: dict[str, JobState] = {}
        for message in self._all("changelog"):
            _take(message, found)
        return found

    def dead_letters(self) -> Counter[str]:
        """Return how many dead letters there are by job, and those of records that were quarantined under ``."""
        found: Counter[str] = Counter()
        seen: set[object] = set()
        for message in self._all("dlq"):
            letter = message.key(), message.value(), tuple(message.headers() or ())
            if letter in seen:
                continue
            seen.add(letter)
            reason = dict(message.headers() or ()).get("reason", b"")
            found["" if reason == QUARANTINED else (message.key() or b"").decode()] += 1
        return found

    def _all(self, name: str) -> Iterator[Message]:
        """Return every record of a topic up to its present end."""
        reader = self._reader()
        try:
            left = set(_assign(reader, f"{self._prefix}{name}"))
            while left:
                for message in reader.consume(BATCH, 0.5):
                    error = message.error()
                    if error is None:
                        yield message
                    elif error.code() == KafkaError._PARTITION_EOF:  # counts markers, which no message has
                        left.discard(message.partition())
        finally:
            reader.close()

    def close(self) -> None:
        self._consumer.close()

    def _reader(self) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "chaos-judge",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "log_level": SILENT,
            }
        )


def _assign(consumer: Consumer, topic: str) -> Iterable[int]:
    """Read a topic from its beginning; return its partitions."""
    partitions = consumer.list_topics(topic, timeout=ASK_S).topics[topic].partitions
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    return partitions


def _take(message: Message, found: dict[str, JobState]) -> None:
    key, value = message.key() or b"", message.value()
    if key[:1] == STATE:
        job_id = key[1:].decode()
        if value is None:
            found.pop(job_id, None)
        else:
            found[job_id] = decode_state(value)
