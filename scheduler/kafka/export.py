"""A layout in the words of other tools, for those whose topics are made by something else. Pure.

None of them writes the first `meta` of a shard: after the topics exist, `scheduler topics apply --execute` does.
"""

import json
import shlex
from collections.abc import Callable, Mapping
from typing import Final

import yaml

from scheduler.kafka.foreign_names import kubernetes_name, terraform_name
from scheduler.kafka.layout import Layout

THEN: Final = "After these topics exist, run once: scheduler topics apply --execute"


def as_json(layout: Layout) -> str:
    """Return one object: prefix, shards, replication_factor, topics with name, partitions and configs."""
    topics = [
        {"name": layout.prefix + topic.name, "partitions": topic.partitions, "configs": topic.configs}
        for topic in layout.topics()
    ]
    return json.dumps(
        {
            "prefix": layout.prefix,
            "shards": layout.shards,
            "replication_factor": layout.replication_factor,
            "topics": topics,
        },
        indent=2,
    )


def as_kafka_topics(layout: Layout) -> str:
    """Return a shell script of `kafka-topics.sh` calls. The brokers are named by BOOTSTRAP_SERVERS."""
    lines = ["#!/bin/sh", "set -eu", f"# {THEN}"]
    for topic in layout.topics():
        configs = " ".join(
            f"--config {shlex.quote(f'{name}={value}')}" for name, value in topic.configs.items()
        )
        lines.append(
            'kafka-topics.sh --bootstrap-server "$BOOTSTRAP_SERVERS" --create --if-not-exists '
            f"--topic {shlex.quote(layout.prefix + topic.name)} --partitions {topic.partitions} "
            f"--replication-factor {layout.replication_factor} {configs}"
        )
    return "\n".join(lines)


def as_strimzi(layout: Layout) -> str:
    """Return KafkaTopic resources. The cluster's label is `my-cluster`, to be replaced."""
    resources = [
        {
            "apiVersion": "kafka.strimzi.io/v1beta2",
            "kind": "KafkaTopic",
            "metadata": {
                "name": kubernetes_name(layout.prefix + topic.name),
                "labels": {"strimzi.io/cluster": "my-cluster"},
            },
            "spec": {
                "topicName": layout.prefix + topic.name,
                "partitions": topic.partitions,
                "replicas": layout.replication_factor,
                "config": topic.configs,
            },
        }
        for topic in layout.topics()
    ]
    return f"# {THEN}\n" + yaml.safe_dump_all(resources, sort_keys=False, explicit_start=True).rstrip()


def as_terraform(layout: Layout) -> str:
    """Return `kafka_topic` resources of the provider Mongey/kafka."""
    blocks = [f"# {THEN}"]
    for topic in layout.topics():
        name = layout.prefix + topic.name
        configs = "\n".join(
            f"    {json.dumps(key)} = {json.dumps(value)}" for key, value in topic.configs.items()
        )
        blocks.append(
            f'resource "kafka_topic" {json.dumps(terraform_name(name))} {{\n'
            f"  name               = {json.dumps(name)}\n"
            f"  partitions         = {topic.partitions}\n"
            f"  replication_factor = {layout.replication_factor}\n"
            f"  config = {{\n{configs}\n  }}\n"
            "  lifecycle {\n    prevent_destroy = true\n  }\n"
            "}"
        )
    return "\n\n".join(blocks)


FORMATS: Final[Mapping[str, Callable[[Layout], str]]] = {
    "json": as_json,
    "kafka-topics.sh": as_kafka_topics,
    "strimzi": as_strimzi,
    "terraform": as_terraform,
}
