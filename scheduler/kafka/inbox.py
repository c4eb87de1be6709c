"""The worker's inbox and its reports: one consumer, one producer, and a thread that serves each.

The parent of a worker waits for children, signals and Kafka at once, so what the two clients return is queued
here and a descriptor becomes readable.

Only one thread at a time may use the consumer: a second call while one waits in `poll` did not return
(confluent-kafka 2.16). So the reading thread has it for itself from `join` on until it has ended. The producer's
`produce` and `poll` do not mind each other.
"""

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from scheduler.codec.errors import Refused
from scheduler.codec.notices import decode_notice
from scheduler.codec.reports import encode_report
from scheduler.core.murmur2 import murmur2
from scheduler.core.reports import Checkpoint, Done, Fail, Release, Report
from scheduler.kafka import client_settings
from scheduler.kafka.client_settings import Properties
from scheduler.kafka.errors import (
    FATAL_EVENT,
    PARTITION_END,
    POSITION_LOST,
    REFUSED_RECORD,
    describe,
    error_of,
)
from scheduler.kafka.names import Names
from scheduler.kafka.troubles import LOG, Troubles
from scheduler.worker.ports import Delivered, Joined, JoinError, LinkEvent, LinkFailed, Received, Undelivered

JOIN_S: Final = 30.0
POLL_S: Final = 0.5
BATCH: Final = 500
LOOK_POLLS: Final = 20
"""After so many polls without a notice, 10 s, the inbox is looked at: is it empty, or are we deaf?"""
WATERMARK_S: Final = 1.0
AGAIN_S: Final = 0.1


