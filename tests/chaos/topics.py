"""What the topics say of jobs: committed records only, read past the proxy."""

from collections.abc import Mapping
from typing import Final

from confluent_kafka import Consumer, Message, TopicPartition

from scheduler.codec.lifecycle import decode_lifecycle
from scheduler.codec.state import decode_state
from scheduler.core.job import JobState
from scheduler.core.keyspace import STATE
from tests.chaos.evidence import ENDS, End

BATCH: Final = 1_000
ASK_S: Final = 20.0
SILENT: Final = 0
"""Brokers go and come all the time; the client need not say so."""


class Topics:
    """Follows `lifecycle`, and reads `changelog` to its end when asked."""

    def __init__(self, bootstrap: str, prefix: str) -> None:
        self._bootstrap = bootstrap
        self._prefix = prefix
        self.ends: dict[str, list[End]] = {}
        self._consumer = self._reader()
        _assign(self._consumer, f"{prefix}lifecycle")

    def follow(self, wait_s: float) -> None:
        """Read what has come within `wait_s`."""
        for message in self._consumer.consume(BATCH, wait_s):
            value = message.value()
            if message.error() is None and value is not None:
                change = decode_lifecycle(value)
                if change.event in ENDS:
                    end = End(change.event, change.reason, change.epoch)
                    self.ends.setdefault(change.job_id, []).append(end)

    def states(self) -> Mapping[str, JobState]:
        """Return the last committed state of every job."""
        found: dict[str, JobState] = {}
        reader = self._reader()
        try:
            left = _assign(reader, f"{self._prefix}changelog")
            while left:
                for message in reader.consume(BATCH, 0.5):
                    _take(message, found)
                left = {
                    partition: end
                    for partition, end in left.items()
                    if reader.position([TopicPartition(f"{self._prefix}changelog", partition)])[0].offset
                    < end
                }
        finally:
            reader.close()
        return found

    def close(self) -> None:
        self._consumer.close()

    def _reader(self) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "chaos-judge",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "log_level": SILENT,
            }
        )


def _assign(consumer: Consumer, topic: str) -> dict[int, int]:
    """Read a topic from its beginning; return the end of each partition that has records."""
    partitions = consumer.list_topics(topic, timeout=ASK_S).topics[topic].partitions
    places = [TopicPartition(topic, partition, 0) for partition in partitions]
    consumer.assign(places)
    ends = {place.partition: consumer.get_watermark_offsets(place, ASK_S)[1] for place in places}
    return {partition: end for partition, end in ends.items() if end}


def _take(message: Message, found: dict[str, JobState]) -> None:
    key, value = message.key() or b"", message.value()
    if message.error() is None and key[:1] == STATE:
        job_id = key[1:].decode()
        if value is None:
            found.pop(job_id, None)
        else:
            found[job_id] = decode_state(value)
