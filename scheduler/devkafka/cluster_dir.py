"""The directory of one cluster: who owns it, what is recorded in it, and what a killed run left in it.

owner              locked by the process that runs the cluster
cluster.json       written when every node's data is formatted; without it the data is a torso
left-running.json  the brokers were left running on purpose, perhaps with companions
node-N/            server.properties, data, broker.log, pid.json
"""

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from scheduler.devkafka.errors import DirectoryError
from scheduler.devkafka.node import NodeFiles
from scheduler.devkafka.ownership import Ownership, owner_of
from scheduler.devkafka.process import ProcessIdentity
from scheduler.devkafka.settings import NodePorts
from scheduler.devkafka.state_dir import throwaway_clusters_dir

_PATIENCE_S = 10.0


@dataclass(frozen=True)
class ClusterRecord:
    """What is fixed once the data is formatted, and the ports of the last start."""

    cluster_id: str
    nodes: tuple[NodePorts, ...]


class ClusterDir:
    """A directory that this process owns until ``release`` or ``remove``."""

    def __init__(self, path: Path, ownership: Ownership) -> None:
        self.path = path
        self._ownership = ownership

    @classmethod
    def claim(cls, path: Path) -> Self:
        """Own ``path``, made if missing, and end what a killed run left there. Raises DirectoryError."""
        path = path.absolute()
        path.mkdir(parents=True, exist_ok=True)
        if any(path.iterdir()) and not (path / "owner").exists():
            raise DirectoryError(
                f"{path} holds something that is not a cluster of ours; give an empty folder"
            )
        if is_left_running(path):
            raise DirectoryError(f"brokers were left running on {path}; stop them first: scheduler dev stop")
        ownership = Ownership.take(path)
        if ownership is None:
            owner = owner_of(path)
            who = f"process {owner.pid}" if owner else "another process"
            raise DirectoryError(
                f"{path} is in use by {who}; stop it (scheduler dev stop), or give another folder"
            )
        end_processes(path)
        return cls(path, ownership)

    @classmethod
    def throwaway(cls) -> Self:
        """A new directory for a cluster whose data nobody needs afterwards. Clears those of killed runs first."""
        with _only_one_at_a_time():
            clear_throwaways()
            path = Path(tempfile.mkdtemp(prefix="cluster-", dir=throwaway_clusters_dir()))
            ownership = Ownership.take(path)
        assert ownership is not None
        return cls(path, ownership)

    def node_files(self, node_id: int) -> NodeFiles:
        """The files of one node; its directory exists afterwards."""
        files = NodeFiles(self.path / f"node-{node_id}")
        files.directory.mkdir(exist_ok=True)
        return files

    def record(self) -> ClusterRecord | None:
        """What an earlier run formatted here; None if there is nothing whole."""
        record = read_record(self.path)
        if record is None:
            return None
        whole = all((self.node_files(node.id).data / "meta.properties").exists() for node in record.nodes)
        return record if whole else None

    def write_record(self, record: ClusterRecord) -> None:
        """Say that the data is whole."""
        new = self.path / "cluster.json.new"
        new.write_text(
            json.dumps({"cluster_id": record.cluster_id, "nodes": [asdict(node) for node in record.nodes]})
        )
        new.replace(self.path / "cluster.json")

    def wipe(self) -> None:
        """Remove the data of every node: formatting starts from nothing."""
        (self.path / "cluster.json").unlink(missing_ok=True)
        for node in self.path.glob("node-*"):
            shutil.rmtree(node)

    def leave_running(self, companions: Mapping[str, int]) -> None:
        """Note that the brokers (and companions) go on without us, and give the directory free."""
        identities = [(name, ProcessIdentity.of(pid)) for name, pid in companions.items()]
        noted = [{"name": name, **asdict(identity)} for name, identity in identities if identity]
        (self.path / "left-running.json").write_text(json.dumps(noted))
        self.release()

    def release(self) -> None:
        """Give the directory free and keep what is in it."""
        self._ownership.release()

    def remove(self) -> None:
        """Give the directory free and remove it."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._ownership.release()


def read_record(path: Path) -> ClusterRecord | None:
    """What is recorded in a directory, whoever owns it; None if nothing is."""
    try:
        fields = json.loads((path / "cluster.json").read_text())
        return ClusterRecord(fields["cluster_id"], tuple(NodePorts(**node) for node in fields["nodes"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def is_left_running(path: Path) -> bool:
    """Were brokers left running on purpose on this directory, and do they still run?"""
    return (path / "left-running.json").exists() and any(identity.is_alive() for identity in _brokers(path))


def end_processes(path: Path) -> int:
    """End the companions, then the brokers of a directory that nobody owns. Returns how many ran."""
    ended = 0
    for identity in [*_companions(path), *_brokers(path)]:
        if identity.is_alive():
            identity.end(_PATIENCE_S)
            ended += 1
    for note in [path / "left-running.json", *path.glob("node-*/pid.json")]:
        note.unlink(missing_ok=True)
    return ended


def clear_throwaways() -> None:
    """Remove the throw-away clusters whose owner is gone, brokers included; not those left running on purpose."""
    for path in throwaway_clusters_dir().glob("cluster-*"):
        if owner_of(path) is None and not is_left_running(path):
            end_processes(path)
            shutil.rmtree(path, ignore_errors=True)


def _brokers(path: Path) -> list[ProcessIdentity]:
    read = (ProcessIdentity.read(note) for note in sorted(path.glob("node-*/pid.json")))
    return [identity for identity in read if identity]


def _companions(path: Path) -> list[ProcessIdentity]:
    try:
        noted = json.loads((path / "left-running.json").read_text())
        return [ProcessIdentity(each["pid"], each["started"]) for each in noted]
    except (OSError, ValueError, KeyError, TypeError):
        return []


@contextlib.contextmanager
def _only_one_at_a_time() -> Iterator[None]:
    """Between the making of a directory and its locking another run would take it for a left-over."""
    parent = throwaway_clusters_dir()
    parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(parent / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
