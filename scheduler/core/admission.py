"""Taking a job in: the first record of an id wins, whatever comes later under it."""

import msgspec

from scheduler.core.digest import digest
from scheduler.core.ending import expire, lifecycle
from scheduler.core.job import READY, SCHEDULED, Admitted, JobState, born
from scheduler.core.moment import Moment
from scheduler.core.shard import Shard
from scheduler.core.spec import BAND_NAMES, Band, JobSpec


class Submitted(msgspec.Struct, frozen=True, gc=False):
    """A job record that has reached its home shard. `raw` is the framed record with the id filled in."""

    spec: JobSpec
    raw: bytes
    band: Band
    at_ms: int  # append time
    topic: str  # where the record was published, with the next two
    partition: int
    offset: int

    @property
    def source(self) -> str:
        """Where the record was published, as people read it."""
        return f"{self.topic}/{self.partition}@{self.offset}"


def admit(shard: Shard, moment: Moment, submitted: Submitted) -> None:
    """Admit a job, or count a repeat, or tell a conflict."""
    spec = submitted.spec
    content = digest(spec)
    known = shard.state(spec.job_id)
    if known is not None:
        _meet(shard, moment, known, content, submitted)
        return
    # Our clock is not trusted yet while the shard is adopted, and may run ahead. What was due when the record was
    # appended is due; anything else waits for its timer, which runs only when the clock is known.
    now_ms = min(moment.now_ms, submitted.at_ms)
    state = _new_state(submitted, content, now_ms)
    shard.put_spec(spec.job_id, submitted.raw)
    shard.put(state)
    shard.changes.counts["submitted", BAND_NAMES[submitted.band]] += 1
    if 0 < spec.expires_at_ms <= now_ms:
        expire(shard, moment, state)


def _new_state(submitted: Submitted, content: bytes, now_ms: int) -> JobState:
    spec = submitted.spec
    waits = spec.run_at_ms > now_ms
    admitted = Admitted(
        int(submitted.band),
        spec.tenant,
        spec.queue,
        spec.type,
        spec.priority,
        content,
        submitted.at_ms,
        submitted.offset,
        spec.max_attempts,
        spec.timeout_ms,
        spec.idempotency_key is not None,
        spec.labels,
        spec.expires_at_ms,
    )
    phase = born(SCHEDULED if waits else READY)
    return JobState(spec.job_id, admitted, phase, due_ms=spec.run_at_ms if waits else 0)


def _meet(shard: Shard, moment: Moment, known: JobState, content: bytes, submitted: Submitted) -> None:
    shard.changes.durable = True
    if known.admitted.digest == content:
        shard.changes.counts[("repeated",)] += 1
        return
    shard.changes.counts[("conflict",)] += 1
    lifecycle(shard, moment, known, "conflict", reason="content differs", source=submitted.source)
