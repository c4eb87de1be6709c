"""After every turn: each store in use, warm copies too, is a prefix of the committed changelog, its indexes what the states imply.

What changed since the last look is compared at once; everything is, now and then and at the end.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from scheduler.codec.state import decode_state
from scheduler.core import keyspace
from scheduler.core.index import index_keys
from scheduler.dispatcher.seat import Stage
from scheduler.dispatcher.standbys import Standbys
from tests.dispatcher.checks import DURABLE, check_engine
from tests.simulation.broker import SimulatedBroker
from tests.simulation.disk import JournaledStore
from tests.simulation.violation import Violation, require

if TYPE_CHECKING:
    from tests.simulation.dispatcher import DispatcherProcess

FULL_EVERY = 400  # turns
PREFIX = "a store is a prefix of its committed changelog"
INDEX = "the indexes are what the states imply"


class Shadow:
    """What one open store should hold, followed from the log."""

    def __init__(self, store: JournaledStore) -> None:
        self.store = store
        self.offset = 0
        self.durable: dict[bytes, bytes] = {}
        self.indexed: dict[bytes, tuple[bytes, ...]] = {}  # by state key
        self.index_keys = 0

    def follow(self, entries: Iterator[tuple[int, bytes, bytes | None]], offset: int) -> dict[bytes, None]:
        """Take what was committed up to `offset`; return the keys that it changed."""
        changed: dict[bytes, None] = {}
        for at, key, value in entries:
            if at >= offset:
                break
            if value is None:
                self.durable.pop(key, None)
            else:
                self.durable[key] = value
            changed[key] = None
        self.offset = offset
        for key in changed:
            if key.startswith(keyspace.STATE):
                self._index(key)
        return changed

    def _index(self, key: bytes) -> None:
        value = self.durable.get(key)
        now = index_keys(decode_state(value)) if value is not None else ()
        self.index_keys += len(now) - len(self.indexed.pop(key, ()))
        if now:
            self.indexed[key] = now


class StoreChecks:
    """Shadows of all stores that are open."""

    def __init__(self, broker: SimulatedBroker) -> None:
        self._broker = broker
        self._shadows: dict[tuple[str, int], Shadow] = {}
        self._turns = 0

    def after_turn(self, process: "DispatcherProcess") -> None:
        self._turns += 1
        taken = process.engine._fleet.offers._taken
        require(not taken, "slots taken in a turn are settled with it", process.name)
        for seat in process.engine.seats.values():
            # A restore that took long may end in the midst of a log that was compacted further on: then its store
            # lacks what is superseded there. Its claim is refused, since the shard has another owner by then.
            if isinstance(seat.store, JournaledStore) and seat.reads:
                self._check(process.name, seat.number, seat.store)
        if isinstance(process.engine._standbys, Standbys):
            self._check_copies(process.name, process.engine._standbys)
        if self._turns % FULL_EVERY == 0:
            self.in_full(process)

    def in_full(self, process: "DispatcherProcess") -> None:
        """Compare everything, memory too."""
        if any(seat.stage is Stage.CLAIMING for seat in process.engine.seats.values()):
            return  # see above
        try:
            check_engine(process.engine, self._broker)
        except AssertionError as error:
            raise Violation("memory, store and log agree", f"{process.name}: {error}") from error

    def _check_copies(self, name: str, standbys: Standbys) -> None:
        """Compare those that are indexed, and read as far as the log is compacted: before, they lack what is not there."""
        for number, copy in standbys._running.items():
            store = copy.store
            is_raw = store.get(keyspace.INDEXED) != b"" or copy.is_read
            if is_raw or store.offset < self._broker.clean_to(number):
                continue
            assert isinstance(store, JournaledStore)
            self._check(name, number, store)

    def _check(self, name: str, shard: int, store: JournaledStore) -> None:
        shadow = self._shadows.get((name, shard))
        if shadow is None or shadow.store is not store:
            shadow = self._shadows[name, shard] = Shadow(store)
            store.written.update(dict.fromkeys(store.contents.values))
        if not store.written and shadow.offset == store.offset:
            return
        changed = shadow.follow(self._entries(shard, shadow.offset), store.offset)
        written, store.written = store.written, {}
        values = store.contents.values
        for key in (*changed, *(key for key in written if key.startswith(DURABLE))):
            require(values.get(key) == shadow.durable.get(key), PREFIX, f"{name}, shard {shard}: {key!r}")
        for key in (*changed, *written):
            if key.startswith(keyspace.STATE):
                missing = [one for one in shadow.indexed.get(key, ()) if one not in values]
                require(not missing, INDEX, f"{name}, shard {shard}: {key!r} lacks {missing}")
        wanted = len(shadow.durable) + shadow.index_keys + (keyspace.INDEXED in values)
        require(len(values) == wanted, INDEX, f"{name}, shard {shard}: {len(values)} keys, not {wanted}")

    def _entries(self, shard: int, start: int) -> Iterator[tuple[int, bytes, bytes | None]]:
        for offset, stored in self._broker.settled_from("changelog", shard, start):
            yield offset, stored.key or b"", stored.value
