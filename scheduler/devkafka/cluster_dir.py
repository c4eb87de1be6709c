"""The directory of one cluster: what is recorded in it, and what a killed run left in it.

cluster.json       written when every node's data is formatted; without it the data is a torso
node-N/            server.properties, data, tmp, broker.log, pid.json
"""

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from scheduler.devkafka.errors import DirectoryError
from scheduler.devkafka.node import NodeFiles
from scheduler.devkafka.owned_dir import OwnedDir, end_processes, is_left_running
from scheduler.devkafka.ownership import Ownership, owner_of
from scheduler.devkafka.settings import NodePorts
from scheduler.devkafka.state_dir import throwaway_clusters_dir


@dataclass(frozen=True)
class ClusterRecord:
    """What is fixed once the data is formatted, and the ports of the last start."""

    cluster_id: str
    nodes: tuple[NodePorts, ...]


class ClusterDir(OwnedDir):
    """A cluster's directory that this process owns."""

    @classmethod
    def new(cls) -> Self:
        """A new one, for a cluster whose data nobody needs afterwards."""
        return cls.throwaway(throwaway_clusters_dir(), "cluster")

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


def read_record(path: Path) -> ClusterRecord | None:
    """What is recorded in a directory, whoever owns it; None if nothing is."""
    try:
        fields = json.loads((path / "cluster.json").read_text())
        return ClusterRecord(fields["cluster_id"], tuple(NodePorts(**node) for node in fields["nodes"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
