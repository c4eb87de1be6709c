"""``scheduler``: the global options, the table of commands, and how every command ends.

Nothing heavy is imported here: ``scheduler --help`` is to take less than 200 ms.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import click

from scheduler.cli import exits
from scheduler.cli.connection import connection_of
from scheduler.cli.lazy_group import LazyCommand, LazyGroup

SECTIONS = {
    "Try it": {
        "dev": LazyCommand(
            "scheduler.cli.dev:dev", "Everything on this machine: a broker, a dispatcher, your worker."
        ),
    },
    "Run": {
        "dispatcher": LazyCommand(
            "scheduler.cli.dispatcher:dispatcher", "Hand out jobs: run one dispatcher."
        ),
        "worker": LazyCommand("scheduler.cli.worker:worker", "Run the jobs of MODULE:APP."),
    },
    "Install": {
        "topics": LazyCommand("scheduler.cli.topics:topics", "Create, check or export the topics."),
        "schema": LazyCommand("scheduler.cli.schema:schema", "List the record schemas, or check a record."),
        "bench": LazyCommand("scheduler.cli.bench:bench", "Measure throughput and latency on a real broker."),
    },
}


@click.group(cls=LazyGroup, sections=SECTIONS, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("-b", "--bootstrap", metavar="HOSTS", help="Kafka brokers, as host:port,host:port.")
@click.option(
    "-X", "pairs", metavar="KEY=VALUE", multiple=True, help="A librdkafka property. May be repeated."
)
@click.option(
    "--command-config",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file of librdkafka properties, one KEY=VALUE a line.",
)
@click.version_option(package_name="kafka-scheduler", message="%(version)s")
@click.pass_context
def scheduler(
    ctx: click.Context, bootstrap: str | None, pairs: tuple[str, ...], command_config: Path | None
) -> None:
    """A job scheduler that needs nothing but Kafka.

    The connection comes from KAFKA_* variables (KAFKA_BOOTSTRAP_SERVERS, KAFKA_SASL_MECHANISM, ...), then the file,
    then -X, then -b; without any of them it is 127.0.0.1:9092.

    Exit codes: 0 done, 1 failed or something is wrong, 2 usage, 3 not found, 4 partly done, 5 unavailable or timed
    out, 130 interrupted.
    """
    ctx.obj = connection_of(os.environ, bootstrap, pairs, command_config)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The console script. A command's return value, if it is an int, is the exit code."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; errors are printed on standard error."""
    from scheduler.cli.other_packages import require_whole

    try:
        require_whole()
        ended = scheduler.main(arguments, prog_name="scheduler", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return exits.INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else the flush at exit fails again
        return exits.FAILED
    return ended if isinstance(ended, int) else exits.OK
