"""Writing to and reading from a cluster under test."""

import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

DEADLINE_S = 60.0


def create_topic(bootstrap: str, topic: str, replicas: int = 1) -> None:
    """One partition."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for created in admin.create_topics([NewTopic(topic, 1, replicas)]).values():
        created.result(DEADLINE_S)


def write(bootstrap: str, topic: str, values: list[bytes], compression: str = "none") -> None:
    """Returns when every record is acknowledged by all in-sync replicas; raises otherwise."""
    failed: list[KafkaError] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "enable.idempotence": True,
            "compression.type": compression,
            "message.timeout.ms": 50_000,
            "topic.metadata.propagation.max.ms": 500,
        }
    )
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(DEADLINE_S) == 0
    if failed:
        raise KafkaException(failed[0])


def read(bootstrap: str, topic: str, count: int) -> list[bytes]:
    """The first ``count`` values of partition 0."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[bytes] = []
    until = time.monotonic() + DEADLINE_S
    while len(values) < count and time.monotonic() < until:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            values.append(message.value())
    consumer.close()
    return values
