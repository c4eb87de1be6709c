"""``scheduler dev``: everything on this machine, for trying and developing.

``dev MODULE:APP`` is ``dev up MODULE:APP``, and ``dev --demo`` is ``dev demo``: the group rewrites them.
"""

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from scheduler.cli import exits, options
from scheduler.core import bounds

DEFAULT_PORT = 9092


class DevGroup(click.Group):
    """Knows a target by its colon, and ``--demo`` as a command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the name of the command in front that the arguments mean."""
        if "--demo" in args:
            args = ["demo", *(argument for argument in args if argument != "--demo")]
        elif not any(argument in self.commands for argument in args[:1]) and any(
            ":" in argument for argument in args
        ):
            args = ["up", *args]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Say that a name without a colon is no target, and which command it nearly is."""
        from difflib import get_close_matches

        name = args[0]
        if name not in self.commands and not name.startswith("-"):
            module = name.removesuffix(".py").replace("/", ".")
            near = get_close_matches(
                name, [n for n, command in self.commands.items() if not command.hidden], 1
            )
            meant = f". Did you mean '{near[0]}'?" if near else ""
            ctx.fail(f"'{name}' is neither a command nor MODULE:APP, like {module}:app{meant}")
        return super().resolve_command(ctx, args)


@click.group(cls=DevGroup, subcommand_metavar="[MODULE:APP | --demo | COMMAND] [ARGS]...")
def dev() -> None:
    """Everything on this machine.

    \b
    scheduler dev jobs:app  a broker, a dispatcher, and a worker that
                            starts anew when your code changes
    scheduler dev --demo    the main job from end to end, with processes
                            killed on the way
    scheduler dev kafka     the broker alone

    Each has options of its own: scheduler dev jobs:app --help

    Data stays from run to run below $JOBS_DEV_DIR (default ~/.local/state/kafka-scheduler).
    """  # noqa: D301 - click wants the character itself


_port = click.option(
    "--port",
    default=DEFAULT_PORT,
    show_default=True,
    type=click.IntRange(1, 65535),
    help="The broker's port.",
)


@dev.command(hidden=True)
@click.argument("target", metavar="MODULE:APP")
@_port
@click.option(
    "--slots",
    default=4,
    show_default=True,
    type=click.IntRange(1, bounds.SLOTS_MAX),
    help="Jobs that run at the same time.",
)
@options.executor
@options.pool
@options.settings
@click.option(
    "--shards",
    default=8,
    show_default=True,
    type=click.IntRange(1, options.SHARDS_MAX),
    help="Shards, when topics are created.",
)
@click.pass_context
def up(
    ctx: click.Context,
    target: str,
    port: int,
    slots: int,
    executor: str | None,
    pool: str,
    settings_path: Path | None,
    shards: int,
) -> int:
    """A broker, the topics, a dispatcher and a worker for MODULE:APP; the worker starts anew when code changes."""
    from scheduler.cli.app_run import AppRun
    from scheduler.cli.dev_up import run_app
    from scheduler.cli.other_packages import require_unhidden

    require_unhidden(Path.cwd())
    given = ctx.find_root().params
    if given["bootstrap"]:
        os.environ["KAFKA_BOOTSTRAP_SERVERS"] = given["bootstrap"]
    run = AppRun(target, port, shards, slots, pool, executor, settings_path, _global_arguments(given))
    return _told(lambda: run_app(run))


def _global_arguments(given: Mapping[str, Any]) -> tuple[str, ...]:
    """What children must be told again: their environment does not say it."""
    pairs = [argument for pair in given["pairs"] for argument in ("-X", pair)]
    file = ["--command-config", str(given["command_config"])] if given["command_config"] else []
    return (*pairs, *file)


@dev.command(hidden=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end.")
@click.option("--keep", is_flag=True, help="Leave everything running, and say the next commands.")
@click.option("--jobs", default=None, type=click.IntRange(1), help="How many jobs to submit.")
def demo(as_json: bool, keep: bool, jobs: int | None) -> int:
    """The main job from end to end on a real Kafka, with processes killed on the way."""
    from scheduler.bench.demo import run_demo
    from scheduler.cli.other_packages import require_unhidden
    from scheduler.cli.signals import terminated_like_interrupted

    require_unhidden(Path.cwd())
    with terminated_like_interrupted():
        return _told(lambda: run_demo(as_json=as_json, keep=keep, jobs=jobs))


@dev.command()
@_port
@click.option("--nodes", default="1", show_default=True, type=click.Choice(["1", "3"]), help="Brokers.")
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the data stays. [default: below $JOBS_DEV_DIR]",
)
def kafka(port: int, nodes: str, directory: Path | None) -> int:
    """Run a real Kafka in the foreground until Ctrl-C or SIGTERM.

    Prints one line when it is ready: KAFKA_BOOTSTRAP_SERVERS=127.0.0.1:9092
    """
    return _told(lambda: _run_kafka(port, int(nodes), directory))


@dev.command()
def stop() -> int:
    """Stop what 'scheduler dev' runs on this machine. Data stays."""
    from scheduler import devkafka

    stopped = devkafka.stop_left_running()
    click.echo(
        f"stopped {stopped} process{'' if stopped == 1 else 'es'}" if stopped else "nothing was running"
    )
    return exits.OK


@dev.command()
@click.option(
    "--all", "everything", is_flag=True, help="Also what makes Kafka start faster; the next start remakes it."
)
def clean(everything: bool) -> int:
    """Stop the development broker and remove its data."""
    from scheduler import devkafka

    def remove() -> int:
        devkafka.clean(archives=everything)
        click.echo("removed the data of the development broker")
        return exits.OK

    return _told(remove)


def _run_kafka(port: int, nodes: int, directory: Path | None) -> int:
    from scheduler import devkafka
    from scheduler.cli.signals import signals_call, terminated_like_interrupted

    stopped = threading.Event()
    with terminated_like_interrupted():
        cluster = devkafka.start(nodes, port, directory or devkafka.dev_cluster_dir(nodes), say=_say)
    with cluster, signals_call(stopped.set):
        click.echo(f"KAFKA_BOOTSTRAP_SERVERS={cluster.bootstrap}")
        stopped.wait()
        _say("stopping")
    return exits.OK


def _told(action: Callable[[], Any]) -> int:
    """Run ``action``; what keeps a broker from running becomes a message and an exit code."""
    from scheduler import devkafka

    try:
        ended = action()
    except (devkafka.NoJarsError, devkafka.BrokerFailedError, devkafka.NoContainerError) as error:
        raise exits.Unavailable(str(error)) from error
    except devkafka.DevKafkaError as error:
        raise exits.Failed(str(error)) from error
    return ended if isinstance(ended, int) else exits.OK


def _say(text: str) -> None:
    click.echo(text, err=True)
