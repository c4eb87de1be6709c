"""`scheduler worker MODULE:APP`: run one worker. The composition root of its parts."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scheduler.cli import exits, options
from scheduler.core import bounds

if TYPE_CHECKING:
    from scheduler.cli.connection import Connection
    from scheduler.worker.parent import ParentConfig

BOOT_ID_BYTES = 16
NAME_MAX_CHARS = 128


@click.command()
@click.argument("target", metavar="MODULE:APP")
@click.option(
    "--slots",
    type=click.IntRange(1, bounds.SLOTS_MAX),
    default=8,
    show_default=True,
    help="Jobs at a time.",
)
@click.option(
    "--reserve",
    metavar="interactive=N",
    help="Keep N of the slots for interactive jobs; N% for a share, of one-slot workers too.",
)
@options.pool
@click.option(
    "--drain-timeout",
    metavar="DURATION",
    default="25s",
    show_default=True,
    help="How long SIGTERM lets jobs finish.",
)
@click.option(
    "--max-jobs-per-child", type=click.IntRange(1), help="Replace a child process after so many jobs."
)
@options.executor
@click.option("--name", help="Name of this worker, for people. Default: the host name.")
@options.prefix
@click.pass_obj
def worker(
    connection: Connection,
    target: str,
    slots: int,
    reserve: str | None,
    pool: str,
    drain_timeout: str,
    max_jobs_per_child: int | None,
    executor: str | None,
    name: str | None,
    prefix: str,
) -> int:
    """Run the jobs of MODULE:APP, for example: scheduler worker jobs:app

    SIGTERM and Ctrl-C take no new jobs and let those that run finish for --drain-timeout; what is left then is asked
    to leave, killed, and handed back. A second signal hurries that, a third one ends it at once.
    """
    from scheduler.cli.other_packages import require_unhidden
    from scheduler.worker.parent import ParentConfig

    if ":" not in target:
        raise click.BadParameter(f"'{target}' is not MODULE:APP, like jobs:app", param_hint="MODULE:APP")
    require_unhidden(Path.cwd())
    boot_id = os.urandom(BOOT_ID_BYTES)
    config = ParentConfig(
        target=target,
        worker=(name or socket.gethostname())[:NAME_MAX_CHARS],
        boot_id=boot_id,
        pool=pool,
        slots=slots,
        reserved=_reserved(reserve, slots, boot_id),
        executor=executor or "auto",
        jobs_per_child=max_jobs_per_child or 0,
        drain_ms=_duration_ms(drain_timeout),
        release=os.environ.get("JOBS_RELEASE", "")[:NAME_MAX_CHARS],
    )
    return run(connection, config, prefix)


def run(connection: Connection, config: ParentConfig, prefix: str) -> int:
    """Put a worker together and run it until it is told to stop; return its exit code."""
    from scheduler.cli.failpoints import FailingLink, failpoint_from
    from scheduler.cli.silence import silence_told
    from scheduler.codec.job import decode_job
    from scheduler.kafka.inbox import JOIN_S, KafkaLink
    from scheduler.observe.logs import configure_logs
    from scheduler.worker.clock import SystemClock
    from scheduler.worker.guarding import GuardDiedError
    from scheduler.worker.parent import Parent, WorkerError
    from scheduler.worker.ports import JoinError, Link

    configure_logs()
    link: Link = KafkaLink(connection.properties, prefix, config.worker)
    if "JOBS_FAILPOINT" in os.environ:
        link = FailingLink(link, failpoint_from(os.environ))
    try:
        with silence_told(connection, JOIN_S) as answered:

            def announce(text: str) -> None:
                answered()
                click.echo(text)

            return Parent(config, link, SystemClock(), decode_job, announce).run()
    except JoinError as error:
        connection.require_answer(1.0)
        raise exits.Unavailable(str(error)) from error
    except (WorkerError, GuardDiedError) as error:
        raise exits.Failed(str(error)) from error


def _reserved(reserve: str | None, slots: int, boot_id: bytes) -> int:
    from scheduler.worker.reserve import reserved_slots

    if reserve is None:
        return 0
    try:
        return reserved_slots(reserve, slots, boot_id)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--reserve") from error


def _duration_ms(text: str) -> int:
    from scheduler.client.durations import duration_ms

    try:
        return duration_ms(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--drain-timeout") from error
