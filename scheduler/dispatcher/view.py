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
from scheduler.dispatcher.set_aside import SetAside


class StoreView:
    """Implements `core.shard.View` over a store."""

    def __init__(self, store: Store, set_aside: SetAside) -> None:
        """Read through `store`; the indexes show nothing of jobs that are `set_aside`."""
        self._store = store
        self._set_aside = set_aside

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

    def scan(self, start: bytes, stop: bytes, limit: int) -> Sequence[tuple[bytes, bytes]]:
        """Return at most `limit` entries with start <= key < stop, in key order."""
        found = self._store.scan(start, stop, limit)
        return self._shown(found, stop, limit) if self._set_aside.jobs else found

    def _shown(
        self, found: Sequence[tuple[bytes, bytes]], stop: bytes, limit: int
    ) -> Sequence[tuple[bytes, bytes]]:
        # As many as asked for, if there are: whoever gets fewer takes it for the end.
        hides = self._set_aside.hides
        shown = [entry for entry in found if not hides(entry[0])]
        while len(found) == limit and len(shown) < limit:
            found = self._store.scan(found[-1][0] + b"\0", stop, limit)
            shown += [entry for entry in found if not hides(entry[0])]
        return shown[:limit]


def meta_in(store: Store) -> Meta | None:
    """Return what a shard knows of itself."""
    raw = store.get(keyspace.META)
    return None if raw is None else decode_meta(raw)
