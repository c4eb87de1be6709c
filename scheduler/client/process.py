"""What a client holds in one process: its producers and what it knows of the topics."""

import threading
import time
from collections.abc import Iterator
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from scheduler.client.config import ClientConfig, Pace, producer_properties
from scheduler.client.delivery import queue_full, topic_problem
from scheduler.client.errors import NotSubmitted
from scheduler.client.lane import Lane, Report
from scheduler.client.request import Request
from scheduler.client.topics import Topics
from scheduler.core.inputs import SUBMITS, TOPIC_OF


class Process:
    """Producers by pace, each made when first needed."""

    def __init__(self, config: ClientConfig) -> None:
        """Connect to nothing yet."""
        self.config = config
        self.topics = Topics(config)
        self._lanes: dict[Pace, Lane] = {}
        self._lock = threading.Lock()

    def lane(self, pace: Pace) -> Lane:
        """Return the producer for `pace`."""
        found = self._lanes.get(pace)
        return found if found is not None else self._new_lane(pace)

    def topic(self, request: Request[Any]) -> str:
        """Return the full name of the topic that a request goes to."""
        return self.config.prefix + TOPIC_OF[SUBMITS[request.band]]

    def is_ready(self, lane: Lane, topic: str, size_bytes: int) -> bool:
        """Say whether `prepare` would return without asking a broker."""
        known = self.topics.known_partitions(topic) is not None
        return known and not lane.suspect and not self.topics.needs_limit(topic, size_bytes)

    def prepare(self, lane: Lane, topic: str, request: Request[Any], size_bytes: int) -> int:
        """Make sure that a record can be sent now, and return the topic's partition count. Sends nothing."""
        if lane.suspect:
            self.topics.make_sure(lane, topic)
        partitions = self.topics.partitions(lane, topic)
        self.topics.check_size(topic, request, size_bytes)
        return partitions

    def tries(
        self, pace: Pace, topic: str, partition: int, key: str, value: bytes, report: Report
    ) -> Iterator[None]:
        """Queue a record: yields each time the local queue is full, for the caller to wait a moment as it can.

        Raises `NotSubmitted` if it stays full. A producer with a fatal error is replaced, once.
        """
        deadline_s = 0.0
        while True:
            try:
                self.lane(pace).produce(topic, partition, key, value, report)
            except BufferError:
                now_s = time.monotonic()
                deadline_s = deadline_s or now_s + self.config.timeout_s
                if now_s >= deadline_s:
                    raise queue_full(self.config) from None
                yield
            except KafkaException as error:
                self._unqueueable(pace, topic, error.args[0])
            else:
                return

    def close(self) -> None:
        """Send what is queued and close the producers."""
        with self._lock:
            lanes, self._lanes = self._lanes, {}
        for lane in lanes.values():
            lane.close(self.config.timeout_s)

    def abandon(self) -> None:
        """Let the producers go once all they have is sent; return at once."""
        for lane in list(self._lanes.values()):
            lane.abandon()

    def _new_lane(self, pace: Pace) -> Lane:
        with self._lock:
            if pace not in self._lanes:
                try:
                    self._lanes[pace] = Lane(producer_properties(self.config, pace))
                except KafkaException as error:
                    raise NotSubmitted(f"the Kafka settings can't be used: {error.args[0].str()}") from None
            return self._lanes[pace]

    def _unqueueable(self, pace: Pace, topic: str, error: KafkaError) -> None:
        if error.fatal() or error.code() == KafkaError._FATAL:
            with self._lock:
                dead = self._lanes.pop(pace, None)
            if dead is not None:
                dead.abandon()  # its last delivery reports are still served
            return
        self.topics.forget(topic)
        raise topic_problem(error, topic, self.config) or NotSubmitted(f"{topic}: {error.str()}")
