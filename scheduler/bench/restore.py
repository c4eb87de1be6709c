"""How fast a shard's state comes back from its changelog: from nothing, from an old disk, from the own one."""

import time
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka import Producer

from scheduler.bench.lives import lives
from scheduler.bench.site import Site, site
from scheduler.core.settings import Settings
from scheduler.dispatcher.config import Config, Ground
from scheduler.dispatcher.real import MachineClock
from scheduler.dispatcher.restoring import Restorer
from scheduler.dispatcher.standbys import NoStandbys
from scheduler.kafka.admin import Admin
from scheduler.kafka.changelog import KafkaChangelog
from scheduler.kafka.layout import CHANGELOG
from scheduler.storage.rocks import RocksStores

_POLL_EVERY = 10_000


def restore(properties: Mapping[str, str], records: int) -> dict[str, float]:
    """Write `records` to eight changelogs, as jobs that come, run and end leave them, and restore all shards.

    *Old disk* holds the first half, as the disk of one who lost the shards long ago; *own disk* holds everything.
    """
    with site(properties) as place:
        _write(place, records // 2, first=0)
        stores = place.folder / "stores"
        _restored(place, stores)
        _write(place, records - records // 2, first=records // 2)
        old_s = _restored(place, stores)
        own_s = _restored(place, stores)
        empty_s = _restored(place, place.folder / "empty")
    return {
        "records": records,
        "empty_disk_s": round(empty_s, 3),
        "empty_disk_records_per_s": round(records / empty_s),
        "old_disk_s": round(old_s, 3),
        "old_disk_records_per_s": round((records - records // 2) / old_s),
        "own_disk_s": round(own_s, 3),
    }


def _write(place: Site, records: int, *, first: int) -> None:
    producer = Producer(
        {
            **place.properties,
            "enable.idempotence": True,
            "linger.ms": 20,
            "compression.type": "lz4",
            "queue.buffering.max.messages": 2_000_000,
        }
    )
    topic = place.prefix + CHANGELOG
    for count, (shard, key, value) in enumerate(lives(place.shards, records, first)):
        producer.produce(topic, value, key, shard)
        if not count % _POLL_EVERY:
            producer.poll(0)
    if producer.flush(120):
        raise RuntimeError("the broker did not take all records within 120 s")


def _restored(place: Site, directory: Path) -> float:
    """Restore all shards as a dispatcher does, without its turns between; return the seconds from open to closed."""
    ground = _ground(place)
    slice_ms = Config(ground, Settings()).restore_slice_ms
    changelog = KafkaChangelog(place.properties, prefix=place.prefix)
    restorer = Restorer(ground, RocksStores(directory), changelog, MachineClock().mono_ms, NoStandbys())
    began = time.monotonic()
    for shard in range(place.shards):
        restorer.begin(shard, _now_ms(), None)
    while restorer.running():
        for done in restorer.slice(slice_ms, _now_ms()):
            done.store.close()
    took_s = time.monotonic() - began
    changelog.close()
    return took_s


def _ground(place: Site) -> Ground:
    cluster = Admin(place.properties).cluster(place.prefix)
    ids = {topic: observed.topic_id for topic, observed in cluster.topics.items()}
    retention_ms = int(cluster.topics[CHANGELOG].configs["delete.retention.ms"])
    partitions = cluster.topics["lifecycle"].partitions
    return Ground(cluster.cluster_id, place.prefix, place.shards, ids, partitions, retention_ms)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
