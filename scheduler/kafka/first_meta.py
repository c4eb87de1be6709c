"""Writes the first `meta` of each shard: the sign that a changelog is complete from its beginning."""

from collections.abc import Callable, Mapping
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from scheduler.codec.errors import Refused
from scheduler.codec.meta import decode_meta, encode_meta
from scheduler.core.inputs import LAYOUT, TOPIC_OF, Meta
from scheduler.core.keyspace import META
from scheduler.dispatcher.ports import LogError
from scheduler.kafka import client_settings
from scheduler.kafka.admin import Admin, ObservedCluster
from scheduler.kafka.deadline import Deadline
from scheduler.kafka.errors import PARTITION_END, Verdict, describe, error_of, judge
from scheduler.kafka.layout import CHANGELOG, SHARED, Layout
from scheduler.kafka.troubles import Troubles
from scheduler.kafka.verify import Difference, LayoutError

_TAIL: Final = 1_000
"""Each turn writes a `meta`, so one is nearly always among a changelog's last records."""

_CALL_S: Final = 30.0
"""Many topics that have just been made take a slow disk more than the usual 10 s to get their leaders."""


def write_first_metas(properties: Mapping[str, str], layout: Layout, cluster: ObservedCluster) -> list[int]:
    """Write a `meta` into each changelog partition that has none; return those shards.

    Positions are the inputs' earliest offsets. An existing `meta` is never overwritten, however many of these
    run at once: all use one transactional id, and each takes it over *before* it looks. So only the one that
    took it last can commit, and it has seen whatever the others committed, and what a dispatcher wrote since.

    Raises `LayoutError` if a `meta` names another number of shards: every topic's partitions were raised, and the
    jobs that there are would no longer lie where their ids lead. Raises `LogError` if the brokers refuse or don't
    answer within 30 s.
    """
    troubles = Troubles()
    settings = client_settings.transactional(properties, f"{layout.prefix}topics-apply")
    producer = troubles.producer(settings)
    _insist("init_transactions", producer.init_transactions, troubles)
    admin = Admin(properties)
    shards = _shards_without(properties, layout, admin)
    if not shards:
        return []
    producer.begin_transaction()
    for shard, meta in _first_metas(layout, cluster, admin, shards).items():
        producer.produce(layout.prefix + CHANGELOG, encode_meta(meta), META, shard)
    _insist("commit_transaction", producer.commit_transaction, troubles)
    return shards


def _first_metas(
    layout: Layout, cluster: ObservedCluster, admin: Admin, shards: list[int]
) -> dict[int, Meta]:
    topic_ids = {name: cluster.topics[name].topic_id for name in SHARED}
    inputs = {layout.prefix + name: name for name in TOPIC_OF.values()}
    asked = [TopicPartition(full, shard) for full in inputs for shard in shards]
    positions: dict[int, dict[str, int]] = {shard: {} for shard in shards}
    for at in admin.earliest(asked, _CALL_S):
        positions[at.partition][inputs[at.topic]] = at.offset
    return {
        shard: Meta(LAYOUT, cluster.cluster_id, layout.shards, topic_ids, positions[shard])
        for shard in shards
    }


def _shards_without(properties: Mapping[str, str], layout: Layout, admin: Admin) -> list[int]:
    """Return the shards whose changelog holds no `meta`."""
    asked = [TopicPartition(layout.prefix + CHANGELOG, shard) for shard in range(layout.shards)]
    starts = {at.partition: at.offset for at in admin.earliest(asked, _CALL_S)}
    ends = {at.partition: at.offset for at in admin.committed_end(asked, _CALL_S)}
    empty = [shard for shard in range(layout.shards) if starts[shard] >= ends[shard]]
    if len(empty) == layout.shards:
        return empty
    settings = client_settings.restorer(properties, f"{layout.prefix}topics-apply")
    consumer = Troubles().consumer(settings)
    try:
        return [
            shard
            for shard in range(layout.shards)
            if shard in empty
            or not _has_meta(consumer, asked[shard], starts[shard], ends[shard], layout.shards)
        ]
    finally:
        consumer.close()


def _has_meta(consumer: Consumer, changelog: TopicPartition, start: int, end: int, shards: int) -> bool:
    """Look at the tail first, then at everything."""
    tail = max(start, end - _TAIL)
    found = _meta_between(consumer, changelog, tail, end) or _meta_between(consumer, changelog, start, tail)
    if found is None:
        return False
    made_for = _shards_of(found)
    if made_for not in (None, shards):
        different = Difference(changelog.topic, "shards", str(made_for), str(shards), fatal=True)
        raise LayoutError([different])
    return True


def _shards_of(meta: bytes) -> int | None:
    try:
        return decode_meta(meta).shards
    except Refused:
        return None  # there is one, if not of this version


def _meta_between(consumer: Consumer, changelog: TopicPartition, start: int, end: int) -> bytes | None:
    if start >= end:
        return None
    consumer.assign([TopicPartition(changelog.topic, changelog.partition, start)])
    deadline = Deadline(_CALL_S)
    while not deadline.passed:
        for message in consumer.consume(500, 0.05):
            error = message.error()
            if error is not None and error.code() == PARTITION_END:
                return None
            if error is None and message.key() == META:
                return message.value() or b""
            if error is None and (message.offset() or 0) >= end - 1:
                return None
            if error is None:
                deadline = Deadline(_CALL_S)
    raise LogError(f"{changelog.topic}/{changelog.partition} could not be read within {_CALL_S:.0f} s")


def _insist(name: str, call: Callable[[float], None], troubles: Troubles) -> None:
    deadline = Deadline(_CALL_S)
    while True:
        try:
            call(deadline.slice_s())
            return
        except KafkaException as raised:
            error = error_of(raised)
            if error is None or judge(error) is not Verdict.RETRY or deadline.passed:
                text = describe(error) if error is not None else str(raised)
                raise LogError(f"{name}: {text}{troubles.why()}") from raised
