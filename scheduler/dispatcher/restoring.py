"""Bringing stores to the end of their changelogs, in slices between turns.

Own disk first: a store that is a prefix of the committed changelog reads only the rest. One that is of
another cluster, layout or S, older than tombstones can be relied upon, or outside the log is wiped.
"""

import logging
from collections.abc import Callable, Sequence

import msgspec

from scheduler.core.inputs import LAYOUT, Meta
from scheduler.dispatcher import own_disk
from scheduler.dispatcher.config import Ground
from scheduler.dispatcher.ports import Changelog, LogError, PositionLost, Store, Stores
from scheduler.dispatcher.restore import Restore
from scheduler.dispatcher.retired import Retired
from scheduler.dispatcher.standbys import NoStandbys, Standbys
from scheduler.dispatcher.view import meta_in

_log = logging.getLogger(__name__)


class Done(msgspec.Struct, frozen=True):
    """A shard whose store is at the end of its changelog. `orphans` are keys of job records without a state."""

    number: int
    store: Store
    meta: Meta
    orphans: list[bytes]


class NotPrepared(Exception):
    """A shard's changelog holds no `meta`: the topics were not made by `scheduler topics apply`."""


class Restorer:
    """All restores of one process."""

    def __init__(
        self,
        ground: Ground,
        stores: Stores,
        changelog: Changelog,
        mono_ms: Callable[[], int],
        standbys: Standbys | NoStandbys,
        retired: Retired,
    ) -> None:
        """Restore into `stores` from `changelog`, or go on with a standby; `mono_ms` tells how long a slice has taken."""
        self._mono_ms = mono_ms
        self._standbys = standbys
        self._retired = retired
        self._ground = ground
        self._stores = stores
        self._changelog = changelog
        self._running: dict[int, Restore] = {}

    def begin(self, number: int, now_ms: int, open_store: Store | None) -> None:
        """Begin to restore a shard; `open_store` is one that this process holds open already.

        Raises `LogError` if the log can't be asked now; the store is closed then.
        """
        warm = self._standbys.release(number)
        if warm is not None:
            self._start(number, warm.store, now_ms, warm.unmatched)
            return
        store = open_store or self._retired.take(number) or self._stores.open(number)
        if store.offset >= 0 and not own_disk.is_usable(store, self._ground, now_ms):
            store = self._stores.wipe(number)
        self._start(number, store, now_ms)

    def _start(self, number: int, store: Store, now_ms: int, unmatched: Sequence[bytes] = ()) -> None:
        try:
            self._changelog.begin(number, store.offset)
        except ValueError:
            self._start(number, self._stores.wipe(number), now_ms)
            return
        except LogError:
            store.close()
            raise
        if store.offset < 0:
            own_disk.mark_empty(store, self._ground, now_ms)
        self._running[number] = Restore(number, store, now_ms, unmatched)

    def stop(self, number: int) -> None:
        """Give up a restore; the store keeps what it has got, which is a prefix."""
        restore = self._running.pop(number, None)
        if restore is not None:
            self._changelog.stop(number)
            self._retired.add(number, restore.store)

    def running(self) -> list[Restore]:
        """Return the restores under way."""
        return list(self._running.values())

    def slice(self, budget_ms: int, now_ms: int) -> list[Done]:
        """Go on for about `budget_ms`, however many shards there are; return those that are done.

        Waits for something to read only if there is nothing else to do.
        """
        until_ms = self._mono_ms() + budget_ms
        done: list[Done] = []
        wait_ms = 0 if self._read() else budget_ms
        while self._running:
            came = self._take(wait_ms, now_ms)
            wait_ms = 0
            read = self._read()
            if read:
                done += self._step(read[0], now_ms)
            if not (came or read) or self._mono_ms() >= until_ms:
                break
        return done

    def _read(self) -> list[Restore]:
        return [restore for restore in self._running.values() if restore.is_read]

    def _take(self, wait_ms: int, now_ms: int) -> bool:
        """Write what the log has handed over to the stores; say whether there was anything."""
        try:
            slices = self._changelog.poll(wait_ms)
        except PositionLost as lost:
            self._begin_anew(
                lost.partition, now_ms
            )  # the log's start moved past us: what we have is of no use
            return False
        for restored in slices:
            restore = self._running.get(restored.shard)
            if restore is not None:
                restore.take(restored)
        return bool(slices)

    def _step(self, restore: Restore, now_ms: int) -> list[Done]:
        """Take a step of one restore, which then stands behind the others; return it if it is done."""
        self._running[restore.number] = self._running.pop(restore.number)
        if not restore.step() or self._grew_old(restore, now_ms) or self._was_overtaken(restore, now_ms):
            return []
        return [self._finish(restore)]

    def _grew_old(self, restore: Restore, now_ms: int) -> bool:
        """Begin anew if the restore took so long that deletions may have gone unseen; say whether it did."""
        if own_disk.is_recent(restore.as_of_ms, self._ground, now_ms):
            return False
        self._begin_anew(restore.number, now_ms)
        return True

    def _was_overtaken(self, restore: Restore, now_ms: int) -> bool:
        """Read on if there is no `meta` up to the end that was asked for; say whether to.

        Whoever owns the shard by now may have written others since, and then the cleaner takes away what they
        supersede: so it is with a process that was suspended in a restore. Only where nothing more comes is there none.
        """
        if meta_in(restore.store) is not None or restore.store.offset == restore.without_meta_to:
            return False
        restore.read_on()
        try:
            self._changelog.begin(restore.number, restore.store.offset)
        except (LogError, ValueError):
            self._begin_anew(restore.number, now_ms)
        return True

    def _begin_anew(self, number: int, now_ms: int) -> None:
        if self._running.pop(number, None) is None:
            return
        self._changelog.stop(number)
        try:
            self._start(number, self._stores.wipe(number), now_ms)
        except LogError as error:
            _log.warning("shard %d can't be restored anew yet: %s", number, error)  # it is begun once more

    def held_back(self, mono_ms: int, after_ms: int) -> list[tuple[int, Meta | None]]:
        """Return shards whose end an open transaction has held back for `after_ms`, with the meta known so far."""
        found = []
        for restore in self._running.values():
            if restore.is_read or not self._changelog.held_back(restore.number):
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
        _log.info("shard %d restored: %d records read", restore.number, restore.records)
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
