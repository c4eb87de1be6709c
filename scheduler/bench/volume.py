"""How many records and bytes a run put on the topics of a prefix, counted by reading them."""

from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError, TopicPartition

from scheduler.kafka.layout import Layout

_BATCH = 10_000


def volume(properties: Mapping[str, str], layout: Layout) -> tuple[int, int]:
    """Return the records and the bytes (keys and values) on all topics of `layout`, aborted ones included."""
    consumer = Consumer(
        {
            **properties,
            "group.id": "bench",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_uncommitted",
            "enable.partition.eof": True,
            "fetch.queue.backoff.ms": 5,
        }
    )
    partitions = [
        TopicPartition(layout.prefix + topic.name, n, 0)
        for topic in layout.topics()
        for n in range(topic.partitions)
    ]
    try:
        consumer.assign(partitions)
        return _count(consumer, len(partitions))
    finally:
        consumer.close()


def _count(consumer: Consumer, partitions: int) -> tuple[int, int]:
    records = size = ended = 0
    while ended < partitions:
        for message in consumer.consume(_BATCH, 0.2):
            error = message.error()
            if error is None:
                records += 1
                size += len(message.key() or b"") + len(message.value() or b"")
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the client's own name
                ended += 1
    return records, size
