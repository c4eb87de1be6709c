"""The producer outside transactions: leases, notices, echoes. Nothing waits for it."""

import time
from collections.abc import Iterable
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from scheduler.dispatcher.ports import Outgoing
from scheduler.kafka.client_settings import Properties
from scheduler.kafka.deadline import Deadline
from scheduler.kafka.errors import Verdict, describe, error_of, judge
from scheduler.kafka.layout import LEASES
from scheduler.kafka.names import Names
from scheduler.kafka.troubles import LOG, Troubles

_ROOM_S: Final = 1.0
_CLOSE_S: Final = 2.0
_ASK_S: Final = 1.0
_ASK_AGAIN_S: Final = 10.0
_ASK_ANEW_S: Final = 1.0  # after no answer
_SAY_AGAIN_S: Final = 10.0


class PlainProducer:
    """An idempotent producer whose records may be lost without harm.

    A lost lease expires and is granted again, a lost notice is repeated at the next beat, a lost echo a second
    later. So failures are counted and logged, not raised.

    Pools and inboxes are the word of workers: what would go to a topic or partition that does not exist is dropped
    here. The client would raise, or keep it in its queue for as long as it tries, and the queue is bounded.
    """

    def __init__(self, settings: Properties, names: Names, troubles: Troubles) -> None:
        """Make the producer; it connects by itself."""
        self._settings = settings
        self._names = names
        self._troubles = troubles
        self._failures: list[tuple[KafkaError | None, Message]] = []
        self._producer = self._made()
        self._inboxes: dict[str, int] = {}  # partitions by lease topic
        self._ask_at_s = self._say_at_s = 0.0
        self.lost = 0

    def send(self, records: Iterable[Outgoing]) -> None:
        """Hand records to the client and see to the reports of earlier ones."""
        deadline = Deadline(_ROOM_S)
        nowhere = 0
        for record in records:
            if not self._exists(record):
                nowhere += 1
                continue
            try:
                self._produce(record)
            except (BufferError, KafkaException) as error:
                self._send_again(record, error, deadline)
        if nowhere:
            self._dropped(nowhere)
        self.serve()

    def serve(self) -> None:
        """Take the delivery reports that wait; only failures are reported."""
        self._producer.poll(0)
        if self._failures:
            self._count(self._failures)
            self._failures = []

    def close(self) -> None:
        """Send what waits, for at most two seconds."""
        self._producer.flush(_CLOSE_S)
        self.serve()

    def _made(self) -> Producer:
        return self._troubles.producer(self._settings, on_delivery=self._store)

    def _store(self, error: KafkaError | None, message: Message) -> None:
        self._failures.append((error, message))

    def _exists(self, record: Outgoing) -> bool:
        """Say whether a notice has somewhere to go; unknown topics and partitions are asked for once in a while."""
        if 0 <= record.partition < self._inboxes.get(record.topic, 0) or not record.topic.startswith(LEASES):
            return True
        if time.monotonic() >= self._ask_at_s:
            self._ask()
        return 0 <= record.partition < self._inboxes.get(record.topic, 0)

    def _dropped(self, count: int) -> None:
        self.lost += count
        now_s = time.monotonic()
        if now_s >= self._say_at_s:
            self._say_at_s = now_s + _SAY_AGAIN_S
            LOG.warning("notices to pools or inboxes that do not exist are dropped: %d just now", count)

    def _ask(self) -> None:
        try:
            topics = self._producer.list_topics(timeout=_ASK_S).topics
        except KafkaException as raised:
            LOG.warning("the lease topics can't be asked for: %s", raised)
            self._ask_at_s = time.monotonic() + _ASK_ANEW_S
            return
        self._ask_at_s = time.monotonic() + _ASK_AGAIN_S
        leases = self._names.full(LEASES)
        self._inboxes = {
            self._names.bare(name): len(topic.partitions)
            for name, topic in topics.items()
            if name.startswith(leases)
        }

    def _send_again(self, record: Outgoing, error: Exception, deadline: Deadline) -> None:
        remade = False
        while True:
            if isinstance(error, BufferError):
                if deadline.passed:  # a broker that does not answer: leases in the queue are too late anyway
                    self.lost += 1
                    return
                self._producer.poll(0.02)
            else:
                if remade or not self._unusable(error):
                    self.lost += 1
                    LOG.warning("not sent to %s: %s", record.topic, error)
                    return
                LOG.warning("the plain producer is made anew: %s", error)
                self._producer = self._made()
                remade = True
            try:
                self._produce(record)
                return
            except (BufferError, KafkaException) as raised:
                error = raised

    @staticmethod
    def _unusable(raised: Exception) -> bool:
        error = error_of(raised)
        return error is not None and judge(error) is Verdict.UNUSABLE

    def _produce(self, record: Outgoing) -> None:
        topic = record.topic if record.foreign else self._names.full(record.topic)
        if record.headers:
            self._producer.produce(
                topic, record.value, record.key, record.partition, headers=list(record.headers)
            )
        else:
            self._producer.produce(topic, record.value, record.key, record.partition)

    def _count(self, failures: list[tuple[KafkaError | None, Message]]) -> None:
        self.lost += len(failures)
        error, message = failures[0]
        text = describe(error) if error is not None else ""
        LOG.warning("%d records not delivered, first to %s: %s", len(failures), message.topic(), text)
