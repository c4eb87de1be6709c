"""What runs without us, or was left by those that did: found, stopped, cleaned."""

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

from scheduler.devkafka.cluster_dir import ClusterDir, read_record
from scheduler.devkafka.owned_dir import clear_left_overs, directories, end_processes, is_left_running
from scheduler.devkafka.ownership import owner_of
from scheduler.devkafka.ports import LOOPBACK
from scheduler.devkafka.state_dir import archives_dir, dev_cluster_dirs, runs_dir, throwaway_clusters_dir

_OWNER_PATIENCE_S = 45.0
"""The owner stops workers (which drain), dispatchers and brokers, one after the other."""


def bootstrap_of(directory: Path) -> str | None:
    """Where the brokers of ``directory`` listen, if another process runs them or they were left running."""
    if owner_of(directory) is None and not is_left_running(directory):
        return None
    record = read_record(directory)
    return ",".join(f"{LOOPBACK}:{node.client}" for node in record.nodes) if record else None


def stop_left_running() -> int:
    """Stop what ``scheduler dev`` runs on this machine, in the foreground elsewhere or left running.

    Returns how many processes were asked to end. What other runs (tests, benches) have for themselves is left alone.
    """
    return sum(_stop(directory) for directory in _stoppable())


def clean(*, archives: bool) -> None:
    """Stop, then remove the data of the development clusters and of killed runs; the class archives too if asked."""
    stop_left_running()
    for directory in dev_cluster_dirs():
        ClusterDir.claim(directory).remove()
    for parent in (runs_dir(), throwaway_clusters_dir()):
        clear_left_overs(parent)
    if archives:
        shutil.rmtree(archives_dir(), ignore_errors=True)


def _stoppable() -> Iterator[Path]:
    """Workers and dispatchers before brokers: what they still report finds one that listens."""
    yield from filter(is_left_running, directories(runs_dir()))
    yield from dev_cluster_dirs()
    yield from filter(is_left_running, directories(throwaway_clusters_dir()))


def _stop(directory: Path) -> int:
    owner = owner_of(directory)
    asked = 0
    if owner is not None:
        owner.send(signal.SIGTERM)
        asked = 1
        if not owner.wait_gone(_OWNER_PATIENCE_S):
            owner.send(signal.SIGKILL)
            owner.wait_gone(5.0)
    return asked + end_processes(directory)
