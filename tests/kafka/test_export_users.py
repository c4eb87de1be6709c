"""Users and their rights in the words of other tools."""

import itertools
import json
import re
import shlex

import pytest
import yaml
from click.testing import CliRunner

from scheduler.cli.main import scheduler
from scheduler.kafka import export, export_users
from scheduler.kafka.layout import COORDINATOR_LOG, Layout
from scheduler.kafka.rights import Right, users

LAYOUT = Layout(8, {"default": 64, "Video_2": 4}, 3)
USERS = users(LAYOUT, {"video-ready"})
RIGHTS = {
    (user.name, right.resource, right.name, right.prefixed, operation)
    for user in USERS
    for right in user.rights
    for operation in right.operations
}
NAMES = ["jobs.dispatcher", "jobs.worker-default", "jobs.worker-video-2", "jobs.client", "jobs.operator"]


def rights_of(name):
    (user,) = [user for user in USERS if user.name == name]
    return user.rights


def test_there_is_a_user_for_each_role_and_pool():
    assert [user.name for user in USERS] == NAMES


def test_a_worker_reads_its_own_pool_and_writes_reports():
    assert rights_of("jobs.worker-video-2") == (
        Right("topic", "jobs.leases.Video_2", ("Read",)),
        Right("topic", "jobs.reports", ("Write",)),
    )


def test_a_client_writes_submits_and_nothing_else():
    bands = ("interactive", "default", "bulk")
    assert rights_of("jobs.client") == tuple(
        Right("topic", f"jobs.submit.{band}", ("Write",)) for band in bands
    )


def test_a_dispatcher_publishes_for_runs_and_never_to_submits():
    written = {right.name for right in rights_of("jobs.dispatcher") if "Write" in right.operations}
    assert "video-ready" in written
    assert not {name for name in written if name.startswith("jobs.submit")}


def test_pools_that_would_share_a_user_are_refused():
    with pytest.raises(ValueError, match=r"two of them would share the user jobs\.worker-gpu"):
        users(Layout(8, {"gpu": 1, "GPU": 1}))


def test_users_of_two_installations_differ():
    other = users(Layout(8, LAYOUT.leases, prefix="Test_jobs."))
    assert not {user.name for user in other} & set(NAMES)
    names = {right.name for user in other for right in user.rights}
    assert names & {name for _, _, name, _, _ in RIGHTS} == {COORDINATOR_LOG}  # Kafka's own, for all


def test_json_has_every_right():
    written = json.loads(export_users.as_json(USERS))["users"]
    assert {
        (user["name"], right["resource"], right["name"], right["pattern"] == "prefixed", operation)
        for user in written
        for right in user["rights"]
        for operation in right["operations"]
    } == RIGHTS


def test_strimzi_has_every_right():
    written = list(yaml.safe_load_all(export_users.as_strimzi(USERS)))
    assert {user["kind"] for user in written} == {"KafkaUser"}
    assert {
        (
            user["metadata"]["name"],
            acl["resource"]["type"],
            acl["resource"]["name"],
            acl["resource"]["patternType"] == "prefix",
            operation,
        )
        for user in written
        for acl in user["spec"]["authorization"]["acls"]
        for operation in acl["operations"]
    } == RIGHTS


def test_kafkas_own_script_has_every_right():
    options = {"--topic": "topic", "--group": "group", "--transactional-id": "transactionalId"}
    found = set()
    for line in export_users.as_kafka_acls(USERS).splitlines():
        if line.startswith("kafka-acls.sh"):
            words = shlex.split(line)
            pairs = list(itertools.pairwise(words))
            (user,) = [value for option, value in pairs if option == "--allow-principal"]
            ((resource, name),) = [(options[option], value) for option, value in pairs if option in options]
            prefixed = ("--resource-pattern-type", "prefixed") in pairs
            operations = [value for option, value in pairs if option == "--operation"]
            found |= {(user.removeprefix("User:"), resource, name, prefixed, each) for each in operations}
    assert found == RIGHTS


def test_terraform_has_every_right():
    text = export_users.as_terraform(USERS)
    resources = {"Topic": "topic", "Group": "group", "TransactionalID": "transactionalId"}
    found = set()
    for block in re.findall(r'resource "kafka_acl" "\w+" \{\n(.*?)\n\}', text, re.DOTALL):
        values = dict(re.findall(r'^  (\w+) += "(.*)"$', block, re.MULTILINE))
        user = values["acl_principal"].removeprefix("User:")
        prefixed = values["resource_pattern_type_filter"] == "Prefixed"
        resource = resources[values["resource_type"]]
        found.add((user, resource, values["resource_name"], prefixed, values["acl_operation"]))
    assert found == RIGHTS
    identifiers = re.findall(r'resource "kafka_acl" "(\w+)"', text)
    assert len(set(identifiers)) == len(identifiers) == len(RIGHTS)


@pytest.mark.parametrize("form", list(export.FORMATS))
def test_the_command_prints_users_without_a_broker(form, tmp_path):
    settings = tmp_path / "settings.yaml"
    settings.write_text("emits: {video: [video-ready]}\n")
    given = ["--shards", "8", "--leases", "default=64,Video_2=4", "--replication-factor", "3"]
    ended = CliRunner().invoke(
        scheduler,
        [
            "-b",
            "127.0.0.1:1",
            "topics",
            "export",
            "--users",
            "--as",
            form,
            *given,
            "--settings",
            str(settings),
        ],
    )
    assert ended.exit_code == 0
    assert ended.output == export_users.FORMATS[form](USERS) + "\n"


def test_the_command_says_what_is_wrong_with_the_settings(tmp_path):
    settings = tmp_path / "settings.yaml"
    settings.write_text("emits: {video: [jobs.changelog]}\n")
    given = ["--shards", "8", "--leases", "default=64", "--replication-factor", "3"]
    ended = CliRunner().invoke(
        scheduler, ["topics", "export", "--users", *given, "--settings", str(settings)]
    )
    assert ended.exit_code == 1
    assert "emits.video: jobs.changelog is the scheduler's own topic" in ended.output
