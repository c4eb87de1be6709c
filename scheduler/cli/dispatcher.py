"""`scheduler dispatcher`: run one dispatcher. The composition root of its parts."""

from __future__ import annotations

import fcntl
import os
import secrets
import socket
import threading
from contextlib import contextmanager
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scheduler.cli import exits, options

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from scheduler.cli.connection import Connection
    from scheduler.codec.confluent import Confluent
    from scheduler.dispatcher.config import Config, Ground
    from scheduler.dispatcher.engine import Engine
    from scheduler.dispatcher.ports import Follower, Roster
    from scheduler.kafka.watchdog import Told


_OWNER = "owner"  # the file in a state directory that its process has locked
_COLLECT_AFTER = 100_000  # allocations; the default of 700 costs a tenth of the dispatcher's time


@click.command()
@click.option("--name", help="Name of this dispatcher, for people. Default: the host name.")
@click.option(
    "--state-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the local state lives; a cache that may be lost. Default: a directory of this user.",
)
@options.settings
@options.prefix
@click.option(
    "--standby-replicas",
    envvar="JOBS_STANDBY_REPLICAS",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="So many other dispatchers keep a warm copy of each shard, so that it is taken over sooner. Alike for all.",
)
@click.option(
    "--accept-loss",
    "losses",
    metavar="TOPIC/PARTITION@OFFSET",
    multiple=True,
    help="Go on at OFFSET although records are gone. Given as the error says; may be repeated.",
)
@click.option("--metrics-port", type=click.IntRange(0, 65_535), help="Serve Prometheus metrics on 127.0.0.1.")
@click.pass_obj
def dispatcher(
    connection: Connection,
    name: str | None,
    state_dir: Path | None,
    settings_path: Path | None,
    prefix: str,
    standby_replicas: int,
    losses: tuple[str, ...],
    metrics_port: int | None,
) -> int:
    """Hand out jobs: lease them to workers, retry, expire, dead-letter.

    Any number may run; they share the shards out among themselves. SIGTERM and Ctrl-C stop it cleanly.
    """
    from scheduler.cli.signals import signals_call
    from scheduler.observe.logs import configure_logs

    configure_logs()
    stopping = threading.Event()
    name = name or socket.gethostname()
    with signals_call(stopping.set):
        config = configure(connection, settings_path, prefix, standby_replicas, losses)
        own_dir = given_state_dir(state_dir) if state_dir else default_state_dir(name, config.ground)
        _run(connection, config, name, own_dir, metrics_port, stopping)
    return exits.OK


def _run(
    connection: Connection,
    config: Config,
    name: str,
    state_dir: Path,
    metrics_port: int | None,
    stopping: threading.Event,
) -> None:
    from prometheus_client import REGISTRY

    from scheduler.cli.life import told
    from scheduler.observe.watchdogs import WatchdogMetrics

    metrics = WatchdogMetrics(REGISTRY)
    with told(state_dir, metrics.last_exit) as got_on, _failures_told():
        engine = build(connection, config, name, state_dir, metrics_port, metrics)
        click.echo(f"dispatcher {name} ready: {config.ground.shards} shards in the cluster")
        _calm_collector()

        def is_over() -> bool:
            got_on()
            return stopping.is_set()

        engine.run(is_over)


@contextmanager
def _failures_told() -> Iterator[None]:
    """Turn what ends a dispatcher into the way a command ends."""
    from scheduler.dispatcher.ports import LogError, StoreUnusable
    from scheduler.dispatcher.restoring import NotPrepared

    try:
        yield
    except LogError as error:
        raise exits.Unavailable(str(error)) from error
    except (StoreUnusable, NotPrepared) as error:
        raise exits.Failed(str(error)) from error


def configure(
    connection: Connection,
    settings_path: Path | None,
    prefix: str,
    standby_replicas: int = 0,
    losses: tuple[str, ...] = (),
) -> Config:
    """Check the topics and settings; raise `exits.Failed` with a diff or the place of the error."""
    from scheduler.cli.accepted_losses import accepted_losses
    from scheduler.cli.settings_file import SettingsError, load_settings, unkept_settings
    from scheduler.dispatcher.config import Config, Ground
    from scheduler.dispatcher.ports import LogError
    from scheduler.kafka.admin import Admin
    from scheduler.kafka.verify import LayoutError, layout_of, require

    try:
        settings = load_settings(settings_path, prefix)
        for place in unkept_settings(settings_path):
            click.echo(f"WARN  {settings_path}: {place} is not kept by this version", err=True)
        admin = Admin(connection.properties)
        cluster = admin.cluster(prefix)
        layout = layout_of(cluster, prefix=prefix)
        for warning in require(layout, cluster):
            click.echo(str(warning), err=True)
    except (LayoutError, SettingsError) as error:
        raise exits.Failed(str(error)) from error
    except LogError as error:
        raise exits.Unavailable(str(error)) from error
    missing = sorted(settings.pools() - set(layout.leases))
    if missing:
        raise exits.Failed(f"settings send queues to pools without a lease topic: {', '.join(missing)}")
    unknown = admin.missing(settings.emits())
    if unknown:
        raise exits.Failed(f"settings let queues emit to topics that do not exist: {', '.join(unknown)}")
    changelog = cluster.topics["changelog"]
    ground = Ground(
        cluster.cluster_id,
        prefix,
        layout.shards,
        {topic: observed.topic_id for topic, observed in cluster.topics.items()},
        cluster.topics["lifecycle"].partitions,
        int(changelog.configs["delete.retention.ms"]),
    )
    accepted = accepted_losses(losses, layout.shards)
    return Config(ground, settings, accepted_losses=accepted, standby_replicas=standby_replicas)


