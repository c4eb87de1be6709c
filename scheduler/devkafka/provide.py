"""The choice of a broker: a given one, a container, or Java processes."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from scheduler.devkafka.cluster import AttachedCluster, Cluster
from scheduler.devkafka.container import engine_answers, start_container_cluster
from scheduler.devkafka.errors import BrokerFailedError, DevKafkaError, DirectoryError, NoContainerError
from scheduler.devkafka.java_cluster import prepared_jvm, start_java_cluster
from scheduler.devkafka.left_running import bootstrap_of
from scheduler.kafka.connection import BOOTSTRAP, connection_from
from scheduler.kafka.readiness import answers

ANSWER_TIMEOUT_S = 10.0
_WAYS = ("any", "container", "java")


def start(
    nodes: int = 1,
    port: int | None = None,
    directory: Path | None = None,
    *,
    fronts: Sequence[int] = (),
    say: Callable[[str], None] = lambda _: None,
) -> Cluster:
    """A new Kafka of our own on this machine, ready and warm when this returns (about 1.5 s, once 30 s).

    ``nodes`` is 1, or 3 for failover tests. ``port`` is the client port of the first node on 127.0.0.1, the others
    follow; without it free ones are chosen. ``directory`` keeps the data there from run to run; without it the data
    goes when the cluster stops. ``fronts`` are the ports of proxies that the caller runs, one before each node: who
    begins at a proxy is told to go on through proxies. ``say`` hears what takes long. ``JOBS_DEV_KAFKA`` =
    ``container`` or ``java`` says how; otherwise one node with neither ``directory`` nor ``fronts`` is a container
    where an engine answers, and all else Java processes, which can be told apart, kept and killed.

    Raises a DevKafkaError whose message says what to do.
    """
    way = _chosen_way()
    suits_a_container = nodes == 1 and directory is None and not fronts
    if way == "container" and not suits_a_container:
        raise NoContainerError(
            "JOBS_DEV_KAFKA=container runs one node, keeps no data and has no proxy; set JOBS_DEV_KAFKA=java"
        )
    if way == "container" or (way == "any" and suits_a_container and engine_answers()):
        try:
            return start_container_cluster(port, say)
        except NoContainerError as error:
            if way == "container":
                raise
            say(f"{error}; using Java instead")
    return start_java_cluster(nodes, port, directory, say, fronts)


def prepare(*, say: Callable[[str], None] = lambda _: None) -> None:
    """Do now what ``start`` would do the first time on this machine (about 30 s), where deadlines don't run yet.

    Raises a DevKafkaError.
    """
    way = _chosen_way()
    if way == "java" or (way == "any" and not engine_answers()):
        prepared_jvm(say)


def attach_or_start(
    port: int | None = None,
    directory: Path | None = None,
    *,
    say: Callable[[str], None] = lambda _: None,
) -> Cluster:
    """The Kafka to use here: the one of ``KAFKA_BOOTSTRAP_SERVERS``, else one that runs on ``directory``, else a new one.

    Stopping an attached cluster does nothing. Raises BrokerFailedError if the given one does not answer within 10 s,
    and what ``start`` raises.
    """
    given = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
    if given:
        if not _answers_here(given):
            raise BrokerFailedError(
                f"no broker answered at {given} within {ANSWER_TIMEOUT_S:.0f} s; start it, or unset "
                "KAFKA_BOOTSTRAP_SERVERS to have one started here"
            )
        return AttachedCluster(given)
    running = bootstrap_of(directory) if directory is not None else None
    if running is not None:
        if not answers({BOOTSTRAP: running}, ANSWER_TIMEOUT_S):
            raise DirectoryError(
                f"the broker of {directory} at {running} does not answer; run: scheduler dev stop"
            )
        say(f"using the broker that runs at {running}")
        return AttachedCluster(running)
    return start(port=port, directory=directory, say=say)


def _answers_here(given: str) -> bool:
    """With all KAFKA_* settings, since a given broker may ask for a password."""
    try:
        return answers(connection_from(os.environ, {BOOTSTRAP: given}), ANSWER_TIMEOUT_S)
    except ValueError as error:
        raise BrokerFailedError(f"a KAFKA_* variable holds what librdkafka refuses: {error}") from error


def _chosen_way() -> str:
    way = os.environ.get("JOBS_DEV_KAFKA", "any")
    if way not in _WAYS:
        raise DevKafkaError(f"JOBS_DEV_KAFKA={way} is none of {', '.join(_WAYS)}")
    return way
