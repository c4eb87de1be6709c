"""What tests use to watch a log, and to write and read around it."""

import time

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from scheduler.core.inputs import TOPIC_OF, Input
from scheduler.dispatcher.ports import Budget, Outgoing, Polled
from scheduler.kafka.admin import Admin

BUDGET = Budget(records=2_000, size_bytes=8 << 20)
DEADLINE_S = 30.0


class Seen:
    """What several polls of one log gave, and the shards it owns."""

    def __init__(self, log):
        self.log = log
        self.records = []
        self.owned = set()
        self.lost = []
        self.ended = set()
        self.ends = {}
        self.end_offsets = {}

    def poll(self, wait_ms=50, budget=BUDGET) -> Polled:
        polled = self.log.poll(budget, wait_ms)
        self.owned -= set(polled.lost)
        self.lost += polled.lost
        self.owned |= set(polled.gained)
        self.records += polled.records
        self.ended |= {(shard, source) for shard, source, _ in polled.ended}
        self.ends |= polled.ends
        self.end_offsets |= {(shard, source): offset for shard, source, offset in polled.ended}
        return polled

    def until(self, condition, *others):
        """Poll this log, and others beside it, until the condition holds."""
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < deadline, f"owned {self.owned}, {len(self.records)} records"
            self.poll()
            for other in others:
                other.poll(wait_ms=1)
        return self

    def keys(self, source):
        return [record.key for record in self.records if record.input is source]


def at(offset=0, *sources):
    """Positions of all inputs, or of those named."""
    return dict.fromkeys(sources or Input, offset)


def topic_of(layout, source):
    return layout.prefix + TOPIC_OF[source]


def produce(properties, topic, partition, keys, value=b"v", **settings):
    failures = []
    producer = Producer(
        {
            "bootstrap.servers": properties["bootstrap.servers"],
            "on_delivery": lambda error, _: failures.append(error) if error is not None else None,
            **{name.replace("_", "."): setting for name, setting in settings.items()},
        }
    )
    for key in keys:
        producer.produce(topic, value, key, partition)
    assert producer.flush(10) == 0
    assert not failures


def bare_changelog(properties, prefix, partitions=1, **configs):
    """Make a changelog topic with settings of the test's choice; return its name."""
    topic = f"{prefix}changelog"
    named = {name.replace("_", "."): value for name, value in configs.items()}
    new = NewTopic(topic, partitions, 1, config=named)
    admin = Admin(properties)  # it answers only while it is held
    admin.client.create_topics([new])[topic].result(10)
    return topic


def open_transaction(properties, transactional_id, topic, partition, keys):
    """Begin a transaction, write and flush; the caller decides how it ends."""
    producer = Producer(
        {"bootstrap.servers": properties["bootstrap.servers"], "transactional.id": transactional_id}
    )
    producer.init_transactions(10)
    producer.begin_transaction()
    for key in keys:
        producer.produce(topic, b"v", key, partition)
    assert producer.flush(10) == 0
    return producer


def ended(properties, topic, partition, end):
    """Wait until the marker of a transaction that has just ended is in the log, which then ends at `end`."""
    admin = Admin(properties)
    deadline = time.monotonic() + DEADLINE_S
    while admin.committed_end([TopicPartition(topic, partition)])[0].offset < end:
        assert time.monotonic() < deadline


def committed_keys(properties, topic, partition, *, open_ends=False):
    """Every key that read_committed shows of a partition to its end, or to where an open transaction begins."""
    admin = Admin(properties)
    end = 0 if open_ends else admin.latest([TopicPartition(topic, partition)])[0].offset
    consumer = Consumer(
        {
            "bootstrap.servers": properties["bootstrap.servers"],
            "group.id": "reader",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    keys = []
    try:
        while True:
            message = consumer.poll(DEADLINE_S)
            assert message is not None
            if message.error() is None:
                keys.append(message.key())
            elif message.offset() >= end:
                return keys
    finally:
        consumer.close()


def transact(log, shard, offset, records, metadata=None):
    """Run a whole transaction; return the last changelog offsets."""
    metadata = metadata if metadata is not None else log.metadata()
    log.begin()
    add(log, records)
    last = log.flush()
    log.fence({(shard, Input.REPORTS): offset}, metadata)
    log.commit()
    return last


def add(log, records):
    """Add records to the transaction, those of a shard's changelog all at once."""
    logged = {}
    for record in records:
        if record.topic == "changelog":
            logged.setdefault(record.partition, []).append((record.key, record.value))
    for shard, entries in logged.items():
        log.produce_changelog(shard, entries)
    log.produce([record for record in records if record.topic != "changelog"])


def changelog(shard, *keys):
    return [Outgoing("changelog", shard, key, b"v") for key in keys]
