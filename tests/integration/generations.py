"""A group's generations, by what its coordinator wrote down: Kafka's internal topic `__consumer_offsets`.

No request tells of them, and members see only their own share. The coordinator numbers each generation, one higher each
time that a rebalance has gathered who is there, also one whose assignment never came to be; so the difference of two
numbers counts them all. The format is Kafka's: `GroupMetadataKey` version 2, `GroupMetadataValue` versions 0 to 3.

The same partition holds offsets of transactions. What stands here is part of none, and is read whatever is still open.
"""

import struct

from confluent_kafka import Consumer, TopicPartition

from scheduler.kafka.coordinator_log import partition_of
from scheduler.kafka.errors import PARTITION_END

TOPIC = "__consumer_offsets"
KEY_VERSION = 2
VALUE_VERSIONS = range(4)
ANSWER_S = 20.0


class Generations:
    """The generations of one group of the classic protocol."""

    def __init__(self, properties, group):
        self._consumer = Consumer(
            {
                **properties,
                "group.id": "generations",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "enable.partition.eof": True,  # the end may be a transaction's marker, which no message tells of
                "isolation.level": "read_uncommitted",
            }
        )
        partitions = len(self._consumer.list_topics(TOPIC, timeout=ANSWER_S).topics[TOPIC].partitions)
        self._partition = TopicPartition(TOPIC, partition_of(group, partitions))
        self._key = struct.pack(">hh", KEY_VERSION, len(group)) + group.encode()
        self._latest = 0
        self._next, _ = self._consumer.get_watermark_offsets(self._partition, timeout=ANSWER_S)
        self._consumer.assign([TopicPartition(TOPIC, self._partition.partition, self._next)])

    def latest(self):
        """Return the number of the last generation that was written down before this call, 0 before the first."""
        _, end = self._consumer.get_watermark_offsets(self._partition, timeout=ANSWER_S)
        while self._next < end:
            for message in self._consumer.consume(1_000, 0.1):
                self._take(message)
        return self._latest

    def close(self):
        self._consumer.close()

    def _take(self, message):
        if message.error() is None:
            self._next = message.offset() + 1
            if message.key() == self._key and message.value():
                self._latest = generation_in(message.value())
        elif message.error().code() == PARTITION_END:
            self._next = message.offset()


def generation_in(value):
    """Return the generation that a value of the group's tells of."""
    version, length = struct.unpack_from(">hh", value)
    assert version in VALUE_VERSIONS, f"a group's record of version {version}"
    (generation,) = struct.unpack_from(">i", value, 4 + length)
    return generation
