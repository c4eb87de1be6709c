"""Users and their rights in the words of other tools. Pure. Credentials are made by those tools, or by hand."""

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import yaml

from scheduler.kafka.foreign_names import terraform_name
from scheduler.kafka.rights import Right, User


def as_json(users: Sequence[User]) -> str:
    """Return one object: users with name, purpose and rights."""
    shown = [
        {
            "name": user.name,
            "purpose": user.purpose,
            "rights": [
                {
                    "resource": right.resource,
                    "name": right.name,
                    "pattern": "prefixed" if right.prefixed else "literal",
                    "operations": right.operations,
                }
                for right in user.rights
            ],
        }
        for user in users
    ]
    return json.dumps({"users": shown}, indent=2)


def as_kafka_acls(users: Sequence[User]) -> str:
    """Return a shell script of `kafka-acls.sh` calls. The brokers are named by BOOTSTRAP_SERVERS."""
    lines = ["#!/bin/sh", "set -eu"]
    for user in users:
        lines += ["", f"# {user.purpose}"]
        lines += [_kafka_acls_call(user.name, right) for right in user.rights]
    return "\n".join(lines)


def _kafka_acls_call(user: str, right: Right) -> str:
    option = {"topic": "--topic", "group": "--group", "transactionalId": "--transactional-id"}[right.resource]
    operations = " ".join(f"--operation {operation}" for operation in right.operations)
    pattern = " --resource-pattern-type prefixed" if right.prefixed else ""
    return (
        f'kafka-acls.sh --bootstrap-server "$BOOTSTRAP_SERVERS" --add --allow-principal User:{shlex.quote(user)} '
        f"{operations} {option} {shlex.quote(right.name)}{pattern}"
    )


def as_strimzi(users: Sequence[User]) -> str:
    """Return KafkaUser resources. The cluster's label is `my-cluster`, to be replaced; so may be the authentication."""
    return "\n".join(f"---\n# {user.purpose}\n{_kafka_user(user)}" for user in users)


def _kafka_user(user: User) -> str:
    acls = [
        {
            "resource": {
                "type": right.resource,
                "name": right.name,
                "patternType": "prefix" if right.prefixed else "literal",
            },
            "operations": list(right.operations),
        }
        for right in user.rights
    ]
    resource = {
        "apiVersion": "kafka.strimzi.io/v1beta2",
        "kind": "KafkaUser",
        "metadata": {"name": user.name, "labels": {"strimzi.io/cluster": "my-cluster"}},
        "spec": {
            "authentication": {"type": "scram-sha-512"},
            "authorization": {"type": "simple", "acls": acls},
        },
    }
    return yaml.safe_dump(resource, sort_keys=False).rstrip()


def as_terraform(users: Sequence[User]) -> str:
    """Return `kafka_acl` resources of the provider Mongey/kafka, one for each operation."""
    return "\n\n".join(f"# {user.purpose}\n" + "\n\n".join(_kafka_acls(user)) for user in users)


def _kafka_acls(user: User) -> list[str]:
    kinds = {"topic": "Topic", "group": "Group", "transactionalId": "TransactionalID"}
    return [
        f'resource "kafka_acl" {json.dumps(terraform_name(f"{user.name}_{operation}_{right.resource}_{right.name}"))} {{\n'
        f"  resource_name                = {json.dumps(right.name)}\n"
        f"  resource_type                = {json.dumps(kinds[right.resource])}\n"
        f'  resource_pattern_type_filter = "{"Prefixed" if right.prefixed else "Literal"}"\n'
        f"  acl_principal                = {json.dumps(f'User:{user.name}')}\n"
        '  acl_host                     = "*"\n'
        f"  acl_operation                = {json.dumps(operation)}\n"
        '  acl_permission_type          = "Allow"\n'
        "}"
        for right in user.rights
        for operation in right.operations
    ]


FORMATS: Final[Mapping[str, Callable[[Sequence[User]], str]]] = {
    "json": as_json,
    "kafka-topics.sh": as_kafka_acls,
    "strimzi": as_strimzi,
    "terraform": as_terraform,
}
"""By the names of `scheduler.kafka.export`: who takes topics in one form takes rights in the same tool's."""
