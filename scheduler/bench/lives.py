"""Changelog records as jobs leave them: record and state, a lease, an end."""

from collections.abc import Iterator

from scheduler.codec.job import encode_job
from scheduler.codec.state import encode_state
from scheduler.core import keyspace
from scheduler.core.digest import digest
from scheduler.core.job import Admitted, End, Grant, JobState, Phase, move
from scheduler.core.keys import shard_of
from scheduler.core.spec import JobSpec

Entry = tuple[int, bytes, bytes | None]
"""Shard, key, value."""

_NOW_MS = 1_764_450_000_000
_KEPT_MS = 3_600_000
_FAR_MS = 4_102_444_800_000  # the year 2100


def lives(shards: int, records: int, first: int) -> Iterator[Entry]:
    """Yield `records` entries; jobs are numbered from `first` on."""
    left, number = records, first
    while left > 0:
        entries = _life(f"bench-{number:010d}", number, shards)[:left]
        left -= len(entries)
        number += 1
        yield from entries


def waiting(shards: int, jobs: int) -> Iterator[Entry]:
    """Yield what `jobs` jobs of each shard, about, leave that wait: most are ready, some scheduled, some ended."""
    for number in range(shards * jobs):
        job_id = f"bench-{number:010d}"
        spec = _spec(job_id, number)
        ready = JobState(job_id, _admitted(spec, number), Phase.READY)
        shard, record, state = shard_of(job_id, shards), keyspace.spec_key(job_id), keyspace.state_key(job_id)
        if number % 10 < 7:
            yield shard, record, encode_job(spec)
            yield shard, state, encode_state(ready)
        elif number % 10 < 9:
            scheduled = JobState(job_id, ready.admitted, Phase.SCHEDULED, due_ms=_FAR_MS + number)
            yield shard, record, encode_job(spec)
            yield shard, state, encode_state(scheduled)
        else:
            end = End(_NOW_MS + number, _FAR_MS + number, result=b"null")
            yield shard, state, encode_state(JobState(job_id, ready.admitted, Phase.SUCCEEDED, end=end))


def _life(job_id: str, number: int, shards: int) -> list[Entry]:
    spec = _spec(job_id, number)
    admitted = _admitted(spec, number)
    ready = JobState(job_id, admitted, Phase.READY)
    epoch = number + 1
    given = Grant(
        epoch, bytes(16), 20_000, spec.timeout_ms, "bench", bytes(16), epoch, "default", 0, _NOW_MS + number
    )
    leased = move(ready, Phase.LEASED, epoch=epoch, grant=given)
    shard, record, state = shard_of(job_id, shards), keyspace.spec_key(job_id), keyspace.state_key(job_id)
    begun: list[Entry] = [
        (shard, record, encode_job(spec)),
        (shard, state, encode_state(ready)),
        (shard, state, encode_state(leased)),
    ]
    if not number % 10:
        return begun
    end = End(_NOW_MS + number, _NOW_MS + number + _KEPT_MS, result=b"null")
    return [
        *begun,
        (shard, record, None),
        (shard, state, encode_state(move(leased, Phase.SUCCEEDED, end=end))),
    ]


def _spec(job_id: str, number: int) -> JobSpec:
    return JobSpec(job_id, f"tenant-{number % 10}", f"queue-{number % 4}", "bench.noop", b"x" * 200)


def _admitted(spec: JobSpec, number: int) -> Admitted:
    return Admitted(
        1,
        spec.tenant,
        spec.queue,
        spec.type,
        spec.priority,
        digest(spec),
        _NOW_MS + number,
        number,
        spec.max_attempts,
        spec.timeout_ms,
        has_key=False,
    )
