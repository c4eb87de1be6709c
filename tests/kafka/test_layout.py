"""The layout as data, checks against made-up clusters, and what other tools get."""

import json

import pytest
import yaml

from scheduler.core.inputs import TOPIC_OF
from scheduler.kafka import export
from scheduler.kafka.admin import ObservedCluster, ObservedTopic
from scheduler.kafka.apply import plan, summary, wanted_layout
from scheduler.kafka.layout import Layout, min_insync_replicas
from scheduler.kafka.verify import LayoutError, compare, layout_of, require

RATED = Layout(32, {"default": 256, "video": 64}, 3)


def observed(layout, **changes):
    """A cluster that is exactly as the layout says, with changes by topic: partitions, copies or configs."""
    topics = {}
    for topic in layout.topics():
        change = changes.get(topic.name.replace(".", "_"), {})
        partitions = change.pop("partitions", topic.partitions)
        copies = change.pop("copies", layout.replication_factor)
        configs = {**topic.configs, **{name.replace("_", "."): value for name, value in change.items()}}
        topics[topic.name] = ObservedTopic("id-" + topic.name, partitions, copies, configs)
    return ObservedCluster("cluster", topics, 3)


def test_the_summary_counts_everything():
    assert summary(RATED) == (
        "19 topics, 747 partitions \u00d73: 12 \u00d7 32 co-owned, 320 inboxes, dlq 8, lifecycle 32, "
        "settings, beacon, audit.  --shards can't be changed later."
    )


def test_what_is_kept_until_consumed_has_no_limit_and_all_time_is_the_brokers():
    topics = {topic.name: topic for topic in RATED.topics()}
    for name in TOPIC_OF.values():
        assert topics[name].configs["retention.ms"] == topics[name].configs["retention.bytes"] == "-1"
    assert {topic.configs["message.timestamp.type"] for topic in topics.values()} == {"LogAppendTime"}
    assert {name for name, topic in topics.items() if topic.configs["cleanup.policy"] == "compact"} == {
        "changelog",
        "settings",
    }


def test_a_record_that_got_in_fits_into_the_dead_letter_topic():
    sizes = {topic.name: int(topic.configs["max.message.bytes"]) for topic in RATED.topics()}
    assert max(size for name, size in sizes.items() if name.startswith("submit.")) * 1.5 < sizes["dlq"]


def test_one_broker_may_be_away():
    assert [min_insync_replicas(copies) for copies in (1, 2, 3, 5)] == [1, 1, 2, 4]


@pytest.mark.parametrize(
    ("shards", "leases", "copies", "prefix", "text"),
    [
        (0, {"default": 1}, 1, "jobs.", "shards must be at least 1"),
        (8, {"default": 0}, 1, "jobs.", "pool 'default' needs at least 1 partition"),
        (8, {"a/b": 1}, 1, "jobs.", "pool 'a/b' may have letters"),
        (8, {"default": 1}, 0, "jobs.", "replication factor must be at least 1"),
        (8, {"default": 1}, 1, "jobs/", "prefix 'jobs/' may have letters"),
    ],
)
def test_a_layout_that_kafka_would_not_take_is_refused(shards, leases, copies, prefix, text):
    with pytest.raises(ValueError, match=text):
        Layout(shards, leases, copies, prefix)


def test_a_cluster_as_it_should_be_has_no_differences():
    assert compare(RATED, observed(RATED)) == []
    assert require(RATED, observed(RATED)) == []


def test_the_layout_is_read_off_the_cluster_and_the_odd_one_stands_out():
    cluster = observed(RATED, commands={"partitions": 40})
    assert layout_of(cluster) == RATED
    (difference,) = compare(layout_of(cluster), cluster)
    assert str(difference) == "FAIL  jobs.commands  partitions: 40, wanted 32"
    with pytest.raises(LayoutError, match=r"jobs\.commands  partitions: 40, wanted 32"):
        require(RATED, cluster)


