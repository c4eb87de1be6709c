"""Whether a store that this process finds on its disk may be gone on with."""

from scheduler.core import keyspace
from scheduler.core.inputs import LAYOUT
from scheduler.dispatcher.config import Ground
from scheduler.dispatcher.ports import Store
from scheduler.dispatcher.view import meta_in


def is_usable(store: Store, ground: Ground, now_ms: int) -> bool:
    """Say whether `store` is of these topics, and young enough."""
    mark = store.get(keyspace.INDEXED)
    if mark:
        return mark == _mark(ground) and is_recent(store.written_at_ms, ground, now_ms)
    meta = meta_in(store)
    if meta is None or (meta.layout, meta.cluster_id, meta.shards) != (
        LAYOUT,
        ground.cluster_id,
        ground.shards,
    ):
        return False
    if meta.topic_ids.get("changelog") != ground.topic_ids.get("changelog"):
        return False
    return is_recent(store.written_at_ms, ground, now_ms)


def is_recent(as_of_ms: int, ground: Ground, now_ms: int) -> bool:
    """Say whether no deletion since `as_of_ms` can be gone from the changelog unseen.

    Tombstones go after `delete.retention.ms`; half of it leaves room for the time the restore takes.
    """
    return now_ms - as_of_ms < ground.changelog_retention_ms // 2


def mark_empty(store: Store, ground: Ground, now_ms: int) -> None:
    """Note in an empty store whose it is to be: in a compacted changelog the `meta` that tells comes last.

    So a restore that was given up halfway, because its shard went, goes on where it was when the shard comes back.
    """
    store.write([(keyspace.INDEXED, _mark(ground))], (), store.offset, now_ms)


def _mark(ground: Ground) -> bytes:
    changelog = ground.topic_ids.get("changelog", "")
    return f"{LAYOUT} {ground.cluster_id} {ground.shards} {changelog}".encode()
