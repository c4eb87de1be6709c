"""`scheduler bench NAME`: figures from a real broker; one is started where none is given."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scheduler.cli import exits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from scheduler.cli.connection import Connection


@click.group()
def bench() -> None:
    """Measure throughput and latency on a real broker.

    Uses the broker of -b or KAFKA_BOOTSTRAP_SERVERS, otherwise starts one; topics get a prefix of their own.
    """


_as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


@bench.command(short_help="Drain a backlog of jobs.")
@click.option("--jobs", default=50_000, show_default=True, type=click.IntRange(100))
@click.option(
    "--slots",
    default=1_024,
    show_default=True,
    type=click.IntRange(1, 1_024),
    help="Slots of the worker stand-in.",
)
@_as_json
@click.pass_context
def drain(ctx: click.Context, jobs: int, slots: int, as_json: bool) -> None:
    """Drain a backlog: jobs_per_s, dispatcher_us_per_job, records and bytes per job."""
    from scheduler.bench.drain import drain as run

    _report(ctx, lambda properties: run(properties, jobs, slots), as_json=as_json)


@bench.command(short_help="Time from submit to start, at a steady rate.")
@click.option("--rate", default=100, show_default=True, type=click.IntRange(1, 5_000), help="Jobs a second.")
@click.option("--seconds", default=20, show_default=True, type=click.IntRange(1, 3_600))
@_as_json
@click.pass_context
def latency(ctx: click.Context, rate: int, seconds: int, as_json: bool) -> None:
    """Time from submit to start at a steady rate: p50_ms, p99_ms."""
    from scheduler.bench.latency import latency as run

    _report(ctx, lambda properties: run(properties, rate, seconds), as_json=as_json)


@bench.command(short_help="Submit from one process with submit_many.")
@click.option("--jobs", default=200_000, show_default=True, type=click.IntRange(100))
@_as_json
@click.pass_context
def submit(ctx: click.Context, jobs: int, as_json: bool) -> None:
    """Submit with submit_many from one process: jobs_per_s."""
    from scheduler.bench.submit import submit as run

    _report(ctx, lambda properties: run(properties, jobs), as_json=as_json)


@bench.command(short_help="Run many scheduled jobs.")
@click.option("--jobs", default=200_000, show_default=True, type=click.IntRange(100))
@_as_json
@click.pass_context
def scheduled(ctx: click.Context, jobs: int, as_json: bool) -> None:
    """Run many scheduled jobs: dispatcher_rss_mb, early, lateness_p99_ms."""
    from scheduler.bench.scheduled import scheduled as run

    _report(ctx, lambda properties: run(properties, jobs), as_json=as_json)


@bench.command(short_help="Restore shards from their changelogs.")
@click.option("--records", default=1_000_000, show_default=True, type=click.IntRange(1_000))
@_as_json
@click.pass_context
def restore(ctx: click.Context, records: int, as_json: bool) -> None:
    """Restore shards from an empty disk, an old one and the own one: seconds and records a second."""
    from scheduler.bench.restore import restore as run

    _report(ctx, lambda properties: run(properties, records), as_json=as_json)


@bench.command(short_help="Take many large shards over.")
@click.option("--shards", default=64, show_default=True, type=click.IntRange(2, 256))
@click.option("--jobs", default=50_000, show_default=True, type=click.IntRange(1), help="In each shard.")
@_as_json
@click.pass_context
def takeover(ctx: click.Context, shards: int, jobs: int, as_json: bool) -> None:
    """Take many large shards over, lose half, take them back: the longest turn, which the group must not wait for."""
    from scheduler.bench.takeover import takeover as run

    _report(ctx, lambda properties: run(properties, shards, jobs), as_json=as_json)


@bench.command(short_help="Kill and stop dispatchers under load.")
@click.option("--runs", default=10, show_default=True, type=click.IntRange(1, 100))
@_as_json
@click.pass_context
def failover(ctx: click.Context, runs: int, as_json: bool) -> None:
    """Kill and stop one of two dispatchers under load: seconds until all shards lease again."""
    from scheduler.bench.failover import failover as run

    _report(ctx, lambda properties: run(properties, runs), as_json=as_json)


@bench.command(short_help="Offers and beats of many workers.")
@click.option("--workers", default=2_000, show_default=True, type=click.IntRange(1, 20_000))
@click.option("--slots", default=4, show_default=True, type=click.IntRange(2, 64), help="Half of them held.")
@click.option("--seconds", default=20, show_default=True, type=click.IntRange(5, 3_600))
@_as_json
@click.pass_context
def beats(ctx: click.Context, workers: int, slots: int, seconds: int, as_json: bool) -> None:
    """Let many workers offer and beat: core_percent of the dispatcher."""
    from scheduler.bench.beats import beats as run

    _report(ctx, lambda properties: run(properties, workers, slots, seconds), as_json=as_json)


def _report(
    ctx: click.Context, run: Callable[[Mapping[str, str]], dict[str, float]], *, as_json: bool
) -> None:
    with _broker(ctx) as properties:
        figures = run(properties)
    if as_json:
        click.echo(json.dumps(figures))
        return
    for name, value in figures.items():
        click.echo(f"{name:24} {value:,}")


@contextmanager
def _broker(ctx: click.Context) -> Iterator[Mapping[str, str]]:
    from scheduler.cli.other_packages import require_unhidden

    require_unhidden(Path.cwd())
    connection: Connection = ctx.obj
    if ctx.find_root().params["bootstrap"] or os.environ.get("KAFKA_BOOTSTRAP_SERVERS"):
        yield connection.properties
        return
    from scheduler import devkafka

    try:
        cluster = devkafka.start(say=lambda text: click.echo(text, err=True))
    except devkafka.DevKafkaError as error:
        raise exits.Failed(str(error)) from error
    with cluster:
        yield {**connection.properties, "bootstrap.servers": cluster.bootstrap}
