"""What a shard decides to write beside its own state, as values; the dispatcher encodes and sends them."""

from enum import StrEnum

import msgspec


class Refusal(StrEnum):
    """Why a record was quarantined. A closed list: the same words are metric labels and DLQ reasons."""

    EMPTY = "empty"
    FRAMING = "framing"
    SCHEMA_UNKNOWN = "schema_unknown"
    SCHEMA_NOT_ALLOWED = "schema_not_allowed"
    UNDECODABLE = "undecodable"
    TRAILING_BYTES = "trailing_bytes"
    TOO_LARGE = "too_large"
    OUT_OF_BOUNDS = "out_of_bounds"
    UNSUPPORTED = "unsupported"
    CRASHED_DISPATCHER = "crashed_dispatcher"
    STATE_MISSING = "state_missing"


class DeathReason(StrEnum):
    """Why a job was dead-lettered. A closed list."""

    ATTEMPTS_EXHAUSTED = "attempts_exhausted"
    FAILED = "failed"  # the handler said so
    LOST = "lost"
    UNDELIVERABLE = "undeliverable"
    EMIT_REFUSED = "emit_refused"
    SPEC_MISSING = "spec_missing"


class DeadLetter(msgspec.Struct, frozen=True, gc=False):
    """A job or record that goes to `dlq`: the original bytes as value, the rest as text headers."""

    key: bytes
    value: bytes
    headers: tuple[tuple[str, str], ...]


class RetryRecord(msgspec.Struct, frozen=True, gc=False):
    """What waits in a retry topic. The state (retrying, due, epoch) is the truth."""

    job_id: str
    epoch: int
    due_ms: int


class RetryOut(msgspec.Struct, frozen=True, gc=False):
    """A `RetryRecord` on its way to the retry topic of `tier` (index into `retry.TIERS`)."""

    tier: int
    record: RetryRecord


class Lifecycle(msgspec.Struct, frozen=True, gc=False):
    """A change of a job for the outside: terminal states, dead letters, refusals, conflicts."""

    at_ms: int
    job_id: str
    tenant: str
    queue: str
    type: str
    event: str
    reason: str
    epoch: int
    attempt: int
    shard: int
    position: int
    source: str = ""


class Forward(msgspec.Struct, frozen=True, gc=False):
    """A job record on its way to its home shard: landed elsewhere, or emitted by a completion.

    `topic`, `partition`, `offset` name the record it came from.
    """

    band: int
    spec: bytes
    topic: str
    partition: int
    offset: int
    appended_at_ms: int


class SubmitsRead(msgspec.Struct, frozen=True, gc=False):
    """Everything in the submit partitions of `shards` with an append time before `up_to_ms` has been acted upon.

    What of it had landed away from home was forwarded in the same transaction or an earlier one. So whoever reads
    this in its `commands` has read all of that which concerns it.
    """

    shards: tuple[int, ...]
    up_to_ms: int


Command = Forward | SubmitsRead


class CommandOut(msgspec.Struct, frozen=True, gc=False):
    """A job record on its way to `shard`."""

    shard: int
    command: Forward


class SubmitsReadOut(msgspec.Struct, frozen=True, gc=False):
    """Word on its way to `shard`. It goes through the log even to a shard held here: its place in there is the proof."""

    shard: int
    word: SubmitsRead


class MessageOut(msgspec.Struct, frozen=True, gc=False):
    """A record that a completion emitted to a topic of the user's."""

    job_id: str
    topic: str
    key: bytes
    value: bytes


Output = DeadLetter | RetryOut | Lifecycle | CommandOut | SubmitsReadOut | MessageOut
