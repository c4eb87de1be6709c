"""From decisions to records: the changelog and everything else that one transaction carries."""

from scheduler.codec.commands import encode_command
from scheduler.codec.lifecycle import encode_lifecycle
from scheduler.codec.meta import encode_meta
from scheduler.codec.notices import encode_notice
from scheduler.codec.retry import encode_retry
from scheduler.codec.state import encode_state
from scheduler.core import keyspace
from scheduler.core.changes import NoticeOut
from scheduler.core.crash import JobCrashed
from scheduler.core.inputs import Meta
from scheduler.core.outputs import (
    CommandOut,
    DeadLetter,
    Lifecycle,
    MessageOut,
    Output,
    RetryOut,
    SubmitsReadOut,
)
from scheduler.core.retry import TIERS
from scheduler.core.shard import Shard
from scheduler.dispatcher.ports import BY_KEY, Outgoing


class Written:
    """One shard's part of a transaction: its records, and what its store writes once they are committed."""

    __slots__ = ("entries", "meta", "records")

    def __init__(self, shard: Shard, meta: Meta, lifecycle_partitions: int) -> None:
        """Encode everything that the turn decided for `shard`, with the `meta` that closes it."""
        self.meta = meta
        self.entries = changelog_entries(shard)
        self.entries.append((keyspace.META, encode_meta(meta)))
        number = shard.number
        self.records: list[Outgoing] = []
        for output in shard.changes.outputs:
            try:
                self.records.append(encode_output(output, number, lifecycle_partitions))
            except Exception as error:
                raise JobCrashed(number, job_of(output)) from error


def changelog_entries(shard: Shard) -> list[tuple[bytes, bytes | None]]:
    """Return (key, value or None) of the turn's durable changes: job records first, then states."""
    changes = shard.changes
    entries: list[tuple[bytes, bytes | None]] = []
    for job_id, raw in changes.specs.items():
        entries.append((keyspace.spec_key(job_id), raw))
    for job_id, state in changes.states.items():
        try:
            entries.append((keyspace.state_key(job_id), None if state is None else encode_state(state)))
        except Exception as error:
            raise JobCrashed(shard.number, job_id) from error
    return entries


def job_of(output: Output) -> str:
    """Return the job that an output is about, empty if it says of none."""
    if isinstance(output, Lifecycle | MessageOut):
        return output.job_id
    if isinstance(output, RetryOut):
        return output.record.job_id
    return dict(output.headers).get("job_id", "") if isinstance(output, DeadLetter) else ""


def encode_output(output: Output, shard: int, lifecycle_partitions: int) -> Outgoing:
    """Return the record of an output."""
    if isinstance(output, Lifecycle):
        return Outgoing(
            "lifecycle", shard % lifecycle_partitions, output.job_id.encode(), encode_lifecycle(output)
        )
    if isinstance(output, RetryOut):
        record = output.record
        return Outgoing(
            f"retry.{TIERS[output.tier].name}", shard, record.job_id.encode(), encode_retry(record)
        )
    if isinstance(output, DeadLetter):
        return Outgoing("dlq", BY_KEY, output.key, output.value, output.headers)
    if isinstance(output, CommandOut):
        return Outgoing("commands", output.shard, None, encode_command(output.command))
    if isinstance(output, SubmitsReadOut):
        return Outgoing("commands", output.shard, None, encode_command(output.word))
    if isinstance(output, MessageOut):
        headers = (("job_id", output.job_id),)
        return Outgoing(output.topic, BY_KEY, output.key, output.value, headers, foreign=True)
    raise AssertionError(f"no record for {output!r}")


def encode_released(notice: NoticeOut) -> Outgoing:
    """Return the record of a lease or notice."""
    return Outgoing(
        f"leases.{notice.pool}", notice.inbox, notice.notice.boot_id, encode_notice(notice.notice)
    )
