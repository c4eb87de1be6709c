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

    def __init__(self, number: int, store: Store, now_ms: int, unmatched: Iterable[bytes] = ()) -> None:
        """Restore into `store`; `unmatched` are keys of job records in it that may lack a state."""
        self.number = number
        self.store = store
        # The store lacks nothing that is older than this. What it is written with: a restore that is given up halfway
        # makes no old store a new one.
        self.as_of_ms = store.written_at_ms if store.offset >= 0 else now_ms
        self.held_back_since_ms: int | None = None
        self.without_meta_to = -1  # the offset up to which there was no `meta`, once it was read for one
        self.records = 0  # read of the log
        self.orphans: list[bytes] = []  # keys of job records without a state: never to be run
        self._goes_on = False
        self._raw = store.get(keyspace.INDEXED) != b""  # new, or a restore that was given up
        self._specs = dict.fromkeys(unmatched)  # with those of the rest of the log, in its order
        self._steps: Iterator[None] | None = None  # what is to be done once the log is read

    @property
    def is_read(self) -> bool:
        """Whether the log is read to its end."""
        return self._steps is not None

    def take(self, restored: Restored) -> None:
        """Write a slice of the log to the store."""
        self.records += len(restored.entries)
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
            self._note_specs(puts, deletes)
        self.as_of_ms = max(self.as_of_ms, restored.at_ms)
        self.store.write(puts, deletes, restored.next_offset, self.as_of_ms)
        if restored.done:
            self._steps = self._finish()

    def step(self) -> bool:
        """Take one step of what is left once the log is read; return whether that was the last one."""
        if self._steps is None:
            raise AssertionError(f"shard {self.number}: its log is not read to the end")
        return next(self._steps, _OVER) is _OVER

    def take_more(self) -> bool:
        """After the last step: go on with what the log has got since; say whether it was the first time."""
        self._steps = None
        self._raw = False
        self._specs = dict.fromkeys(self.orphans)
        self.orphans = []
        first, self._goes_on = not self._goes_on, True
        return first

    def read_on(self) -> None:
        """After the last step: there is no `meta` yet, so take what the log has got since."""
        self.without_meta_to = self.store.offset
        self.take_more()

    @property
    def unmatched(self) -> Sequence[bytes]:
        """Keys of job records whose states have not been seen, for whoever goes on with the store."""
        return [*self.orphans, *self._specs]

    def _note_specs(self, puts: Sequence[tuple[bytes, bytes]], deletes: Sequence[bytes]) -> None:
        states = {key[1:] for key, _ in puts if key.startswith(keyspace.STATE)}
        for key, _ in puts:
            if key.startswith(keyspace.SPEC) and key[1:] not in states:  # most come together with their state
                self._specs[key] = None
        for key in deletes:
            self._specs.pop(key, None)  # a job that came and went while nobody looked is no orphan

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

    def _finish(self) -> Iterator[None]:
        if self._raw:
            yield from self._clear_indexes()
            yield from self._build_indexes()
            for found in self._scanned(keyspace.SPEC):
                self._find_orphans(key for key, _ in found)
                yield
        else:
            for at, key in enumerate(self._specs):
                self._find_orphans((key,))
                if at % STEP == 0:
                    yield

    def _clear_indexes(self) -> Iterator[None]:
        # A restore given up while it built indexes has left some, and its log went on since.
        for prefix in _INDEXES:
            for found in self._scanned(prefix):
                self.store.write((), [key for key, _ in found], self.store.offset, self.as_of_ms)
                yield

    def _build_indexes(self) -> Iterator[None]:
        for found in self._scanned(keyspace.STATE):
            added: list[bytes] = []
            deletes: list[bytes] = []
            for key, raw in found:
                state = self._decoded(key, raw)
                if state is None:
                    deletes.append(key)
                else:
                    index_delta(None, state, added, deletes)
            self.store.write([(key, b"") for key in added], deletes, self.store.offset, self.as_of_ms)
            yield
        self.store.write([(keyspace.INDEXED, b"")], (), self.store.offset, self.as_of_ms)

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
