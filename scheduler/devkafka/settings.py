"""The broker settings that are good for development and tests, as names and values of server.properties."""

from dataclasses import dataclass
from pathlib import Path

from scheduler.devkafka.ports import LOOPBACK

INTERNAL_PARTITIONS = 4

_ALWAYS = {
    # A typo in a topic's name is an error, not a new topic.
    "auto.create.topics.enable": "false",
    # Take-over within seconds: sessions of a second are allowed, and nobody waits for more members to join.
    "group.min.session.timeout.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "1000",
    # A dead owner's open transaction ends a second after its time-out, not ten.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    # A dead node is noticed, and may come back, after three seconds instead of nine.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    # Small: few partitions of the broker's own, little memory for cleaning, few threads, short index files.
    "offsets.topic.num.partitions": str(INTERNAL_PARTITIONS),
    "transaction.state.log.num.partitions": str(INTERNAL_PARTITIONS),
    "share.coordinator.state.topic.num.partitions": str(INTERNAL_PARTITIONS),
    "log.cleaner.dedupe.buffer.size": "4194304",
    "log.index.size.max.bytes": "2097152",
    "num.network.threads": "2",
    "num.io.threads": "4",
}

_SEVERAL_NODES = {
    "controller.quorum.fetch.timeout.ms": "1000",
    "controller.quorum.election.timeout.ms": "500",
}


@dataclass(frozen=True)
class NodePorts:
    """One node: its number, from 1, and its ports on 127.0.0.1.

    ``front`` is 0, or the port of a proxy that its clients are told to use. The node expects what comes through that
    on ``behind``; whoever begins at ``client`` goes past the proxy.
    """

    id: int
    client: int
    controller: int
    front: int = 0
    behind: int = 0


def server_properties(node: NodePorts, nodes: tuple[NodePorts, ...], log_dir: Path) -> dict[str, str]:
    """What one of ``nodes`` runs with: broker and controller in one, listening on the loopback interface only."""
    client, controller = f"PLAINTEXT://{LOOPBACK}:{node.client}", f"CONTROLLER://{LOOPBACK}:{node.controller}"
    listeners, advertised = [client, controller], [client]
    if node.front:
        listeners.append(f"FRONT://{LOOPBACK}:{node.behind}")
        advertised.append(f"FRONT://{LOOPBACK}:{node.front}")
    return {
        **cluster_settings(len(nodes)),
        "node.id": str(node.id),
        "listeners": ",".join(listeners),
        "advertised.listeners": ",".join(advertised),
        # Named here and not in the data, so that a cluster can come back on other ports.
        "controller.quorum.voters": ",".join(f"{each.id}@{LOOPBACK}:{each.controller}" for each in nodes),
        "log.dirs": str(log_dir),
    }


def cluster_settings(nodes: int) -> dict[str, str]:
    """What every node of a cluster of that many nodes has in common."""
    replicas, in_sync = str(min(nodes, 3)), str(2 if nodes >= 3 else 1)
    return {
        "process.roles": "broker,controller",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,FRONT:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
        **_ALWAYS,
        **(_SEVERAL_NODES if nodes > 1 else {}),
    }


def as_properties_file(properties: dict[str, str]) -> str:
    """The text of a server.properties file."""
    return "".join(f"{name}={value}\n" for name, value in properties.items())


def as_container_environment(properties: dict[str, str]) -> dict[str, str]:
    """The variables from which the image's start script writes its server.properties."""
    return {
        "KAFKA_" + name.replace("-", "___").replace("_", "__").replace(".", "_").upper(): value
        for name, value in properties.items()
    }
