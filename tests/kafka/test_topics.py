"""What `topics apply` makes on a real broker, and what it never touches."""

import threading

import msgspec
import pytest
from click.testing import CliRunner
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from scheduler.cli.main import scheduler
from scheduler.codec.meta import decode_meta
from scheduler.core.inputs import LAYOUT, TOPIC_OF, Input
from scheduler.kafka.admin import Admin
from scheduler.kafka.apply import apply
from scheduler.kafka.changelog import KafkaChangelog
from scheduler.kafka.layout import SHARED
from scheduler.kafka.verify import LayoutError, compare
from tests.kafka.seen import Seen, changelog, committed_keys, ended, open_transaction, produce, transact
from tests.kafka.test_changelog import restored


def metas(properties, layout, shard):
    reader = KafkaChangelog(properties, prefix=layout.prefix)
    entries, _ = restored(reader, shard)
    reader.close()
    return [decode_meta(value) for key, value in entries if key == b"m"]


def alter(properties, topic, **configs):
    entries = [
        ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for name, value in configs.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin = Admin(properties)
    admin.client.incremental_alter_configs([resource])[resource].result(10)


def test_every_shard_begins_with_a_meta(properties, installed):
    cluster = Admin(properties).cluster(installed.prefix)
    assert compare(installed, cluster) == []
    for shard in range(installed.shards):
        (meta,) = metas(properties, installed, shard)
        assert (meta.layout, meta.cluster_id, meta.shards, meta.epoch) == (LAYOUT, cluster.cluster_id, 4, 0)
        assert meta.positions == dict.fromkeys(TOPIC_OF.values(), 0)
        assert meta.topic_ids == {name: cluster.topics[name].topic_id for name in SHARED}
        assert len(set(meta.topic_ids.values())) == len(SHARED)


def test_positions_are_where_the_inputs_begin(properties, layout):
    """Topics made by another tool may have lost records before the first meta."""
    topic = layout.prefix + "submit.bulk"
    admin = Admin(properties)
    configs = next(each.configs for each in layout.topics() if each.name == "submit.bulk")
    admin.client.create_topics([NewTopic(topic, layout.shards, 1, config=configs)])[topic].result(10)
    produce(properties, topic, 2, [b"a", b"b", b"c"])
    for answer in admin.client.delete_records([TopicPartition(topic, 2, 2)]).values():
        answer.result(10)
    done = apply(properties, layout)
    assert "submit.bulk" not in done.created
    assert [metas(properties, layout, shard)[0].positions["submit.bulk"] for shard in range(4)] == [
        0,
        0,
        2,
        0,
    ]


def test_it_may_be_repeated_and_never_overwrites(properties, installed, open_log):
    owner = Seen(open_log())
    owner.until(lambda: len(owner.owned) == 4)
    transact(owner.log, 1, 0, changelog(1, b"m", b"later"))
    ended(properties, installed.prefix + "changelog", 1, 5)
    done = apply(properties, installed)
    assert (done.created, done.first_metas) == ((), ())
    assert committed_keys(properties, installed.prefix + "changelog", 1) == [b"m", b"m", b"later"]


def test_a_meta_far_from_the_tail_is_found(properties, installed):
    topic = installed.prefix + "changelog"
    produce(properties, topic, 0, [b"s%d" % n for n in range(3_000)])
    assert apply(properties, installed).first_metas == ()


def test_raised_partition_counts_are_refused_though_all_agree(properties, installed):
    """KC-12: the jobs that there are were filed by another number of shards."""
    admin = Admin(properties)
    raised = [NewPartitions(installed.prefix + name, 8) for name in SHARED]
    for answer in admin.client.create_partitions(raised).values():
        answer.result(10)
    with pytest.raises(LayoutError, match="changelog  shards: 8, wanted 4"):
        apply(properties, msgspec.structs.replace(installed, shards=8))
    assert [metas(properties, installed, shard) for shard in range(4, 8)] == [[], [], [], []]


def test_a_changelog_with_everything_but_a_meta_gets_one(properties, layout):
    topic = layout.prefix + "changelog"
    admin = Admin(properties)
    configs = next(each.configs for each in layout.topics() if each.name == "changelog")
    admin.client.create_topics([NewTopic(topic, layout.shards, 1, config=configs)])[topic].result(10)
    open_transaction(properties, topic, topic, 0, [b"m"]).abort_transaction(10)  # an apply that died
    produce(properties, topic, 1, [b"s"])
    assert apply(properties, layout).first_metas == (0, 1, 2, 3)
    assert committed_keys(properties, topic, 0) == [b"m"]


def test_several_at_once_write_one_meta(properties, layout):
    """Three start on an empty cluster: each may fail, fenced by another, but together they leave one meta."""
    failures = []

    def run():
        try:
            apply(properties, layout)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(failures) < 3, failures
    for shard in range(4):
        assert len(metas(properties, layout, shard)) == 1


def test_a_wrong_topic_stops_it_before_anything_is_done(properties, layout):
    topic = layout.prefix + "reports"
    admin = Admin(properties)
    wrong = NewTopic(topic, layout.shards + 1, 1, config={"cleanup.policy": "compact"})
    admin.client.create_topics([wrong])[topic].result(10)
    with pytest.raises(LayoutError) as refused:
        apply(properties, layout)
    found = {(each.setting, each.found, each.fatal) for each in refused.value.differences}
    assert {("partitions", "5", True), ("cleanup.policy", "compact", True)} <= found
    assert set(Admin(properties).cluster(layout.prefix).topics) == {"reports"}


def test_verify_tells_fatal_from_harmless(properties, installed):
    prefix = installed.prefix
    alter(properties, prefix + "changelog", cleanup_policy="delete", max_message_bytes="1000000")
    alter(properties, prefix + "submit.bulk", retention_ms="60000")
    alter(properties, prefix + "retry.5s", message_timestamp_type="CreateTime")
    alter(properties, prefix + "requests", min_insync_replicas="2")
    alter(properties, prefix + "lifecycle", retention_ms="60000", max_message_bytes="1000")
    alter(properties, prefix + "dlq", retention_ms="-1")
    admin = Admin(properties)
    admin.client.create_partitions([NewPartitions(prefix + "leases.default", 5)])[
        prefix + "leases.default"
    ].result(10)
    found = {
        (each.topic.removeprefix(prefix), each.setting, each.fatal)
        for each in compare(installed, admin.cluster(prefix))
    }
    assert found == {
        ("changelog", "cleanup.policy", True),
        ("changelog", "max.message.bytes", True),
        ("submit.bulk", "retention.ms", True),
        ("retry.5s", "message.timestamp.type", True),
        ("requests", "min.insync.replicas", True),
        ("lifecycle", "retention.ms", False),
        ("lifecycle", "max.message.bytes", False),
        ("leases.default", "partitions", False),
    }


def test_raised_partitions_are_not_read_and_verify_names_them(properties, installed, open_log):
    topic = installed.prefix + "reports"
    admin = Admin(properties)
    admin.client.create_partitions([NewPartitions(topic, 6)])[topic].result(10)
    owner = Seen(open_log(shards=4))
    owner.until(lambda: len(owner.owned) == 4)
    owner.log.follow(3, {Input.REPORTS: 0})
    produce(properties, topic, 5, [b"beyond"])
    produce(properties, topic, 3, [b"probe"])
    owner.until(lambda: len(owner.records) == 1)
    assert owner.owned == {0, 1, 2, 3}
    (difference,) = compare(installed, admin.cluster(installed.prefix))
    assert str(difference) == f"FAIL  {topic}  partitions: 6, wanted 4"


def run(kafka, *arguments):
    return CliRunner().invoke(scheduler, ["-b", kafka, "topics", *arguments], standalone_mode=False)


def test_the_command_plans_applies_and_verifies(kafka, fresh_prefix, properties):
    wanted = (
        "--prefix",
        fresh_prefix,
        "--shards",
        "4",
        "--leases",
        "default=4,video=2",
        "--replication-factor",
        "1",
    )
    planned = run(kafka, "apply", *wanted)
    assert planned.output == (
        "19 topics, 69 partitions \u00d71: 12 \u00d7 4 co-owned, 6 inboxes, dlq 8, lifecycle 4, settings, beacon, audit.  "
        "--shards can't be changed later.  Add --execute.\n"
    )
    assert Admin(properties).cluster(fresh_prefix).topics == {}
    assert run(kafka, "verify", "--prefix", fresh_prefix).exception is not None
    done = run(kafka, "apply", *wanted, "--execute")
    assert done.output == f"19 topics created with the prefix '{fresh_prefix}', 4 of 4 shards begun\n"
    again = run(kafka, "apply", "--prefix", fresh_prefix, "--execute")
    assert again.output == "nothing to do: all topics exist and every shard has begun\n"
    verified = run(kafka, "verify", "--prefix", fresh_prefix)
    assert (verified.return_value, "as they must be" in verified.output) == (0, True)
    other = run(kafka, "verify", "--prefix", fresh_prefix, "--shards", "8")
    assert other.return_value == 1
    assert f"FAIL  {fresh_prefix}changelog  partitions: 4, wanted 8" in other.output
    assert run(kafka, "apply", "--prefix", fresh_prefix, "--shards", "8", "--execute").exception is not None
    exported = run(kafka, "export", "--prefix", fresh_prefix, "--as", "json")
    assert '"shards": 4' in exported.output
