"""Changelogs that a bench writes itself, and what a dispatcher has to know of the topics to restore them."""

from collections.abc import Iterable

from confluent_kafka import Producer

from scheduler.bench.lives import Entry
from scheduler.bench.site import Site
from scheduler.dispatcher.config import Ground
from scheduler.kafka.admin import Admin
from scheduler.kafka.layout import CHANGELOG

_POLL_EVERY = 10_000
_QUEUED_MAX = 500_000
_FLUSH_S = 300


def write(place: Site, entries: Iterable[Entry]) -> None:
    """Append entries as fast as a client can, outside of transactions."""
    producer = Producer(
        {
            **place.properties,
            "enable.idempotence": True,
            "linger.ms": 20,
            "compression.type": "lz4",
            "queue.buffering.max.messages": 2 * _QUEUED_MAX,
        }
    )
    topic = place.prefix + CHANGELOG
    for count, (shard, key, value) in enumerate(entries):
        producer.produce(topic, value, key, shard)
        if not count % _POLL_EVERY:
            producer.poll(0)
            while len(producer) > _QUEUED_MAX:
                producer.poll(0.1)
    if producer.flush(_FLUSH_S):
        raise RuntimeError(f"the broker did not take all records within {_FLUSH_S} s")


def ground_of(place: Site) -> Ground:
    """Return what a dispatcher finds out about the topics at its start."""
    cluster = Admin(place.properties).cluster(place.prefix)
    ids = {topic: observed.topic_id for topic, observed in cluster.topics.items()}
    retention_ms = int(cluster.topics[CHANGELOG].configs["delete.retention.ms"])
    partitions = cluster.topics["lifecycle"].partitions
    return Ground(cluster.cluster_id, place.prefix, place.shards, ids, partitions, retention_ms)
