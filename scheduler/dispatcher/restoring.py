"""Bringing a shard's store to the end of its changelog, in slices between turns.

Own disk first: a store that is a prefix of the committed changelog reads only the rest. One that is of
another cluster, layout or S, older than tombstones can be relied upon, or outside the log is wiped.
Everything is loaded raw; the indexes follow from the states, in one scan for an empty store and state by
state for the rest of a known one.
"""

import logging
from typing import Final

import msgspec

from scheduler.codec.meta import decode_meta
from scheduler.codec.state import decode_state
from scheduler.core import keyspace
from scheduler.core.inputs import LAYOUT, Meta
from scheduler.core.job import JobState
from scheduler.core.shard import index_delta
from scheduler.core.validation import Refused
from scheduler.dispatcher.config import Ground
from scheduler.dispatcher.ports import Changelog, LogError, PositionLost, Restored, Store, Stores
from scheduler.dispatcher.view import meta_in

_INDEX_SLICE: Final = 500
_KEY_SHOWN_BYTES: Final = 128
_DURABLE: Final = (keyspace.STATE, keyspace.SPEC, keyspace.META)
_INDEXES: Final = (keyspace.READY, keyspace.TIMER, keyspace.LEASED, keyspace.TIERED, keyspace.DROP)


_log = logging.getLogger(__name__)


class Done(msgspec.Struct, frozen=True):
    """A shard whose store is at the end of its changelog. `orphans` are keys of job records without a state."""

    number: int
    store: Store
    meta: Meta
    orphans: list[bytes]


class NotPrepared(Exception):
    """A shard's changelog holds no `meta`: the topics were not made by `scheduler topics apply`."""


