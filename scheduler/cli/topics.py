"""`scheduler topics`: create, check or export the topics."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from scheduler.cli import exits, options

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from scheduler.cli.connection import Connection
    from scheduler.kafka.admin import ObservedCluster
    from scheduler.kafka.apply import Applied, Plan
    from scheduler.kafka.layout import Layout

FORMATS = ("json", "kafka-topics.sh", "strimzi", "terraform")
"""As in `scheduler.kafka.export`, which is imported only when it is needed."""


@click.group()
def topics() -> None:
    """Create, check or export the topics.

    What is not given is taken from the topics that exist already.
    """


def _pools(_ctx: click.Context, _param: click.Parameter, text: str | None) -> dict[str, int] | None:
    """Turn `default=64,video=64` into partitions by pool."""
    if text is None:
        return None
    leases: dict[str, int] = {}
    for part in text.split(","):
        pool, equals, count = part.strip().partition("=")
        if not equals or not count.isdecimal() or pool in leases:
            raise click.BadParameter(f"'{part}' is not POOL=PARTITIONS, for example default=64,video=64")
        leases[pool] = int(count)
    return leases


_shards = click.option(
    "--shards",
    type=click.IntRange(1, options.SHARDS_MAX),
    help="Partitions of each co-owned topic; can't be changed later.",
)
_leases = click.option(
    "--leases",
    metavar="POOL=N,...",
    callback=_pools,
    help="Inboxes of each pool, for example default=64,video=64.",
)
_copies = click.option(
    "--replication-factor",
    "copies",
    type=click.IntRange(1, 32),
    help="Copies of each record. Default: 3, if there are 3 brokers.",
)


@topics.command(short_help="Create the topics that are missing.")
@_shards
@_leases
@_copies
@options.prefix
@click.option("--execute", is_flag=True, help="Do it. Without, only the plan is shown.")
@click.pass_obj
def apply(
    connection: Connection,
    shards: int | None,
    leases: dict[str, int] | None,
    copies: int | None,
    prefix: str,
    execute: bool,
) -> int:
    """Create the topics that are missing, and the first record of each shard.

    May be repeated; a topic that exists is never altered, and a shard that has begun is never touched. New pools
    are added by --leases.
    """
    from scheduler.kafka.apply import apply as execute_plan
    from scheduler.kafka.apply import plan, summary

    with _failures_told():
        layout, cluster = _wanted(connection, prefix, shards, leases, copies)
        planned = plan(layout, cluster)
        _tell_differences(planned)
        if planned.refused:
            raise exits.Failed("the topics above are not as they must be; nothing was done")
        if not execute:
            click.echo(f"{summary(layout)}{_existing(planned)}  Add --execute.")
            return exits.OK
        _tell_applied(execute_plan(connection.properties, layout), layout)
    return exits.OK


@topics.command(short_help="Compare the topics with what they must be.")
@_shards
@_leases
@_copies
@options.prefix
@click.pass_obj
def verify(
    connection: Connection, shards: int | None, leases: dict[str, int] | None, copies: int | None, prefix: str
) -> int:
    """Compare the topics with what they must be. Needs DESCRIBE only; exit 1 and a diff if they differ."""
    from scheduler.kafka.admin import Admin
    from scheduler.kafka.verify import compare, layout_of

    with _failures_told():
        if shards is None:
            layout_of(
                Admin(connection.properties).cluster(prefix), prefix=prefix
            )  # none at all: exit 1, not usage
        layout, cluster = _wanted(connection, prefix, shards, leases, copies)
        differences = compare(layout, cluster)
    for each in differences:
        click.echo(str(each))
    if any(each.fatal for each in differences):
        return exits.FAILED
    click.echo(f"{_topics(len(layout.topics()))} with the prefix '{prefix}' are as they must be")
    return exits.OK


@topics.command(short_help="Print the topics, or users and their rights, in the words of another tool.")
@click.option("--as", "form", type=click.Choice(FORMATS), default="json", show_default=True)
@click.option(
    "--users", is_flag=True, help="Print a user for each role and pool, with the least rights it needs."
)
@_shards
@_leases
@_copies
@options.prefix
@options.settings
@click.pass_obj
def export(
    connection: Connection,
    form: str,
    users: bool,
    shards: int | None,
    leases: dict[str, int] | None,
    copies: int | None,
    prefix: str,
    settings_path: Path | None,
) -> int:
    """Print the topics in the words of another tool, or with --users who may do what with them.

    Asks the brokers only for what is not given; with --shards, --leases and --replication-factor it needs none. The
    topics that --settings lets runs publish to are among the dispatchers' rights.
    """
    with _failures_told():
        layout = (
            _given(shards, leases, copies, prefix) or _wanted(connection, prefix, shards, leases, copies)[0]
        )
        click.echo(_users_in(form, layout, settings_path) if users else _topics_in(form, layout))
    return exits.OK


def _topics_in(form: str, layout: Layout) -> str:
    from scheduler.kafka.export import FORMATS as WRITERS

    return WRITERS[form](layout)


def _users_in(form: str, layout: Layout, settings_path: Path | None) -> str:
    from scheduler.cli.settings_file import SettingsError, load_settings
    from scheduler.kafka.export_users import FORMATS as WRITERS
    from scheduler.kafka.rights import users

    try:
        emits = load_settings(settings_path, layout.prefix).emits()
    except SettingsError as error:
        raise exits.Failed(str(error)) from error
    return WRITERS[form](users(layout, emits))


def _given(
    shards: int | None, leases: dict[str, int] | None, copies: int | None, prefix: str
) -> Layout | None:
    from scheduler.kafka.layout import Layout

    if shards is None or leases is None or copies is None:
        return None
    return Layout(shards, leases, copies, prefix)


def _wanted(
    connection: Connection,
    prefix: str,
    shards: int | None,
    leases: dict[str, int] | None,
    copies: int | None,
) -> tuple[Layout, ObservedCluster]:
    """Return the layout asked for, completed from the cluster, and the cluster."""
    from scheduler.kafka.admin import Admin
    from scheduler.kafka.apply import wanted_layout

    cluster = Admin(connection.properties).cluster(prefix)
    return wanted_layout(
        cluster, prefix=prefix, shards=shards, leases=leases, replication_factor=copies
    ), cluster


@contextmanager
def _failures_told() -> Iterator[None]:
    """Turn what the Kafka side raises into exit codes."""
    from scheduler.dispatcher.ports import LogError
    from scheduler.kafka.verify import LayoutError

    try:
        yield
    except LayoutError as error:
        raise exits.Failed(str(error)) from error
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    except LogError as error:
        raise exits.Unavailable(str(error)) from error


def _tell_differences(planned: Plan) -> None:
    for each in planned.differences:
        click.echo(str(each))


def _existing(planned: Plan) -> str:
    """Say how much of it is there, if anything is."""
    everything = len(planned.layout.topics())
    missing = [topic.name for topic in planned.missing]
    if len(missing) == everything:
        return ""
    if not missing:
        return "  All exist; shards without a first record get one."
    return f"  {everything - len(missing)} exist, to be created: {', '.join(missing)}."


def _tell_applied(done: Applied, layout: Layout) -> None:
    if not done.created and not done.first_metas:
        click.echo("nothing to do: all topics exist and every shard has begun")
        return
    click.echo(
        f"{_topics(len(done.created))} created with the prefix '{layout.prefix}', "
        f"{len(done.first_metas)} of {layout.shards} shards begun"
    )


def _topics(count: int) -> str:
    return "1 topic" if count == 1 else f"{count} topics"
