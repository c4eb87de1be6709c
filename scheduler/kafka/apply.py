"""Creates the topics that are missing and the first `meta` of each shard."""

from collections.abc import Mapping
from typing import Final

import msgspec
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]  # public name, not re-exported by the stub

from scheduler.dispatcher.ports import LogError
from scheduler.kafka.admin import Admin, ObservedCluster
from scheduler.kafka.deadline import Deadline
from scheduler.kafka.errors import describe, error_of
from scheduler.kafka.first_meta import write_first_metas
from scheduler.kafka.layout import LEASES, SHARED, Layout, Topic
from scheduler.kafka.verify import Difference, LayoutError, compare, layout_of

INBOXES: Final = 64
DEFAULT_POOL: Final = "default"
_COPIES: Final = 3
_CREATE_S: Final = 30.0


class Plan(msgspec.Struct, frozen=True):
    """What `apply` would do: create `missing`. It never alters a topic; `differences` are those of existing ones."""

    layout: Layout
    missing: tuple[Topic, ...]
    differences: list[Difference]

    @property
    def refused(self) -> bool:
        """Whether an existing topic is so wrong that nothing is done."""
        return any(each.fatal for each in self.differences)


class Applied(msgspec.Struct, frozen=True):
    """What was done: names of created topics without prefix, and the shards that got their first `meta`."""

    created: tuple[str, ...]
    first_metas: tuple[int, ...]


def wanted_layout(
    cluster: ObservedCluster,
    *,
    prefix: str,
    shards: int | None = None,
    leases: Mapping[str, int] | None = None,
    replication_factor: int | None = None,
) -> Layout:
    """Complete what an operator gave by what exists, and that by defaults: 64 inboxes for the pool `default`, 3 copies.

    That pool is always there: it serves the queues that no settings send elsewhere.
    Raises `ValueError` if there are no topics yet and no shard count was given.
    """
    exists = any(name in cluster.topics for name in SHARED)
    if not exists and shards is None:
        raise ValueError(f"no topics with the prefix '{prefix}' yet: give --shards, for example --shards 8")
    before = layout_of(cluster, prefix=prefix) if exists else None
    pools = {**(before.leases if before else {DEFAULT_POOL: INBOXES}), **(leases or {})}
    copies = replication_factor or (before.replication_factor if before else min(_COPIES, cluster.brokers))
    return Layout(shards or (before.shards if before else 0), pools, copies, prefix)


def plan(layout: Layout, cluster: ObservedCluster) -> Plan:
    """Compare a layout with a cluster. Pure."""
    missing = tuple(topic for topic in layout.topics() if topic.name not in cluster.topics)
    names = {layout.prefix + topic.name for topic in missing}
    return Plan(layout, missing, [each for each in compare(layout, cluster) if each.topic not in names])


def summary(layout: Layout) -> str:
    """Return the one line that says what a layout is."""
    topics = layout.topics()
    inboxes = sum(topic.partitions for topic in topics if topic.name.startswith(LEASES))
    own = {topic.name: topic.partitions for topic in topics}
    total = sum(topic.partitions for topic in topics)
    times = "\u00d7"
    return (
        f"{len(topics)} topics, {total} partitions {times}{layout.replication_factor}: "
        f"{len(SHARED)} {times} {layout.shards} co-owned, {inboxes} inboxes, dlq {own['dlq']}, lifecycle {own['lifecycle']}, "
        "settings, beacon, audit.  --shards can't be changed later."
    )


def apply(properties: Mapping[str, str], layout: Layout) -> Applied:
    """Create what is missing, then write the first `meta` of each shard that has none. May be repeated.

    Raises `LayoutError` before anything is done if an existing topic differs fatally, and `LogError` if the
    brokers refuse or don't answer.
    """
    admin = Admin(properties)
    made = plan(layout, admin.cluster(layout.prefix))
    if made.refused:
        raise LayoutError(made.differences)
    _create(admin, layout, made.missing)
    shards = write_first_metas(properties, layout, _once_visible(admin, layout))
    return Applied(tuple(topic.name for topic in made.missing), tuple(shards))


def _create(admin: Admin, layout: Layout, topics: tuple[Topic, ...]) -> None:
    if not topics:
        return
    asked = [
        NewTopic(
            layout.prefix + topic.name, topic.partitions, layout.replication_factor, config=topic.configs
        )
        for topic in topics
    ]
    answers = admin.client.create_topics(asked, operation_timeout=_CREATE_S, request_timeout=_CREATE_S)
    for name, answer in answers.items():
        try:
            answer.result(_CREATE_S + 1)
        except KafkaException as raised:
            error = error_of(raised)
            if (
                error is None or error.code() != KafkaError.TOPIC_ALREADY_EXISTS
            ):  # another one applies too: fine
                text = describe(error) if error is not None else str(raised)
                raise LogError(f"creating {name}: {text}") from raised


def _once_visible(admin: Admin, layout: Layout) -> ObservedCluster:
    """Wait until every broker asked knows every topic, and look whether all are as they should be."""
    deadline = Deadline(_CREATE_S)
    while True:
        cluster = admin.cluster(layout.prefix)
        differences = compare(layout, cluster)
        if not any(each.found == "missing" for each in differences):
            break
        if deadline.passed:
            raise LayoutError(differences)
        admin.client.poll(0.1)
    if any(each.fatal for each in differences):
        raise LayoutError(differences)
    return cluster
