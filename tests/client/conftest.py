"""Submit topics of one's own, and a look at what is in them."""

from dataclasses import replace

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from scheduler.client.client import request_for
from scheduler.client.config import config_from
from scheduler.client.submitter import KafkaSubmitter
from scheduler.codec.job import decode_job

BANDS = ("interactive", "default", "bulk")
SHARDS = 8


class Topics:
    """The three submit topics under one prefix."""

    def __init__(self, bootstrap, prefix):
        self.bootstrap = bootstrap
        self.prefix = prefix

    def create(self, **config):
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        wanted = [NewTopic(self.name(band), SHARDS, 1, config=config) for band in BANDS]
        for created in admin.create_topics(wanted).values():
            created.result()

    def name(self, band):
        return f"{self.prefix}submit.{band}"

    def messages(self, band="default"):
        """Return every record, read to the end as of now."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": self.prefix,
                "enable.partition.eof": True,
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 20,
            }
        )
        consumer.assign([TopicPartition(self.name(band), p, 0) for p in range(SHARDS)])
        found, open_partitions = [], SHARDS
        while open_partitions:
            message = consumer.poll(10)
            assert message is not None, "the broker fell silent"
            if message.error() is None:
                found.append(message)
            else:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                open_partitions -= 1
        consumer.close()
        return found

    def specs(self, band="default"):
        """Return every job, decoded."""
        return [decode_job(message.value()) for message in self.messages(band)]

    def ids(self, band="default"):
        """Return every record's key, as often as it is there."""
        return [message.key().decode() for message in self.messages(band)]


@pytest.fixture
def topics_at():
    """Make submit topics: (bootstrap, prefix, topic settings)."""

    def make(bootstrap, prefix, **config):
        made = Topics(bootstrap, prefix)
        made.create(**config)
        return made

    return make


@pytest.fixture
def topics(kafka, fresh_prefix, topics_at):
    return topics_at(kafka, fresh_prefix)


@pytest.fixture
def submitter_at():
    """Make submitters that are closed at the end: (bootstrap, prefix, other fields of ClientConfig)."""
    made = []

    def make(bootstrap, prefix="jobs.", **fields):
        config = config_from({}, {"bootstrap.servers": bootstrap}, prefix)
        made.append(KafkaSubmitter(replace(config, **fields)))
        return made[-1]

    yield make
    for submitter in made:
        submitter.close()


@pytest.fixture
def submitter(topics, submitter_at):
    return submitter_at(topics.bootstrap, topics.prefix)


@pytest.fixture
def request_of():
    """Make requests: a payload and options."""
    return lambda payload=None, **options: request_for("default", "shop.greet", payload, options)
