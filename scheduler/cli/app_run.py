"""What ``scheduler dev MODULE:APP`` runs, as the command lines of its parts."""

import os
from dataclasses import dataclass
from pathlib import Path

from scheduler.cli import exits
from scheduler.cli.settings_file import SettingsError, load_settings
from scheduler.core.settings import Settings
from scheduler.devkafka.ports import LOOPBACK
from scheduler.kafka.apply import DEFAULT_POOL, INBOXES
from scheduler.worker.trial import trial

_BOOTSTRAP = "KAFKA_BOOTSTRAP_SERVERS"


@dataclass(frozen=True)
class AppRun:
    """What to run. ``target`` is MODULE:APP, importable from the current directory.

    ``port`` is for a broker that has to be started, ``shards`` for topics that have to be made, and
    ``global_arguments`` stand before the name of every command that is run.
    """

    target: str
    port: int
    shards: int
    slots: int
    pool: str
    executor: str | None
    settings: Path | None
    global_arguments: tuple[str, ...]

    def require_loadable(self) -> None:
        """Raise exits.Failed unless the application and the settings can be loaded: before a broker is started."""
        _settings(self.settings)
        bootstrap = os.environ.get(_BOOTSTRAP) or f"{LOOPBACK}:{self.port}"  # as the worker will see it
        why = trial(self.target, {**os.environ, _BOOTSTRAP: bootstrap})
        if why:
            raise exits.Failed(f"{self.target} can't be loaded: {why}")

    def topics_command(self) -> list[str]:
        """Make the topics, among them the inboxes of each pool that the worker or the settings name."""
        pools = sorted({self.pool, *_settings(self.settings).pools()} - {DEFAULT_POOL})
        leases = ["--leases", ",".join(f"{pool}={INBOXES}" for pool in pools)] if pools else []
        return ["topics", "apply", "--shards", str(self.shards), *leases, "--execute"]

    def dispatcher_command(self) -> list[str]:
        """Run a dispatcher."""
        return ["dispatcher", *(["--settings", str(self.settings)] if self.settings else [])]

    def worker_command(self) -> list[str]:
        """Run a worker."""
        executor = ["--executor", self.executor] if self.executor else []
        return ["worker", self.target, "--slots", str(self.slots), "--pool", self.pool, *executor]


def _settings(path: Path | None) -> Settings:
    try:
        return load_settings(path, os.environ.get("JOBS_PREFIX", "jobs."))
    except SettingsError as error:
        raise exits.Failed(str(error)) from error