class KafkaLink:
    """The link of one worker process to Kafka. Made once, joined once."""

    def __init__(self, properties: Mapping[str, str], prefix: str, worker: str) -> None:
        """Take librdkafka properties, the topics' prefix, and the worker's name, which brokers log."""
        self._names = Names(prefix)
        self._troubles = Troubles()
        named: Properties = {"client.id": f"jobs-worker-{worker}", **properties}
        self._consumer = Consumer(self._troubles.attached(_consumer(named)))
        self._producer = Producer(self._troubles.attached(_producer(named)))
        self._events: deque[LinkEvent] = deque()
        self._readable, self._writable = os.pipe()
        os.set_blocking(self._readable, False)
        os.set_blocking(self._writable, False)
        self._over = threading.Event()
        self.closed = False
        self._threads: list[threading.Thread] = []
        self._overflow: deque[tuple[int, int, Report]] = deque()
        self._next = 0  # the offset behind the last notice
        self._unread: int | None = None  # where the inbox stood still at the last look, with more to read
        self._lock = threading.Lock()

    # -- the port ------------------------------------------------------------------------------------

    def join(self, pool: str, boot_id: bytes) -> Joined:
        """Begin to read an inbox of the pool at its end as of now. Raises `JoinError`."""
        leases = self._names.full(f"leases.{pool}")
        shards = self._partitions(self._names.full("reports"))
        inbox = murmur2(boot_id) % self._partitions(leases)
        # A number, never OFFSET_END: that is resolved later, and what arrives until then is lost.
        self._inbox = (leases, inbox)
        self._go_to_end()
        self._serve("jobs-inbox", self._read)
        self._serve("jobs-reports", self._deliver)
        return Joined(inbox, shards)

    def fileno(self) -> int:
        """Return a descriptor that is readable while `take` has something to return."""
        return self._readable

    def take(self) -> list[LinkEvent]:
        """Return what happened since the last call, in order."""
        # Emptied first: an event that is queued after this leaves a byte behind, and one queued before is taken.
        try:
            os.read(self._readable, 4_096)
        except BlockingIOError:
            pass
        taken: list[LinkEvent] = []
        while self._events:
            taken.append(self._events.popleft())
        return taken

    def send(self, ticket: int, partition: int, report: Report) -> None:
        """Send a report; its fate comes from `take`."""
        with self._lock:
            self._overflow.append((ticket, partition, report))
            self._push()

    def close(self, timeout_ms: int) -> bool:
        """Send what is still queued, then close; say whether everything was delivered."""
        self.closed = True
        self._over.set()
        for thread in self._threads:
            thread.join()
        self._push()
        undelivered = self._producer.flush(timeout_ms / 1_000) + len(self._overflow)
        self._consumer.close()
        os.close(self._readable)
        os.close(self._writable)
        return undelivered == 0

    # -- joining -------------------------------------------------------------------------------------

    def _partitions(self, topic: str) -> int:
        deadline_s = time.monotonic() + JOIN_S
        while True:
            why = ""
            try:
                found = self._consumer.list_topics(topic, timeout=WATERMARK_S).topics[topic]
                if found.error is None and found.partitions:
                    return len(found.partitions)
                if found.error is not None and found.error.code() in _MISSING:
                    raise JoinError(
                        f"topic {topic} does not exist: run 'scheduler topics apply --execute' first"
                    )
                why = str(found.error)
            except KafkaException as raised:
                why = str(raised.args[0])
            if self._over_by(deadline_s):
                raise JoinError(
                    f"no answer about topic {topic} within {JOIN_S:.0f} s: {why}{self._troubles.why()}"
                )
            time.sleep(AGAIN_S)

    def _end_of(self, topic: str, partition: int) -> TopicPartition:
        deadline_s = time.monotonic() + JOIN_S
        while True:
            try:
                _, end = self._consumer.get_watermark_offsets(
                    TopicPartition(topic, partition), timeout=WATERMARK_S
                )
                return TopicPartition(topic, partition, end)
            except KafkaException as raised:
                # A topic created a moment ago may have no leader yet.
                if self._over_by(deadline_s):
                    why = str(raised.args[0])
                    raise JoinError(
                        f"{topic}/{partition} can't be read: {why}{self._troubles.why()}"
                    ) from raised
            time.sleep(AGAIN_S)

    def _over_by(self, deadline_s: float) -> bool:
        return time.monotonic() >= deadline_s or self._over.is_set()

    # -- reading -------------------------------------------------------------------------------------

    def _go_to_end(self) -> None:
        end = self._end_of(*self._inbox)
        self._next, self._unread = end.offset, None
        self._consumer.assign([end])

    def _read(self) -> None:
        quiet = 0
        while not self._over.is_set():
            first = self._consumer.poll(POLL_S)
            if first is None:
                quiet += 1
                if quiet % LOOK_POLLS == 0:
                    self._look()
                continue
            quiet = 0
            for message in (first, *self._consumer.consume(BATCH, 0)):
                event = self._received(message)
                if event is not None:
                    self._events.append(event)
            self._wake()

    def _look(self) -> None:
        """Take the inbox up anew if it has had the same unread notices for two looks: the client went deaf to it."""
        try:
            _, end = self._consumer.get_watermark_offsets(TopicPartition(*self._inbox), timeout=WATERMARK_S)
        except KafkaException as refused:
            LOG.info("the inbox can't be looked at: %s", refused)
            return
        if end <= self._next:
            self._unread = None
        elif self._unread != self._next:
            self._unread = self._next
        else:
            LOG.error("%s/%d brings nothing from %d of %d on: taken up anew", *self._inbox, self._next, end)
            here = [TopicPartition(*self._inbox, self._next)]
            self._consumer.assign(here)
            self._consumer.resume(here)  # a pause survives a new assignment
            self._unread = None

    def _received(self, message: Message) -> LinkEvent | None:
        error = message.error()
        if error is not None:
            return self._on_error(error)
        self._next = (message.offset() or 0) + 1
        try:
            notice = decode_notice(message.value())
        except Refused as refused:
            LOG.warning(
                "%s/%s@%s is no notice: %s", message.topic(), message.partition(), message.offset(), refused
            )
            return None
        return Received(notice)

    def _on_error(self, error: KafkaError) -> LinkEvent | None:
        if error.code() == PARTITION_END:
            return None
        if error.code() == FATAL_EVENT or error.fatal():
            return LinkFailed(f"the inbox consumer is dead: {describe(error)}")
        if error.code() in POSITION_LOST:
            # Suspended for longer than the topic keeps: what is skipped is too old to start anything.
            LOG.warning("the inbox position is lost, going on at the end: %s", describe(error))
            self._go_to_end()
            return None
        # No group is used; the client asks about it all the same.
        if error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:
            LOG.warning("inbox: %s", describe(error))
        return None

    # -- sending -------------------------------------------------------------------------------------

    def _deliver(self) -> None:
        while not self._over.is_set():
            if self._producer.poll(POLL_S if not self._overflow else 0.01) and self._events:
                self._wake()
            if self._overflow:
                with self._lock:
                    self._push()

    def _push(self) -> None:
        """Hand reports to the client, in order, until it is full; the rest waits for its next delivery."""
        while self._overflow:
            ticket, partition, report = self._overflow[0]
            try:
                self._produce(ticket, partition, report)
            except BufferError:
                return
            except (KafkaException, Refused, ValueError) as raised:
                error = error_of(raised)
                self._events.append(Undelivered(ticket, error is not None and error.retriable(), str(raised)))
                self._wake()
            self._overflow.popleft()

    def _produce(self, ticket: int, partition: int, report: Report) -> None:
        def delivered(error: KafkaError | None, message: Message) -> None:
            self._events.append(outcome(ticket, error, message))

        key = report.job_id.encode() if isinstance(report, Done | Fail | Release | Checkpoint) else None
        topic = self._names.full("reports")
        self._producer.produce(topic, encode_report(report), key, partition, on_delivery=delivered)

    def _serve(self, name: str, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=self._surviving, args=(work,), name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _surviving(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - whatever it is, the worker must not go on deaf
            LOG.exception("%s ended", threading.current_thread().name)
            self._events.append(LinkFailed(f"{threading.current_thread().name}: {error}"))
            self._wake()

    def _wake(self) -> None:
        try:
            os.write(self._writable, b"w")
        except BlockingIOError:
            pass  # it is readable already


_MISSING: Final = frozenset((
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
))  # fmt: skip


def outcome(ticket: int, error: KafkaError | None, message: Message) -> Delivered | Undelivered:
    """Return what a delivery report says.

    Without an offset the client only takes the record to be written, since a later one was (see `client/delivery.py`).
    A beat that nobody will read must not prolong a run.
    """
    if error is not None:
        return _undelivered(ticket, error)
    if message.offset() is None:
        return Undelivered(ticket, True, "acknowledged without an offset")
    return Delivered(ticket)


def _undelivered(ticket: int, error: KafkaError) -> Undelivered:
    # The client has tried for minutes by itself; whatever is not the record's own fault may be tried again.
    return Undelivered(ticket, error.code() not in REFUSED_RECORD, describe(error))


def _consumer(properties: Mapping[str, str | int | bool]) -> Properties:
    text = {name: str(value) for name, value in properties.items()}
    # Notices are sent outside transactions, so there is nothing to wait for; the group is never used.
    return {
        **client_settings.follower(text, "jobs-worker-inbox"),
        "isolation.level": "read_uncommitted",
        "enable.partition.eof": False,
    }


def _producer(properties: Mapping[str, str | int | bool]) -> Properties:
    text = {name: str(value) for name, value in properties.items()}
    return client_settings.idempotent(text)
