"""The brokers of a run, each behind a proxy; who begins at `direct` goes past it."""

import json
import threading
from collections.abc import Callable
from typing import Final

from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from scheduler import devkafka
from scheduler.devkafka.java_cluster import JavaCluster
from scheduler.devkafka.node import Node
from scheduler.devkafka.ports import LOOPBACK, free_ports
from tests.chaos.proxy import Proxy

ASK_S: Final = 10.0
START_TRIES: Final = 3


class Brokers:
    """A cluster of our own. `turn` is held by whatever brings a broker down, so that the others are there meanwhile."""

    def __init__(self, count: int, say: Callable[[str], None]) -> None:
        fronts = free_ports(count)
        cluster = devkafka.start(count, fronts=fronts, say=say)
        assert isinstance(cluster, JavaCluster)
        self._cluster = cluster
        self.nodes = cluster.nodes
        self.direct = cluster.bootstrap
        self.proxied = ",".join(f"{LOOPBACK}:{port}" for port in fronts)
        self.turn = threading.Lock()
        self.proxy = Proxy()
        for node, port in zip(self.nodes, fronts, strict=True):
            self.proxy.forward(node.id, port, node.behind)
        self._admin = AdminClient({"bootstrap.servers": self.direct, "log_level": 0})

    def leader_of(self, topic: str, partition: int) -> int:
        """Return the index of the node that leads a partition."""
        found = self._admin.list_topics(topic, timeout=ASK_S).topics[topic].partitions[partition]
        return max(0, found.leader - 1)

    def controller(self) -> int:
        """Return the index of the node that leads the controllers, by what the nodes keep of the last election."""
        elections = [
            json.loads(path.read_text())
            for path in self._cluster.directory.glob("node-*/data/__cluster_metadata-0/quorum-state")
        ]
        last = max(elections, key=lambda election: election["leaderEpoch"])
        return max(0, last["leaderId"] - 1)

    def require_in_sync(self, prefix: str, replicas: int) -> None:
        """Set `min.insync.replicas` of every topic of ours."""
        topics = [name for name in self._admin.list_topics(timeout=ASK_S).topics if name.startswith(prefix)]
        entry = ConfigEntry("min.insync.replicas", str(replicas), incremental_operation=AlterConfigOpType.SET)
        resources = [ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry]) for name in topics]
        for future in self._admin.incremental_alter_configs(resources, request_timeout=ASK_S).values():
            future.result()

    def start(self, node: Node) -> None:
        """Start a broker and wait until it answers; on a busy machine a start may take more than one try."""
        for _ in range(START_TRIES - 1):
            try:
                node.start()
            except devkafka.BrokerFailedError:
                continue
            return
        node.start()

    def heal(self, prefix: str) -> None:
        """Have every broker run and answer, and take writes while one of several is away."""
        for node in self.nodes:
            node.resume()
            self.start(node)
        self.require_in_sync(prefix, max(1, len(self.nodes) - 1))

    def close(self) -> None:
        self.proxy.close()
        self._cluster.stop()
