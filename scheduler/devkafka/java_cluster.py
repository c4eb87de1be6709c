"""A cluster of Java processes on this machine: formatted, started, warmed up, stopped."""

import atexit
import contextlib
import os
import subprocess
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from scheduler.devkafka.archive import with_archive
from scheduler.devkafka.cluster import Cluster
from scheduler.devkafka.cluster_dir import ClusterDir, ClusterRecord
from scheduler.devkafka.errors import BrokerFailedError, DirectoryError, PortTakenError
from scheduler.devkafka.jars import class_path
from scheduler.devkafka.java import find_java
from scheduler.devkafka.jvm import Jvm, clean_environment
from scheduler.devkafka.node import START_TIMEOUT_S, Node
from scheduler.devkafka.ports import free_ports, is_free, require_free
from scheduler.devkafka.settings import INTERNAL_PARTITIONS, NodePorts, as_properties_file, server_properties
from scheduler.devkafka.state_dir import require_space, state_dir
from scheduler.kafka.readiness import wait_for_brokers, warm_up

_FORMAT_TIMEOUT_S = 60.0
_PORT_TRIES = 3


class JavaCluster(Cluster):
    """Brokers as child processes. Made by ``start_java_cluster``."""

    def __init__(self, home: ClusterDir, nodes: tuple[Node, ...], *, keeps_data: bool) -> None:
        self.bootstrap = ",".join(node.bootstrap for node in nodes)
        self.nodes: tuple[Node, ...] = nodes
        self.directory: Path = home.path
        self._home: ClusterDir | None = home
        self._keeps_data = keeps_data
        self._maker = os.getpid()
        atexit.register(self.stop)

    def stop(self) -> None:
        """Stop every broker. Kept data is closed cleanly (up to 15 s); data that nobody needs goes at once."""
        home = self._let_go()
        if home is None:
            return
        if self._keeps_data:
            for node in self.nodes:
                node.signal_stop()  # all at once: the last ones can't hand over anyway
            for node in self.nodes:
                node.stop()
            home.release()
        else:
            for node in self.nodes:
                node.kill()
            home.remove()

    def leave_running(self) -> None:
        """Let the brokers outlive this process; ``scheduler dev stop`` ends them."""
        home = self._let_go()
        if home is not None:
            home.leave_running()
            for node in self.nodes:
                node.let_go()

    def abandon(self) -> None:
        """After a failed start: end every broker, and leave the logs where the error says they are."""
        self._let_go()
        for node in self.nodes:
            node.kill()

    def launch(self, flags: tuple[str, ...] = ()) -> None:
        """Start every broker and wait until the cluster is warm."""
        for node in self.nodes:
            node.spawn(flags)
        deadline_s = time.monotonic() + START_TIMEOUT_S
        self.nodes[0].wait_ready(lambda: self._until_warm(deadline_s))

    def _until_warm(self, deadline_s: float) -> None:
        wait_for_brokers(
            self.bootstrap, frozenset(node.id for node in self.nodes), deadline_s, self._require_alive
        )
        warm_up(self.bootstrap, INTERNAL_PARTITIONS, min(len(self.nodes), 3), deadline_s)

    def _require_alive(self) -> None:
        for node in self.nodes:
            node.require_alive()

    def _let_go(self) -> ClusterDir | None:
        if os.getpid() != self._maker:
            return None  # a forked child inherited the object, not the brokers
        atexit.unregister(self.stop)
        home, self._home = self._home, None
        return home


def start_java_cluster(
    nodes: int,
    port: int | None,
    directory: Path | None,
    say: Callable[[str], None],
    fronts: Sequence[int] = (),
) -> JavaCluster:
    """See ``scheduler.devkafka.start``."""
    require_space(directory or state_dir())
    if port is not None:
        for each in range(port, port + nodes):
            require_free(each)
    jvm = prepared_jvm(say)
    if directory is None:
        return _start(jvm, ClusterDir.new(), nodes, port, fronts=fronts)
    return _start(jvm, ClusterDir.claim(directory), nodes, port, keeps_data=True, fronts=fronts)


