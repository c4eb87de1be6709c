"""`scheduler schema`: the record schemas, and a checker for those who publish without our client."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scheduler.cli import exits, options

if TYPE_CHECKING:
    from scheduler.cli.connection import Connection
    from scheduler.codec.inspection import Finding
    from scheduler.core.settings import Settings
    from scheduler.kafka.tail import Tailed

_SHOWN = 20
"""At most so many faulty records are listed one by one."""


@click.group()
def schema() -> None:
    """The record schemas."""


@schema.command("list", short_help="Names, fingerprints, and where each is accepted.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_schemas(as_json: bool) -> int:
    """Names, fingerprints as they stand in front of a record, and the topics where each is accepted."""
    from scheduler.codec import catalogue

    rows = [
        {"name": entry.codec.name, "fingerprint": entry.codec.header[2:].hex(), "topics": list(entry.topics)}
        for entry in catalogue.entries()
    ]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return exits.OK
    for row in rows:
        click.echo(f"{row['name']:<13}  c301 {row['fingerprint']}  {', '.join(row['topics'])}")
    return exits.OK


@schema.command(short_help="Check a record in a file, or the last ones of a topic.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=False)
@click.option("--topic", help="Look at the last records of a submit topic instead; its full name.")
@click.option("--last", type=click.IntRange(1, 100_000), default=100, show_default=True, help="How many.")
@click.option("--tenant", help="Only this tenant's, and those that can't be read.")
@options.settings
@click.pass_obj
def check(
    connection: Connection,
    file: Path | None,
    topic: str | None,
    last: int,
    tenant: str | None,
    settings_path: Path | None,
) -> int:
    """Check a job record: FILE holds the value of one, as it would be published.

    Prints each fault on its line, such as '/timeout_ms 86400000 above the limit 3600000', and exits with 1.
    """
    if (file is None) == (topic is None):
        raise click.UsageError("give either a FILE or --topic")
    settings = _settings(settings_path)
    if file is not None:
        return _check_file(file, settings)
    assert topic is not None
    return _check_topic(connection, topic, last, tenant, settings)


def _settings(path: Path | None) -> Settings:
    from scheduler.cli.settings_file import SettingsError, load_settings

    try:
        return load_settings(path, os.environ.get("JOBS_PREFIX", "jobs."))
    except SettingsError as error:
        raise exits.Failed(str(error)) from error


def _check_file(file: Path, settings: Settings) -> int:
    from scheduler.codec.errors import Refused
    from scheduler.codec.job import decode_job
    from scheduler.core.bounds import SPEC_MAX_BYTES
    from scheduler.core.validation import problems

    with file.open("rb") as opened:
        value = opened.read(SPEC_MAX_BYTES + 1)
    try:
        spec = decode_job(value)
    except Refused as refused:
        click.echo(f"{refused.detail} ({refused.reason})")
        return exits.FAILED
    fingerprint = f"fingerprint {value[2:10].hex()} is JobV1 (accepted)"
    faults = problems(spec, settings.queue(spec.queue))
    for fault in faults:
        click.echo(f"{fault}; {fingerprint}")
    if faults:
        return exits.FAILED
    click.echo(f"good: job {spec.job_id or 'without id'} of tenant {spec.tenant}; {fingerprint}")
    return exits.OK


def _check_topic(
    connection: Connection, topic: str, last: int, tenant: str | None, settings: Settings
) -> int:
    from scheduler.codec.inspection import Place, inspect_record
    from scheduler.dispatcher.ports import LogError
    from scheduler.kafka.tail import last_records

    connection.require_answer()
    try:
        tail = last_records(connection.properties, topic, last)
    except LookupError as error:
        raise exits.NotFound(str(error.args[0])) from error
    except LogError as error:
        raise exits.Unavailable(str(error)) from error
    looked_at = [
        (
            record,
            inspect_record(
                record.key,
                record.value,
                Place(topic, record.partition, record.offset, tail.partitions),
                settings,
            ),
        )
        for record in tail.records
    ]
    if tenant is not None:
        looked_at = [(record, finding) for record, finding in looked_at if finding.tenant in ("", tenant)]
    return _report(topic, looked_at)


def _report(topic: str, looked_at: list[tuple[Tailed, Finding]]) -> int:
    from scheduler.codec.inspection import Outcome

    counts = Counter(finding.outcome for _, finding in looked_at)
    parts = [f"{counts[Outcome.GOOD]} good"]
    for outcome, words in ((Outcome.WRONG_PARTITION, "wrong partition"), (Outcome.REFUSED, "refused")):
        if counts[outcome]:
            parts.append(f"{counts[outcome]} {words}")
    click.echo(f"{len(looked_at)} read: {', '.join(parts)}")
    faulty = [(record, finding) for record, finding in looked_at if finding.outcome is not Outcome.GOOD]
    for record, finding in faulty[-_SHOWN:]:
        words = "refused" if finding.outcome is Outcome.REFUSED else "wrong partition"
        click.echo(f"  {topic}/{record.partition}@{record.offset}  {words}: {finding.detail}")
    if len(faulty) > _SHOWN:
        click.echo(f"  and {len(faulty) - _SHOWN} older ones")
    return exits.FAILED if faulty else exits.OK