@pytest.mark.parametrize(
    ("topic", "change", "setting", "fatal"),
    [
        ("dlq", {"retention_ms": "1000"}, "retention.ms", False),
        ("settings", {"cleanup_policy": "compact,delete"}, "cleanup.policy", True),
        ("reports", {"retention_bytes": "1000000"}, "retention.bytes", True),
        ("changelog", {"delete_retention_ms": "1000"}, "delete.retention.ms", False),
        ("beacon", {"partitions": 2}, "partitions", True),
        ("dlq", {"partitions": 2}, "partitions", False),
        ("leases_video", {"max_message_bytes": "1000"}, "max.message.bytes", True),
        ("commands", {"copies": 2, "min_insync_replicas": "1"}, "replication factor", False),
        ("commands", {"min_insync_replicas": "4"}, "min.insync.replicas", True),
        ("commands", {"min_insync_replicas": "3"}, "min.insync.replicas", False),
        ("commands", {"min_insync_replicas": "1"}, "min.insync.replicas", False),
        ("reports", {"unclean_leader_election_enable": "true"}, "unclean.leader.election.enable", False),
    ],
)
def test_each_difference_is_named_and_weighed(topic, change, setting, fatal):
    cluster = observed(RATED, **{topic: change})
    (difference,) = compare(RATED, cluster)
    assert (difference.topic, difference.setting, difference.fatal) == (
        "jobs." + topic.replace("_", "."),
        setting,
        fatal,
    )


@pytest.mark.parametrize(
    ("topic", "change"), [("dlq", {"retention_ms": "-1"}), ("audit", {"max_message_bytes": "9000000"})]
)
def test_more_than_wanted_is_no_difference(topic, change):
    assert compare(RATED, observed(RATED, **{topic: change})) == []


def test_a_plan_creates_what_is_missing_and_tells_of_the_rest():
    cluster = observed(RATED, dlq={"partitions": 3})
    del cluster.topics["leases.video"]
    planned = plan(RATED, cluster)
    assert [topic.name for topic in planned.missing] == ["leases.video"]
    assert [each.setting for each in planned.differences] == ["partitions"]
    assert not planned.refused


def test_what_is_not_given_comes_from_the_cluster_then_from_defaults():
    empty = ObservedCluster("cluster", {}, 5)
    assert wanted_layout(empty, prefix="jobs.", shards=8) == Layout(8, {"default": 64}, 3)
    other = wanted_layout(empty, prefix="jobs.", shards=8, leases={"web": 4})
    assert other.leases == {"default": 64, "web": 4}  # dispatchers don't start without the pool `default`
    with pytest.raises(ValueError, match="give --shards"):
        wanted_layout(empty, prefix="jobs.")
    grown = wanted_layout(observed(RATED), prefix="jobs.", leases={"gpu": 2})
    assert grown == Layout(32, {"default": 256, "video": 64, "gpu": 2}, 3)


def test_every_export_has_every_topic():
    names = ["jobs." + topic.name for topic in RATED.topics()]
    written = json.loads(export.as_json(RATED))
    assert [topic["name"] for topic in written["topics"]] == names
    resources = list(yaml.safe_load_all(export.as_strimzi(RATED)))
    assert [resource["spec"]["topicName"] for resource in resources] == names
    assert len({resource["metadata"]["name"] for resource in resources}) == len(names)
    assert resources[0]["spec"]["replicas"] == 3
    script = export.as_kafka_topics(RATED)
    assert script.count("--create --if-not-exists") == len(names)
    assert "--topic jobs.retry.30m --partitions 32 --replication-factor 3" in script
    terraform = export.as_terraform(RATED)
    assert terraform.count('resource "kafka_topic"') == len(names)
    assert terraform.count("{") == terraform.count("}")


def test_the_command_exports_without_a_broker():
    from click.testing import CliRunner

    from scheduler.cli.main import scheduler
    from scheduler.cli.topics import FORMATS

    assert set(FORMATS) == set(export.FORMATS)
    for form in FORMATS:
        given = ["--shards", "8", "--leases", "default=4", "--replication-factor", "1"]
        ended = CliRunner().invoke(scheduler, ["-b", "127.0.0.1:1", "topics", "export", "--as", form, *given])
        assert ended.exit_code == 0
        assert "jobs.reports" in ended.output
    bad = CliRunner().invoke(scheduler, ["topics", "apply", "--leases", "default"])
    assert bad.exit_code == 2
    assert "is not POOL=PARTITIONS" in bad.output
