"""From decisions to records: the changelog and everything else that one transaction carries."""

from scheduler.codec.commands import encode_command
from scheduler.codec.lifecycle import encode_lifecycle
from scheduler.codec.meta import encode_meta
from scheduler.codec.notices import encode_notice
from scheduler.codec.retry import encode_retry
from scheduler.codec.state import encode_state
from scheduler.core import keyspace
from scheduler.core.changes import NoticeOut
from scheduler.core.inputs import Meta
from scheduler.core.outputs import CommandOut, DeadLetter, Lifecycle, MessageOut, Output, RetryOut
from scheduler.core.retry import TIERS
from scheduler.core.shard import Shard
from scheduler.dispatcher.ports import Outgoing

BY_KEY = -1


class Written:
    """One shard's part of a transaction: its records, and what its store writes once they are committed."""

    __slots__ = ("meta", "meta_raw", "records", "states")

    def __init__(self, shard: Shard, meta: Meta, lifecycle_partitions: int) -> None:
        """Encode everything that the turn decided for `shard`, with the `meta` that closes it."""
        self.meta = meta
        self.meta_raw = encode_meta(meta)
        self.states: dict[str, tuple[bytes, bytes]] = {}
        self.records: list[Outgoing] = []
        self._changelog(shard)
        self._outputs(shard, lifecycle_partitions)

    def _changelog(self, shard: Shard) -> None:
        number = shard.number
        append = self.records.append
        for job_id, raw in shard.changes.specs.items():
            append(Outgoing("changelog", number, keyspace.spec_key(job_id), raw))
        for job_id, state in shard.changes.states.items():
            key, encoded = keyspace.state_key(job_id), None
            if state is not None:
                encoded = encode_state(state)
                self.states[job_id] = (key, encoded)
            append(Outgoing("changelog", number, key, encoded))
        append(Outgoing("changelog", number, keyspace.META, self.meta_raw))

    def _outputs(self, shard: Shard, lifecycle_partitions: int) -> None:
        for output in shard.changes.outputs:
            self.records.append(encode_output(output, shard.number, lifecycle_partitions))

    def batch(self, shard: Shard) -> tuple[list[tuple[bytes, bytes]], list[bytes]]:
        """Return the puts and deletes for the shard's store."""
        puts, deletes = shard.batch(self.states)
        puts.append((keyspace.META, self.meta_raw))
        return puts, deletes


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
    if isinstance(output, MessageOut):
        headers = (("job_id", output.job_id),)
        return Outgoing(output.topic, BY_KEY, output.key, output.value, headers, foreign=True)
    raise AssertionError(f"no record for {output!r}")


def encode_released(notice: NoticeOut) -> Outgoing:
    """Return the record of a lease or notice."""
    return Outgoing(
        f"leases.{notice.pool}", notice.inbox, notice.notice.boot_id, encode_notice(notice.notice)
    )
