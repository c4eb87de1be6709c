"""A broker of its own that knows its users and allows them only what they were given."""

import contextlib
import subprocess
import uuid

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from scheduler.devkafka.cluster_dir import ClusterDir
from scheduler.devkafka.java_cluster import prepared_jvm
from scheduler.devkafka.jvm import clean_environment
from scheduler.devkafka.node import Node
from scheduler.devkafka.ports import free_ports
from scheduler.devkafka.settings import NodePorts, as_properties_file, server_properties
from scheduler.kafka.readiness import answers

ADMIN = "admin"

_RESOURCES = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactionalId": ResourceType.TRANSACTIONAL_ID,
}
_OPERATIONS = {
    "Read": AclOperation.READ,
    "Write": AclOperation.WRITE,
    "Delete": AclOperation.DELETE,
    "Create": AclOperation.CREATE,
    "Describe": AclOperation.DESCRIBE,
    "DescribeConfigs": AclOperation.DESCRIBE_CONFIGS,
}


class GuardedBroker:
    """Its users have their names for passwords. ``admin`` may do everything."""

    def __init__(self, bootstrap):
        self._bootstrap = bootstrap
        self.admin = AdminClient(self.properties(ADMIN))

    def properties(self, user):
        """The librdkafka properties of a user."""
        return {
            "bootstrap.servers": self._bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": user,
        }

    def allow(self, users):
        """Give users their rights."""
        rules = [
            AclBinding(
                _RESOURCES[right.resource],
                right.name,
                ResourcePatternType.PREFIXED if right.prefixed else ResourcePatternType.LITERAL,
                f"User:{user.name}",
                "*",
                _OPERATIONS[operation],
                AclPermissionType.ALLOW,
            )
            for user in users
            for right in user.rights
            for operation in right.operations
        ]
        for created in self.admin.create_acls(rules).values():
            created.result(30)


@contextlib.contextmanager
def guarded_broker(names):
    """Run one for users of these names."""
    jvm = prepared_jvm(print)
    home = ClusterDir.new()
    client, controller = free_ports(2)
    ports = NodePorts(1, client, controller)
    files = home.node_files(1)
    files.properties.write_text(as_properties_file(_settings(ports, files, names)))
    arguments = ("format", "-t", uuid.uuid4().hex[:22], "-c", str(files.properties))
    subprocess.run(
        jvm.command("kafka.tools.StorageTool", *arguments),
        env=clean_environment(),
        stdout=subprocess.DEVNULL,
        check=True,
    )
    node = Node(ports, files, jvm)
    node.spawn()
    try:
        broker = GuardedBroker(node.bootstrap)
        assert answers(broker.properties(ADMIN), 60), files.log.read_text()[-2_000:]
        yield broker
    finally:
        node.kill()
        home.remove()


def _settings(ports, files, names):
    plain = server_properties(ports, (ports,), files.data)
    users = " ".join(f'user_{name}="{name}"' for name in (ADMIN, *names))
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    return {
        **plain,
        "listeners": plain["listeners"].replace("PLAINTEXT://", "SASL_PLAINTEXT://"),
        "advertised.listeners": plain["advertised.listeners"].replace("PLAINTEXT://", "SASL_PLAINTEXT://"),
        "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            f'{login} username="{ADMIN}" password="{ADMIN}" {users};'
        ),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{ADMIN};User:ANONYMOUS",  # the controller's listener, on the loopback interface, asks nobody
    }
