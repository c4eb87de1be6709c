"""The restore of one shard: first the log, then, for a store without them, the indexes, each a bounded step at a time.

Everything is loaded raw; the indexes follow from the states, in one scan for an empty store and state by state for
the rest of a known one.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from scheduler.codec.meta import decode_meta
from scheduler.codec.state import decode_state
from scheduler.core import keyspace
from scheduler.core.job import JobState
from scheduler.core.shard import index_delta
from scheduler.core.validation import Refused
from scheduler.dispatcher.ports import Restored, Store

STEP: Final = 100
"""Keys of one step: about a millisecond."""

_KEY_SHOWN_BYTES: Final = 128
_DURABLE: Final = (keyspace.STATE, keyspace.SPEC, keyspace.META)
_INDEXES: Final = (keyspace.READY, keyspace.TIMER, keyspace.LEASED, keyspace.TIERED, keyspace.DROP)

_log = logging.getLogger(__name__)


class Restore:
    """One shard on its way to the end of its changelog."""

    def __init__(self, number: int, store: Store) -> None:
        """Restore into `store`."""
        self.number = number
        self.store = store
        self.as_of_ms = store.written_at_ms if store.offset >= 0 else None  # of what was there before
        self.held_back_since_ms: int | None = None
        self.orphans: list[bytes] = []  # keys of job records without a state: never to be run
        self._raw = store.get(keyspace.INDEXED) is None  # new, or a restore that was given up
        self._specs: dict[bytes, None] = {}  # keys of job records in the rest of the log, in its order
        self._steps: Iterator[None] | None = None  # what is to be done once the log is read

    @property
    def is_read(self) -> bool:
        """Whether the log is read to its end."""
        return self._steps is not None

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
            if not self._raw and key.startswith(keyspace.STATE):
                self._replace(key, value, puts, deletes)
            elif value is None:
                deletes.append(key)
            else:
                puts.append((key, value))
        if not self._raw:
            self._specs.update((key, None) for key, _ in puts if key.startswith(keyspace.SPEC))
            for key in deletes:
                self._specs.pop(key, None)  # a job that came and went while nobody looked is no orphan
        self.store.write(puts, deletes, restored.next_offset, now_ms)
        if restored.done:
            self._steps = self._finish(now_ms)

    def step(self) -> bool:
        """Take one step of what is left once the log is read; return whether that was the last one."""
        if self._steps is None:
            raise AssertionError(f"shard {self.number}: its log is not read to the end")
        return next(self._steps, _OVER) is _OVER

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

    # -- steps ---------------------------------------------------------------------------------------------

    def _finish(self, now_ms: int) -> Iterator[None]:
        if self._raw:
            yield from self._clear_indexes(now_ms)
            yield from self._build_indexes(now_ms)
            for found in self._scanned(keyspace.SPEC):
                self._find_orphans(key for key, _ in found)
                yield
        else:
            for at, key in enumerate(self._specs):
                self._find_orphans((key,))
                if at % STEP == 0:
                    yield

    def _clear_indexes(self, now_ms: int) -> Iterator[None]:
        # A restore given up while it built indexes has left some, and its log went on since.
        for prefix in _INDEXES:
            for found in self._scanned(prefix):
                self.store.write((), [key for key, _ in found], self.store.offset, now_ms)
                yield

    def _build_indexes(self, now_ms: int) -> Iterator[None]:
        for found in self._scanned(keyspace.STATE):
            added: list[bytes] = []
            deletes: list[bytes] = []
            for key, raw in found:
                state = self._decoded(key, raw)
                if state is None:
                    deletes.append(key)
                else:
                    index_delta(None, state, added, deletes)
            self.store.write([(key, b"") for key in added], deletes, self.store.offset, now_ms)
            yield
        self.store.write([(keyspace.INDEXED, b"")], (), self.store.offset, now_ms)

    def _find_orphans(self, specs: Iterable[bytes]) -> None:
        self.orphans += [key for key in specs if self.store.get(keyspace.STATE + key[1:]) is None]

    def _scanned(self, prefix: bytes) -> Iterator[Sequence[tuple[bytes, bytes]]]:
        start, stop = prefix, keyspace.after(prefix)
        while found := self.store.scan(start, stop, STEP):
            yield found
            start = found[-1][0] + b"\0"

    # -- what is no record of ours -------------------------------------------------------------------------

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


def _is_meta(value: bytes | None) -> bool:
    try:
        decode_meta(value)
    except Refused:
        return False
    return True


_OVER: Final = object()
