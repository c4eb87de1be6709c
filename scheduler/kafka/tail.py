"""The last records of a topic, for those who look at what was sent. Commits nothing, joins no group."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from scheduler.dispatcher.ports import LogError
from scheduler.kafka import client_settings
from scheduler.kafka.errors import PARTITION_END, describe

_CALL_S: Final = 10.0
_QUIET_POLLS: Final = 10  # of a second each without a record or the end of a partition
_BATCH: Final = 500


class Tailed(NamedTuple):
    """One record; `at_ms` is its timestamp as Kafka has it."""

    partition: int
    offset: int
    at_ms: int
    key: bytes | None
    value: bytes | None


class Tail(NamedTuple):
    """The newest records of a topic, oldest first, and the number of its partitions."""

    partitions: int
    records: list[Tailed]


def last_records(properties: Mapping[str, str], topic: str, count: int) -> Tail:
    """Return the newest `count` committed records of `topic` (its full name).

    Raises `LookupError` if there is no such topic, and `LogError` if no broker answers in time.
    """
    consumer = Consumer(client_settings.follower(properties, "scheduler-look"))
    try:
        partitions = _partitions(consumer, topic)
        records = _read(consumer, _starts(consumer, topic, partitions, count))
    except KafkaException as error:
        raise LogError(f"{topic}: {describe(error.args[0])}") from error
    finally:
        consumer.close()
    records.sort(key=lambda record: (record.at_ms, record.partition, record.offset))
    return Tail(partitions, records[-count:])


def _partitions(consumer: Consumer, topic: str) -> int:
    found = consumer.list_topics(topic, timeout=_CALL_S).topics[topic]
    if found.error is not None:
        raise LookupError(f"no topic {topic}: {found.error.str()}")
    return len(found.partitions)


def _starts(consumer: Consumer, topic: str, partitions: int, count: int) -> list[TopicPartition]:
    """Return where to begin in each partition that holds anything: the newest may all lie in one."""
    starts = []
    for partition in range(partitions):
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_CALL_S)
        if low < high:
            starts.append(TopicPartition(topic, partition, max(low, high - count)))
    return starts


def _read(consumer: Consumer, starts: list[TopicPartition]) -> list[Tailed]:
    records: list[Tailed] = []
    left = {start.partition for start in starts}
    consumer.assign(starts)
    quiet = 0
    while left:
        messages = consumer.consume(_BATCH, timeout=1.0)
        quiet = 0 if messages else quiet + 1
        if quiet >= _QUIET_POLLS:
            raise LogError(f"no record and no end of partition {min(left)} within {_QUIET_POLLS} s")
        for message in messages:
            _take(message, records, left)
    return records


def _take(message: Message, records: list[Tailed], left: set[int]) -> None:
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    error = message.error()
    if error is None:
        assert offset is not None
        records.append(Tailed(partition, offset, message.timestamp()[1], message.key(), message.value()))
    elif error.code() == PARTITION_END:
        left.discard(partition)
    elif (
        error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED
    ):  # no group is used; the client asks about it all the same
        raise LogError(describe(error))