def build(
    connection: Connection,
    config: Config,
    name: str,
    state_dir: Path,
    metrics_port: int | None,
    told: Told,
) -> Engine:
    """Put a dispatcher together; `told` hears what its watchdog finds."""
    from prometheus_client import REGISTRY, start_http_server

    from scheduler.cli.failpoints import failpoint_from
    from scheduler.dispatcher.engine import Engine, World
    from scheduler.dispatcher.real import MachineChance, MachineClock
    from scheduler.kafka.changelog import KafkaChangelog
    from scheduler.kafka.log import KafkaLog, LogSettings
    from scheduler.observe.signals import PrometheusSignals
    from scheduler.storage.rocks import RocksStores

    if metrics_port is not None:
        start_http_server(metrics_port, addr="127.0.0.1")
    prefix = config.ground.prefix
    log = KafkaLog(
        LogSettings(connection.properties, name, secrets.token_hex(4), prefix, shards=config.ground.shards),
        told,
    )
    world = World(
        log,
        KafkaChangelog(connection.properties, prefix=prefix),
        RocksStores(state_dir, on_wiped=_say_wiped),
        MachineClock(),
        MachineChance(),
        PrometheusSignals(REGISTRY),
        failpoint_from(os.environ),
        registry_framing(prefix, os.environ),
        *_for_standbys(connection, config),
    )
    return Engine(config, world)


def _for_standbys(connection: Connection, config: Config) -> tuple[Follower, Roster] | tuple[()]:
    """Return what keeping copies of others' shards takes: clients of its own, which nobody else need have."""
    from scheduler.kafka.following import KafkaFollower
    from scheduler.kafka.roster import KafkaRoster

    if not config.standby_replicas:
        return ()
    prefix = config.ground.prefix
    return KafkaFollower(connection.properties, prefix=prefix), KafkaRoster(
        connection.properties, prefix=prefix
    )


def registry_framing(prefix: str, environ: Mapping[str, str]) -> Confluent | None:
    """Return what reads job records framed for the schema registry of `JOBS_SCHEMA_REGISTRY_URL`, None without one.

    `JOBS_SCHEMA_REGISTRY_USER_INFO` is `user:password`, `JOBS_SCHEMA_REGISTRY_CA` a PEM file. Only schemas under
    the subjects `<submit topic>-value` are accepted.
    """
    from scheduler.codec.confluent import Confluent
    from scheduler.core.inputs import SUBMITS, TOPIC_OF
    from scheduler.kafka.registry import HttpRegistry, RegistrySettings

    url = environ.get("JOBS_SCHEMA_REGISTRY_URL")
    if not url:
        return None
    user_info = environ.get("JOBS_SCHEMA_REGISTRY_USER_INFO", "")
    try:
        settings = RegistrySettings(url, user_info, environ.get("JOBS_SCHEMA_REGISTRY_CA", ""))
    except ValueError as error:
        raise exits.Failed(f"JOBS_SCHEMA_REGISTRY_URL: {error}") from error
    subjects = frozenset(f"{prefix}{TOPIC_OF[source]}-value" for source in SUBMITS)
    return Confluent(HttpRegistry(settings), subjects)


def _calm_collector() -> None:
    """Let the garbage collector look less often: what a turn makes goes by reference count alone."""
    import gc

    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER, 20, 20)


def _say_wiped(path: Path, why: str) -> None:
    click.echo(f"local state at {path} was unusable and is built anew from the changelog: {why}", err=True)


def default_state_dir(name: str, ground: Ground) -> Path:
    """Take a directory of this user for the local state of the dispatcher `name` on these topics of this cluster.

    Dispatchers of one name on one machine, which is what the host's name makes them, get one each.
    """
    base = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    wanted = base / "kafka-scheduler" / "dispatcher" / f"{ground.cluster_id}-{ground.prefix}{name}"
    numbered = (wanted.with_name(f"{wanted.name}.{number}") for number in count(2))
    return next(path for path in chain((wanted,), numbered) if _taken(path))


def given_state_dir(path: Path) -> Path:
    """Take the directory that somebody named; raise `exits.Failed` if another dispatcher has it."""
    if not _taken(path):
        raise exits.Failed(f"another dispatcher uses {path}: give each a --state-dir of its own")
    return path


def _taken(path: Path) -> bool:
    """Take a state directory for the life of this process; return False if another process has it.

    Two that shared one would meet at a hand-over: the shard's new owner opens the store that the last one still
    holds, and ends over its lock. The kernel frees ours when the process ends, however it does.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path / _OWNER, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise exits.Failed(f"the local state can't be kept at {path}: {error}; see --state-dir") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return False
    return True