class Restore:
    """The restore of one shard: first the log, then, for a store without them, the indexes."""

    def __init__(self, number: int, store: Store) -> None:
        """Restore into `store`."""
        self.number = number
        self.store = store
        self.raw = store.get(keyspace.INDEXED) is None  # new, or a restore that was given up
        self.cursor: bytes | None = None  # of the index scan, set once the log is read
        self.as_of_ms = store.written_at_ms if store.offset >= 0 else None  # of what was there before
        self.held_back_since_ms: int | None = None
        self.orphans: list[bytes] = []  # keys of job records without a state: never to be run
        self._specs: set[bytes] = set()
        self._spec_cursor: bytes | None = None  # of the look at job records, set once the indexes are built

    def take(self, restored: Restored, now_ms: int) -> None:
        """Write a slice of the log to the store."""
        latest = dict(restored.entries)  # the last value of each key, since a batch holds a key once
        foreign = [key for key in latest if key[:1] not in _DURABLE]
        for key in foreign:
            del latest[key]
            self._polluted(key, "no key of ours")
        if keyspace.META in latest and not _is_meta(latest[keyspace.META]):
            self._polluted(keyspace.META, "no meta of ours")
            del latest[keyspace.META]  # the one before is the truth still: every transaction carries one
            metas = (value for key, value in reversed(restored.entries) if key == keyspace.META)
            if (readable := next(filter(_is_meta, metas), None)) is not None:
                latest[keyspace.META] = readable
        puts: list[tuple[bytes, bytes]] = []
        deletes: list[bytes] = []
        for key, value in latest.items():
            if not self.raw and key.startswith(keyspace.STATE):
                self._replace(key, value, puts, deletes)
            elif value is None:
                deletes.append(key)
            else:
                puts.append((key, value))
        if not self.raw:
            self._specs.update(key for key, _ in puts if key.startswith(keyspace.SPEC))
        self.store.write(puts, deletes, restored.next_offset, now_ms)
        if restored.done:
            self.cursor = keyspace.STATE

    def _replace(
        self, key: bytes, value: bytes | None, puts: list[tuple[bytes, bytes]], deletes: list[bytes]
    ) -> None:
        """Add a state and its indexes to a batch; one that can't be read leaves what was there."""
        before = self.store.get(key)
        new = None
        if value is not None:
            new = self._decoded(key, value)
            if new is None:
                return
            puts.append((key, value))
        else:
            deletes.append(key)
        added: list[bytes] = []
        index_delta(None if before is None else decode_state(before), new, added, deletes)
        puts.extend((key, b"") for key in added)

    def index_slice(self, now_ms: int) -> bool:
        """Build the next slice of the indexes, then look for records without a state; return whether all is done."""
        if not self.raw:
            self.orphans = [key for key in self._specs if self._is_orphan(key)]
            return True
        if self._spec_cursor is not None:
            return self._orphan_slice(self._spec_cursor)
        cursor = self.cursor or keyspace.STATE
        if cursor == keyspace.STATE:
            self._clear_indexes(now_ms)
        found = self.store.scan(cursor, keyspace.after(keyspace.STATE), _INDEX_SLICE)
        added: list[bytes] = []
        deletes: list[bytes] = []
        for key, raw in found:
            state = self._decoded(key, raw)
            if state is None:
                deletes.append(key)
            else:
                index_delta(None, state, added, deletes)
        if len(found) < _INDEX_SLICE:
            added.append(keyspace.INDEXED)
            self._spec_cursor = keyspace.SPEC
        else:
            self.cursor = found[-1][0] + b"\0"
        self.store.write([(key, b"") for key in added], deletes, self.store.offset, now_ms)
        return False

    def _orphan_slice(self, cursor: bytes) -> bool:
        found = self.store.scan(cursor, keyspace.after(keyspace.SPEC), _INDEX_SLICE)
        self.orphans += [key for key, _ in found if self._is_orphan(key)]
        if len(found) == _INDEX_SLICE:
            self._spec_cursor = found[-1][0] + b"\0"
        return len(found) < _INDEX_SLICE

    def _decoded(self, key: bytes, value: bytes) -> JobState | None:
        try:
            return decode_state(value)
        except Refused as refused:
            self._polluted(key, str(refused))
            return None

    def _polluted(self, key: bytes, why: str) -> None:
        _log.error(
            "changelog of shard %d is polluted: key %r: %s; only dispatchers may write it",
            self.number,
            key[:_KEY_SHOWN_BYTES],
            why,
        )

    def _is_orphan(self, spec_key: bytes) -> bool:
        return self.store.get(keyspace.STATE + spec_key[1:]) is None

    def _clear_indexes(self, now_ms: int) -> None:
        # A restore given up while it built indexes has left some, and its log went on since.
        for prefix in _INDEXES:
            while found := self.store.scan(prefix, keyspace.after(prefix), _INDEX_SLICE):
                self.store.write((), [key for key, _ in found], self.store.offset, now_ms)


def _is_meta(value: bytes | None) -> bool:
    try:
        decode_meta(value)
    except Refused:
        return False
    return True


