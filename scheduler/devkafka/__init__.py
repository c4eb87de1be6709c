"""A real Apache Kafka on this machine, for development and tests; never a mock, never reached from outside.

``start`` gives a new cluster, ``attach_or_start`` the one to use here; ``prepare`` does beforehand what takes long.
``run_dir`` gives a folder to those who run something beside it. What keeps any of them from working is raised as a
DevKafkaError (the tree is in ``scheduler.devkafka.errors``) whose message says what to do.

Environment: ``KAFKA_BOOTSTRAP_SERVERS`` a broker to use as it is; ``JOBS_DEV_KAFKA`` ``container`` or ``java``;
``JOBS_DEV_KAFKA_JARS`` a folder with Kafka's jars; ``JOBS_DEV_MAVEN_REPOSITORY`` where to fetch them instead of the
public repository; ``JOBS_DEV_DIR`` where data is kept.
"""

from scheduler.devkafka.cluster import Broker, Cluster
from scheduler.devkafka.errors import (
    BrokerFailedError,
    DevKafkaError,
    DirectoryError,
    LittleDiskError,
    NoContainerError,
    NoJarsError,
    NoJavaError,
    PortTakenError,
)
from scheduler.devkafka.left_running import clean, stop_left_running
from scheduler.devkafka.owned_dir import OwnedDir
from scheduler.devkafka.provide import attach_or_start, prepare, start
from scheduler.devkafka.runs import run_dir
from scheduler.devkafka.state_dir import dev_cluster_dir

__all__ = [
    "Broker",
    "BrokerFailedError",
    "Cluster",
    "DevKafkaError",
    "DirectoryError",
    "LittleDiskError",
    "NoContainerError",
    "NoJarsError",
    "NoJavaError",
    "OwnedDir",
    "PortTakenError",
    "attach_or_start",
    "clean",
    "dev_cluster_dir",
    "prepare",
    "run_dir",
    "start",
    "stop_left_running",
]