def prepared_jvm(say: Callable[[str], None]) -> Jvm:
    """Java, Kafka's jars and their class archive; fetched and made if this is the first time (about 30 s)."""
    require_space(state_dir())
    plain = Jvm(find_java(), class_path(say))
    return with_archive(
        plain, lambda flags: _start(plain, ClusterDir.new(), 1, None, flags=flags).stop(), say
    )


def _start(
    jvm: Jvm,
    home: ClusterDir,
    nodes: int,
    port: int | None,
    *,
    keeps_data: bool = False,
    flags: tuple[str, ...] = (),
    fronts: Sequence[int] = (),
) -> JavaCluster:
    """Start on ports of our choice, or from ``port`` on. A port that is snatched away meanwhile costs a retry."""
    for tries_left in reversed(range(_PORT_TRIES)):
        try:
            record = _prepared(jvm, home, nodes, port, fronts)
            return _start_once(jvm, home, record, keeps_data=keeps_data, flags=flags)
        except PortTakenError:
            if port is not None or not tries_left:
                home.release()
                raise
        except BaseException:
            home.release()
            raise
    raise AssertionError("the last try returns or raises")


def _start_once(
    jvm: Jvm, home: ClusterDir, record: ClusterRecord, *, keeps_data: bool, flags: tuple[str, ...]
) -> JavaCluster:
    made = tuple(Node(each, home.node_files(each.id), jvm) for each in record.nodes)
    cluster = JavaCluster(home, made, keeps_data=keeps_data)
    try:
        cluster.launch(flags)
    except BaseException:
        cluster.abandon()
        raise
    return cluster


def _prepared(
    jvm: Jvm, home: ClusterDir, nodes: int, port: int | None, fronts: Sequence[int]
) -> ClusterRecord:
    """Formatted data and a server.properties for every node."""
    old = home.record()
    if old is not None and len(old.nodes) != nodes:
        raise DirectoryError(
            f"{home.path} holds a cluster of {len(old.nodes)} nodes, not {nodes}; give another folder"
        )
    if old is None:
        home.wipe()
    record = ClusterRecord(
        old.cluster_id if old else _new_cluster_id(), _choose_ports(nodes, port, old, fronts)
    )
    for node in record.nodes:
        files = home.node_files(node.id)
        files.properties.write_text(as_properties_file(server_properties(node, record.nodes, files.data)))
    if old is None:
        _format(jvm, home, record)
    home.write_record(record)
    return record


def _choose_ports(
    nodes: int, port: int | None, old: ClusterRecord | None, fronts: Sequence[int]
) -> tuple[NodePorts, ...]:
    """The asked ports, else those of the last start if they are free, else free ones."""
    if (
        old is not None
        and port is None
        and not fronts
        and all(is_free(each.client) and is_free(each.controller) for each in old.nodes)
    ):
        return old.nodes
    free = free_ports(3 * nodes)
    clients = list(range(port, port + nodes)) if port is not None else free[nodes : 2 * nodes]
    plain = [NodePorts(index + 1, clients[index], free[index]) for index in range(nodes)]
    if not fronts:
        return tuple(plain)
    behind = free[2 * nodes :]
    return tuple(
        replace(each, front=front, behind=at) for each, front, at in zip(plain, fronts, behind, strict=True)
    )


def _new_cluster_id() -> str:
    """Hex digits only: an id that starts with a dash is taken for an option by the format tool."""
    return uuid.uuid4().hex[:22]


def _format(jvm: Jvm, home: ClusterDir, record: ClusterRecord) -> None:
    """Run the format tool once per node, side by side."""
    running: list[tuple[Path, subprocess.Popen[bytes]]] = []
    with contextlib.ExitStack() as open_logs:
        for node in record.nodes:
            files = home.node_files(node.id)
            log = open_logs.enter_context(files.log.open("ab"))
            command = jvm.command(
                "kafka.tools.StorageTool", "format", "-t", record.cluster_id, "-c", str(files.properties)
            )
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=clean_environment(),
                start_new_session=True,
            )
            running.append((files.log, process))
        try:
            ended = [(log_path, process.wait(_FORMAT_TIMEOUT_S)) for log_path, process in running]
        except BaseException:
            for _, process in running:
                process.kill()
                process.wait()
            raise
    for log_path, code in ended:
        if code:
            raise BrokerFailedError(f"Kafka's data could not be formatted (exit {code}); see {log_path}")
