"""Options that several commands have."""

from pathlib import Path

import click

EXECUTORS = ("process", "asyncio", "thread")
SHARDS_MAX = 4_096


def _pool(_ctx: click.Context, _param: click.Parameter, name: str) -> str:
    from scheduler.kafka.layout import Layout

    try:
        Layout(1, {name: 1})
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    return name


prefix = click.option(
    "--prefix", envvar="JOBS_PREFIX", default="jobs.", show_default=True, help="Prefix of all topics."
)
settings = click.option(
    "--settings",
    "settings_path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A settings.yaml with queue settings.",
)
pool = click.option(
    "--pool", default="default", show_default=True, callback=_pool, help="The pool whose queues are served."
)
executor = click.option(
    "--executor",
    type=click.Choice(EXECUTORS),
    help="How jobs run. Default: asyncio if all jobs are async, else process.",
)
