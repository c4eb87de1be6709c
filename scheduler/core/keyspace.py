"""Keys of one shard's records: their byte order is their order.

Durable keys are those of the changelog too; local keys are indexes that the states imply (see `index`).
Names hold no NUL byte, so NUL ends a name without changing the order.
"""

from functools import lru_cache
from struct import Struct
from typing import Final

from scheduler.core.job import JobState

META: Final = b"m"
STATE: Final = b"s"
SPEC: Final = b"j"
READY: Final = b"r"
TIMER: Final = b"t"
LEASED: Final = b"l"
TIERED: Final = b"w"
DROP: Final = b"d"
INDEXED: Final = b"i"  # empty once the local indexes are complete; until then it says what is restored


def state_key(job_id: str) -> bytes:
    """Return the changelog key of a job's state."""
    return STATE + job_id.encode()


def spec_key(job_id: str) -> bytes:
    """Return the changelog key of a job's record."""
    return SPEC + job_id.encode()


@lru_cache(maxsize=4096)
def lane_prefix(band: int, tenant: str, queue: str, *, suspect: bool) -> bytes:
    """Return what the ready keys of one lane begin with."""
    return b"%b%c%b\0%b\0%c" % (READY, band, tenant.encode(), queue.encode(), suspect)


_ORDER: Final = Struct(">BQQ")  # priority, append time, offset: between the lane prefix and the job id


def place_of(state: JobState) -> tuple[bytes, bytes]:
    """Return the lane of a ready job, and its key: it stands there by priority, then sequence."""
    admitted = state.admitted
    lane = lane_prefix(admitted.band, admitted.tenant, admitted.queue, suspect=state.history.suspect)
    order = _ORDER.pack(admitted.priority, admitted.submitted_at_ms, admitted.offset)
    return lane, lane + order + state.job_id.encode()


def lane_of(ready_key: bytes) -> bytes:
    """Return the lane prefix of a ready key."""
    tenant_end = ready_key.index(b"\0", 2)
    return ready_key[: ready_key.index(b"\0", tenant_end + 1) + 2]


def parse_lane(prefix: bytes) -> tuple[int, str, str, bool]:
    """Return the band, tenant, queue and suspect flag of a lane prefix."""
    tenant, queue, suspect = prefix[2:].split(b"\0", 2)
    return prefix[1], tenant.decode(), queue.decode(), suspect == b"\x01"


def ready_key(state: JobState) -> bytes:
    """Return the key of a ready job."""
    return place_of(state)[1]


def job_of_ready(ready_key: bytes, lane: bytes) -> str:
    """Return the job id at the end of a ready key."""
    return ready_key[len(lane) + _ORDER.size :].decode()


def timed_key(prefix: bytes, at_ms: int, job_id: str) -> bytes:
    """Return the key of something due at `at_ms`."""
    return prefix + at_ms.to_bytes(8, "big") + job_id.encode()


def parse_timed(key: bytes) -> tuple[int, str]:
    """Return the due time and job id of a timed key."""
    return int.from_bytes(key[1:9], "big"), key[9:].decode()


def leased_key(job_id: str) -> bytes:
    """Return the index key of a leased job."""
    return LEASED + job_id.encode()


def after(prefix: bytes) -> bytes:
    """Return the first key behind all keys that begin with `prefix`."""
    return prefix[:-1] + bytes([prefix[-1] + 1])
