"""Where everything of the development broker lives on disk, and whether there is room for it."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from scheduler.devkafka.errors import LittleDiskError

LEAST_FREE_BYTES = 1024**3


def state_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """``$JOBS_DEV_DIR``, else ``kafka-scheduler`` in ``$XDG_STATE_HOME``, which is ``~/.local/state`` by default."""
    own = environ.get("JOBS_DEV_DIR")
    if own:
        return Path(own).expanduser().absolute()
    base = environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "kafka-scheduler"


def dev_cluster_dir(nodes: int = 1) -> Path:
    """The data of the cluster that ``scheduler dev`` keeps from run to run: one for each number of nodes."""
    return state_dir() / f"dev-{nodes}"


def dev_cluster_dirs() -> list[Path]:
    """Those of them that exist."""
    return sorted(state_dir().glob("dev-*"))


def throwaway_clusters_dir() -> Path:
    """The parent of clusters whose data goes when they stop."""
    return state_dir() / "throwaway"


def runs_dir() -> Path:
    """The parent of the folders of benches and demos."""
    return state_dir() / "runs"


def archives_dir() -> Path:
    """Class archives, which make Java start faster."""
    return state_dir() / "archives"


def require_space(directory: Path) -> None:
    """Raise LittleDiskError if the disk that holds (or will hold) ``directory`` has less than 1 GiB free."""
    existing = next(parent for parent in (directory, *directory.parents) if parent.exists())
    free = shutil.disk_usage(existing).free
    if free < LEAST_FREE_BYTES:
        raise LittleDiskError(
            f"only {free // 1024**2} MiB are free on the disk of {directory}, and Kafka needs 1024; "
            "free some, or set JOBS_DEV_DIR to a folder on another disk"
        )
