"""A shard's store, decoded: what the core reads through."""

from collections.abc import Sequence

from scheduler.codec.job import decode_job
from scheduler.codec.meta import decode_meta
from scheduler.codec.state import decode_state
from scheduler.core import keyspace
from scheduler.core.inputs import Meta
from scheduler.core.job import JobState
from scheduler.core.spec import JobSpec
from scheduler.dispatcher.ports import Store


class StoreView:
    """Implements `core.shard.View` over a store."""

    def __init__(self, store: Store) -> None:
        """Read through `store`."""
        self._store = store

    def state(self, job_id: str) -> JobState | None:
        """Return a job's state."""
        raw = self._store.get(keyspace.state_key(job_id))
        return None if raw is None else decode_state(raw)

    def raw_spec(self, job_id: str) -> bytes | None:
        """Return a job's record as submitted."""
        return self._store.get(keyspace.spec_key(job_id))

    def decode_spec(self, raw: bytes) -> JobSpec:
        """Return a stored record decoded."""
        return decode_job(raw)

    def meta(self) -> Meta | None:
        """Return what the shard knows of itself."""
        raw = self._store.get(keyspace.META)
        return None if raw is None else decode_meta(raw)

    def scan(self, start: bytes, stop: bytes, limit: int) -> Sequence[tuple[bytes, bytes]]:
        """Return at most `limit` entries with start <= key < stop, in key order."""
        return self._store.scan(start, stop, limit)
