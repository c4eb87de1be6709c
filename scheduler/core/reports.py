"""What workers say to the shards that granted their leases, one record each on `reports`.

Every report names the job, epoch and token of its lease, the sender's boot id and the inbox to answer to.
"""

from enum import StrEnum

import msgspec

from scheduler.core.job import ErrorInfo


class Sender(msgspec.Struct, frozen=True, gc=False):
    """The incarnation of a worker process, and where to answer."""

    worker: str
    boot_id: bytes
    pool: str
    inbox: int
    release: str = ""


class Offer(msgspec.Struct, frozen=True, gc=False):
    """Free slots. A higher sequence of a boot id replaces its older plain offers at the same dispatcher."""

    sender: Sender
    sequence: int
    slots: int
    lowest_band: int = 2  # the least urgent band these slots accept
    takes_suspect: bool = False


class Freed(msgspec.Struct, frozen=True, gc=False):
    """The slot that a completion frees, offered to the same dispatcher in the same record."""

    sequence: int
    lowest_band: int = 2
    takes_suspect: bool = False


class Emit(msgspec.Struct, frozen=True, gc=False):
    """A record published in the transaction that accepts a completion.

    `topic` empty: `value` is a framed job record to be submitted to `band`; `key` is its job id.
    """

    topic: str
    key: bytes
    value: bytes
    band: int = 1


class Done(msgspec.Struct, frozen=True, gc=False):
    """A run ended well. `result` is JSON; `run_ms` how long it was busy."""

    sender: Sender
    job_id: str
    epoch: int
    token: bytes
    run_ms: int = 0
    result: bytes = b""
    result_omitted: str = ""
    emits: tuple[Emit, ...] = ()
    freed: Freed | None = None


class Verdict(StrEnum):
    """What a failed run asks for."""

    RETRY = "retry"  # an attempt; the policy decides whether and when again
    FAIL = "fail"  # dead-letter now
    CANCEL = "cancel"  # the handler called the job off
    TIMEOUT = "timeout"  # the worker ended the run at `timeout_ms`; an attempt
    OUT_OF_MEMORY = "out_of_memory"  # the child went over its memory bound; an attempt


class Fail(msgspec.Struct, frozen=True, gc=False):
    """A run ended badly. `retry_after_ms` >= 0: not before that long from now."""

    sender: Sender
    job_id: str
    epoch: int
    token: bytes
    verdict: Verdict
    run_ms: int = 0
    retry_after_ms: int = -1
    error: ErrorInfo = ErrorInfo()
    freed: Freed | None = None


class ReleaseReason(StrEnum):
    """Why a lease is handed back without a verdict."""

    BUSY = "busy"  # no free slot here
    TOO_LATE = "too_late"  # it arrived after its offer could start it
    UNKNOWN_TYPE = "unknown_type"
    SHUTDOWN = "shutdown"
    INTERRUPTED = "interrupted"  # its child was killed for another job
    STOPPED = "stopped"  # on a revoke
    SNOOZED = "snoozed"
    LOST = "lost"  # its own deadline ended it: a loss
    CRASHED = "crashed"  # its child died under it: a loss


class Release(msgspec.Struct, frozen=True, gc=False):
    """A lease handed back. `delay_ms` counts for snoozed only."""

    sender: Sender
    job_id: str
    epoch: int
    token: bytes
    reason: ReleaseReason
    started: bool = False
    run_ms: int = 0
    delay_ms: int = 0
    detail: str = ""
    freed: Freed | None = None


class Held(msgspec.Struct, frozen=True, gc=False):
    """One lease that a beat renews. `fraction` < 0: no progress told."""

    job_id: str
    epoch: int
    token: bytes
    fraction: float = -1.0
    note: str = ""


class Beat(msgspec.Struct, frozen=True, gc=False):
    """Renews leases of one shard."""

    sender: Sender
    leases: tuple[Held, ...]


class Checkpoint(msgspec.Struct, frozen=True, gc=False):
    """Makes `data` what the next attempt starts from."""

    sender: Sender
    job_id: str
    epoch: int
    token: bytes
    data: bytes


class Echo(msgspec.Struct, frozen=True, gc=False):
    """Written by a shard's owner to its own `reports` partition: whatever precedes it has been read."""

    owner: str  # transactional id of the dispatcher
    sequence: int


Report = Offer | Done | Fail | Release | Beat | Checkpoint | Echo
