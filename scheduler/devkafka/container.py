"""A broker in a container of the official image, where a container engine answers on this machine.

testcontainers' own KafkaContainer starts scripts that only another vendor's image has, so this is a plain container:
the host port is fixed beforehand, since the broker must advertise it before the engine could tell.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scheduler.devkafka.cluster import Cluster
from scheduler.devkafka.errors import BrokerFailedError, NoContainerError
from scheduler.devkafka.jars import KAFKA_VERSION
from scheduler.devkafka.node import START_TIMEOUT_S
from scheduler.devkafka.ports import LOOPBACK, free_ports, require_free
from scheduler.devkafka.settings import (
    INTERNAL_PARTITIONS,
    NodePorts,
    as_container_environment,
    server_properties,
)
from scheduler.kafka.readiness import NotReadyError, wait_for_brokers, warm_up

if TYPE_CHECKING:
    from testcontainers.core.container import DockerContainer

IMAGE = f"apache/kafka:{KAFKA_VERSION}"
_LOG_DIR = Path("/tmp/kafka-logs")  # noqa: S108 - inside the container, where the image's user may write
_PING_TIMEOUT_S = 3


def engine_answers() -> bool:
    """Does a container engine answer on this machine? Costs nothing where there is no sign of one."""
    if not _sign_of_an_engine():
        return False
    try:
        import docker

        client = docker.from_env(timeout=_PING_TIMEOUT_S)
    except Exception:  # noqa: BLE001 - whatever the client library finds wrong means: not here
        return False
    try:
        return bool(client.ping())
    except Exception:  # noqa: BLE001 - the same
        return False
    finally:
        client.close()


def _sign_of_an_engine() -> bool:
    """A local engine only: ports are bound to the loopback interface of the machine that runs the engine."""
    host = os.environ.get("DOCKER_HOST")
    if host:
        return host.startswith("unix://")
    sockets = [Path("/var/run/docker.sock"), Path.home() / ".docker" / "run" / "docker.sock"]
    return any(path.exists() for path in sockets)


class ContainerBroker:
    """The broker of a container, under the names of ``Broker``."""

    def __init__(self, container: "DockerContainer", bootstrap: str) -> None:
        self.id = 1
        self.bootstrap = bootstrap
        self._container = container

    def start(self) -> None:
        """Start the stopped or killed container on the data it had, and wait until it answers."""
        self._docker.start()
        self.wait_ready()

    def stop(self) -> None:
        """SIGTERM, and SIGKILL after 15 s."""
        self._docker.stop(timeout=15)

    def kill(self) -> None:
        """SIGKILL."""
        self._docker.kill()

    def suspend(self) -> None:
        """Freeze all its processes."""
        self._docker.pause()

    def resume(self) -> None:
        """Let them go on."""
        self._docker.unpause()

    def wait_ready(self) -> None:
        """Wait until the broker answers and is warm. Raises BrokerFailedError."""
        deadline_s = time.monotonic() + START_TIMEOUT_S
        try:
            wait_for_brokers(self.bootstrap, frozenset({1}), deadline_s, self._require_running)
            warm_up(self.bootstrap, INTERNAL_PARTITIONS, 1, deadline_s)
        except NotReadyError as error:
            raise BrokerFailedError(f"{IMAGE} did not answer in time ({error})") from error

    def _require_running(self) -> None:
        self._docker.reload()
        if self._docker.status not in {"created", "running"}:
            last = self._docker.logs(tail=5).decode(errors="replace").strip()
            raise BrokerFailedError(f"the container of {IMAGE} ended: {last}")

    @property
    def _docker(self) -> Any:
        return self._container.get_wrapped_container()


class ContainerCluster(Cluster):
    """One broker in a container, removed with its data when it stops."""

    def __init__(self, container: "DockerContainer", broker: ContainerBroker) -> None:
        self.bootstrap = broker.bootstrap
        self.nodes = (broker,)
        self._container: DockerContainer | None = container

    def stop(self) -> None:
        """Remove the container."""
        container, self._container = self._container, None
        if container is not None:
            container.stop()

    def leave_running(self) -> None:
        """Not possible. Raises NoContainerError."""
        raise NoContainerError(
            "a broker in a container ends with the run that made it; set JOBS_DEV_KAFKA=java to leave one running"
        )


def start_container_cluster(port: int | None, say: Callable[[str], None]) -> ContainerCluster:
    """One broker. Raises NoContainerError if the engine can't run the image, PortTakenError, BrokerFailedError."""
    if port is None:
        port = free_ports(1)[0]
    require_free(port)
    say(f"starting a container of {IMAGE} (fetched the first time)")
    container = _started(port)
    broker = ContainerBroker(container, f"{LOOPBACK}:{port}")
    try:
        broker.wait_ready()
    except BaseException:
        container.stop()
        raise
    return ContainerCluster(container, broker)


def _started(port: int) -> "DockerContainer":
    try:
        from testcontainers.core.container import DockerContainer

        container = DockerContainer(IMAGE)
        for name, value in container_environment(port).items():
            container.with_env(name, value)
        ports: dict[str, Any] = container.ports
        ports[f"{port}/tcp"] = (LOOPBACK, port)  # with_bind_ports would listen on every interface
        return container.start()
    except Exception as error:  # the engine's, the registry's and the library's own errors share no root
        raise NoContainerError(f"the container engine could not run {IMAGE}: {error}") from error


def container_environment(port: int) -> dict[str, str]:
    """The image's variables for one broker that is reached at ``port`` of 127.0.0.1, inside and outside alike."""
    node = NodePorts(1, client=port, controller=port + 1)
    properties = server_properties(node, (node,), _LOG_DIR)
    properties["listeners"] = f"PLAINTEXT://0.0.0.0:{port},CONTROLLER://{LOOPBACK}:{port + 1}"
    return {**as_container_environment(properties), "KAFKA_HEAP_OPTS": "-Xmx384m"}