class Restorer:
    """All restores of one process."""

    def __init__(self, ground: Ground, stores: Stores, changelog: Changelog) -> None:
        """Restore into `stores` from `changelog`."""
        self._ground = ground
        self._stores = stores
        self._changelog = changelog
        self._running: dict[int, Restore] = {}

    def begin(self, number: int, now_ms: int, open_store: Store | None) -> None:
        """Begin to restore a shard; `open_store` is one that this process holds open already.

        Raises `LogError` if the log can't be asked now; the store is closed then.
        """
        store = open_store if open_store is not None else self._stores.open(number)
        if store.offset >= 0 and not self._usable(store, now_ms):
            store = self._stores.wipe(number)
        self._start(number, store, store.offset)

    def _start(self, number: int, store: Store, offset: int) -> None:
        try:
            self._changelog.begin(number, offset)
        except ValueError:
            store = self._stores.wipe(number)
            self._start(number, store, -1)
            return
        except LogError:
            store.close()
            raise
        self._running[number] = Restore(number, store)

    def stop(self, number: int) -> None:
        """Give up a restore; the store keeps what it has got, which is a prefix."""
        restore = self._running.pop(number, None)
        if restore is not None:
            self._changelog.stop(number)
            restore.store.close()

    def running(self) -> list[Restore]:
        """Return the restores under way."""
        return list(self._running.values())

    def slice(self, budget_ms: int, now_ms: int) -> list[Done]:
        """Go on for about `budget_ms`; return the shards that are done."""
        if not self._running:
            return []
        try:
            slices = self._changelog.poll(budget_ms)
        except PositionLost as lost:
            self._begin_anew(lost.partition)  # the log's start moved past us: what we have is of no use
            return []
        for restored in slices:
            restore = self._running.get(restored.shard)
            if restore is not None:
                restore.take(restored, now_ms)
        done = [restore for restore in self._running.values() if restore.cursor is not None]
        finished = [restore for restore in done if restore.index_slice(now_ms)]
        return [self._finish(restore) for restore in finished if not self._grew_old(restore, now_ms)]

    def _grew_old(self, restore: Restore, now_ms: int) -> bool:
        """Begin anew if the restore took so long that deletions may have gone unseen; say whether it did."""
        if restore.as_of_ms is None or self._is_recent(restore.as_of_ms, now_ms):
            return False
        self._begin_anew(restore.number)
        return True

    def _begin_anew(self, number: int) -> None:
        if self._running.pop(number, None) is None:
            return
        self._changelog.stop(number)
        self._start(number, self._stores.wipe(number), -1)

    def held_back(self, mono_ms: int, after_ms: int) -> list[tuple[int, Meta | None]]:
        """Return shards whose end an open transaction has held back for `after_ms`, with the meta known so far."""
        found = []
        for restore in self._running.values():
            if restore.cursor is not None or not self._changelog.held_back(restore.number):
                restore.held_back_since_ms = None
            elif restore.held_back_since_ms is None:
                restore.held_back_since_ms = mono_ms
            elif mono_ms - restore.held_back_since_ms >= after_ms:
                restore.held_back_since_ms = mono_ms
                found.append((restore.number, meta_in(restore.store)))
        return found

    def _finish(self, restore: Restore) -> Done:
        del self._running[restore.number]
        self._changelog.stop(restore.number)
        meta = meta_in(restore.store)
        if meta is None:
            raise NotPrepared(
                f"shard {restore.number} has no meta record: run 'scheduler topics apply --execute'"
            )
        self._check_ground(restore.number, meta)
        return Done(restore.number, restore.store, meta, restore.orphans)

    def _check_ground(self, number: int, meta: Meta) -> None:
        """Refuse a shard whose `meta` speaks of other topics than those found at start.

        Under another S one job id would have two homes; in a topic that was made anew the positions would skip
        accepted jobs.
        """
        ground = self._ground
        found = (LAYOUT, ground.cluster_id, ground.shards)
        if (meta.layout, meta.cluster_id, meta.shards) != found:
            raise NotPrepared(
                f"shard {number} was made for layout {meta.layout}, cluster {meta.cluster_id}, {meta.shards} shards; "
                f"found are layout {found[0]}, cluster {found[1]}, {found[2]} shards"
            )
        anew = [
            topic
            for topic, topic_id in meta.topic_ids.items()
            if topic in meta.positions and ground.topic_ids.get(topic, topic_id) != topic_id
        ]
        if anew:
            raise NotPrepared(
                f"shard {number}: {', '.join(sorted(anew))} deleted and made anew; its unread records are gone, and "
                "the positions kept here belong to the old topic"
            )

    def _usable(self, store: Store, now_ms: int) -> bool:
        ground = self._ground
        meta = meta_in(store)
        if meta is None or (meta.layout, meta.cluster_id, meta.shards) != (
            LAYOUT,
            ground.cluster_id,
            ground.shards,
        ):
            return False
        if meta.topic_ids.get("changelog") != ground.topic_ids.get("changelog"):
            return False
        return self._is_recent(store.written_at_ms, now_ms)

    def _is_recent(self, written_at_ms: int, now_ms: int) -> bool:
        # Tombstones go after `delete.retention.ms`; half of it leaves room for the time the restore takes.
        return now_ms - written_at_ms < self._ground.changelog_retention_ms // 2
