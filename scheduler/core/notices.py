"""What dispatchers say to workers, one record each on a `leases.<pool>` topic.

A process acts on, and answers, only notices that carry its own boot id.
"""

import msgspec


class Lease(msgspec.Struct, frozen=True, gc=False):
    """The right to run a job. `spec` is the framed job record as submitted (with its id filled in)."""

    boot_id: bytes
    job_id: str
    epoch: int
    token: bytes
    attempt: int  # 1 for the first run
    offer: int
    lease_ms: int
    timeout_ms: int
    shard: int  # partition of `reports` to answer to
    suspect: bool
    max_attempts: int
    checkpoint: bytes
    spec: bytes


class Revoke(msgspec.Struct, frozen=True, gc=False):
    """Stop this epoch of the job and release it. Also the answer to a report that names no live lease."""

    boot_id: bytes
    job_id: str
    epoch: int
    token: bytes
    shard: int
    reason: str  # timeout, cancel, unknown


class Drain(msgspec.Struct, frozen=True, gc=False):
    """Take no more leases, finish what runs, exit."""

    boot_id: bytes
    reason: str


Notice = Lease | Revoke | Drain
