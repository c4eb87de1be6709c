"""One shard: its jobs as a view over the store with this turn's changes on top.

Handlers (`admission`, `reporting`, `granting`, `wakeups`) read states here and put new ones; nothing they
decide is true before the turn has committed. Then `batch` gives what the store is to write, indexes
included, and `applied` or `dropped` brings memory in line with the store again.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from scheduler.core import keyspace
from scheduler.core.changes import Changes, NoticeOut
from scheduler.core.fleet import Fleet
from scheduler.core.head import Head
from scheduler.core.index import index_keys
from scheduler.core.inputs import SUBMITS, Input
from scheduler.core.job import FAILED, LEASED, READY, JobState
from scheduler.core.leases import Leases, Renewal
from scheduler.core.notices import Notice
from scheduler.core.outputs import SubmitsRead
from scheduler.core.spec import JobSpec


class View(Protocol):
    """The shard's store, decoded."""

    def state(self, job_id: str) -> JobState | None:
        """Return a job's state."""

    def raw_spec(self, job_id: str) -> bytes | None:
        """Return a job's record as submitted."""

    def decode_spec(self, raw: bytes) -> JobSpec:
        """Return a stored record decoded."""

    def scan(self, start: bytes, stop: bytes, limit: int) -> Sequence[tuple[bytes, bytes]]:
        """Return at most `limit` entries with start <= key < stop, in key order."""


class Shard:
    """The decisions of one shard in one turn, over its store."""

    def __init__(self, number: int, view: View, fleet: Fleet, leases: Leases, *, epoch: int) -> None:
        """Begin on a store that holds the shard's whole state; `epoch` is the last one given."""
        self.number = number
        self.fleet = fleet
        self.leases = leases
        self.epoch = epoch
        self.changes = Changes()
        self.read_up_to_ms: dict[Input, int] = dict.fromkeys(SUBMITS, 0)
        self._heard_ms = [0] * fleet.shards  # up to when the submits of each shard are known to be acted upon
        self.forgets_up_to_ms = 0  # the least of them
        self._view = view
        self._live: dict[str, JobState] = {}
        # Some of the ready jobs in the store, so that granting need not read and decode them.
        self._ready: dict[str, JobState] = {}
        self._ready_specs: dict[str, bytes] = {}
        self._ready_kept = _READY_KEPT // fleet.shards
        self._committed_epoch = epoch
        self._grants = False  # not while adopting
        self._lanes: set[bytes] = set()
        self._added: list[bytes] = []  # index keys that this turn's batch puts
        self.timers = Head(keyspace.TIMER, keyspace.after(keyspace.TIMER), view.scan, on_disk=True)
        self.drops = Head(keyspace.DROP, keyspace.after(keyspace.DROP), view.scan, on_disk=True)
        self.load()

    # -- reading -----------------------------------------------------------------------------------

    def state(self, job_id: str) -> JobState | None:
        """Return a job's state as of this point in the turn."""
        changes = self.changes
        if job_id in changes.states:
            return changes.states[job_id]
        if job_id in changes.read:
            return changes.read[job_id]
        stored = self._live.get(job_id) or self._ready.get(job_id) or self._view.state(job_id)
        changes.read[job_id] = stored
        return stored

    def raw_spec(self, job_id: str) -> bytes | None:
        """Return a job's record as submitted, as of this point in the turn."""
        specs = self.changes.specs
        if job_id in specs:
            return specs[job_id]
        return self._ready_specs.get(job_id) or self._view.raw_spec(job_id)

    def spec(self, job_id: str) -> JobSpec | None:
        """Return a job's record decoded."""
        raw = self.raw_spec(job_id)
        return None if raw is None else self._view.decode_spec(raw)

    def live(self) -> Iterator[JobState]:
        """Go through all leased jobs as of the last commit."""
        return iter(list(self._live.values()))

    def scan(self, start: bytes, stop: bytes, limit: int) -> Sequence[tuple[bytes, bytes]]:
        """Scan the store as of the last commit."""
        return self._view.scan(start, stop, limit)

    # -- deciding ----------------------------------------------------------------------------------

    def put(self, new: JobState) -> None:
        """Let `new` be the state of its job."""
        old = self.state(new.job_id)
        self.changes.states[new.job_id] = new
        if new.phase is READY and self._grants and (old is None or old.phase is not READY):
            self._line_up(new)

    def drop(self, job_id: str) -> None:
        """Forget a job altogether."""
        old = self.state(job_id)
        self.changes.states[job_id] = None
        if old is not None and old.phase is FAILED:
            self.changes.specs[job_id] = None  # the others' records went at their end

    def put_spec(self, job_id: str, raw: bytes) -> None:
        """Keep a job's record."""
        self.changes.specs[job_id] = raw

    def drop_spec(self, job_id: str) -> None:
        """Let a job's record go."""
        self.changes.specs[job_id] = None

    def next_epoch(self) -> int:
        """Return a new epoch; they rise over the whole shard, so a forgotten id that returns starts higher."""
        self.epoch += 1
        return self.epoch

    def notify(self, pool: str, inbox: int, notice: Notice) -> None:
        """Send a notice once the turn has committed."""
        self.changes.notices.append(NoticeOut(pool, inbox, notice))

    def settle(self, job_id: str, busy_ms: float) -> Renewal | None:
        """End a live lease: forget its renewals and settle what was charged with what it took."""
        entry = self.leases.ended(job_id)
        if entry is not None and entry.payer is not None:
            entry.payer.charge(busy_ms - entry.charged_ms)
        return entry

    # -- forgetting --------------------------------------------------------------------------------

    def hear(self, word: SubmitsRead) -> None:
        """Take note of up to when the submits of some shards were acted upon."""
        for number in word.shards:
            if 0 <= number < len(self._heard_ms):
                self._heard_ms[number] = max(self._heard_ms[number], word.up_to_ms)
        self.forgets_up_to_ms = min(self._heard_ms)

    def unheard_since(self, at_ms: int) -> list[int]:
        """Return the shards whose submits nobody has said to be acted upon up to then."""
        return [number for number, up_to_ms in enumerate(self._heard_ms) if up_to_ms < at_ms]

    def unhear(self) -> None:
        """Go back to before any word: what stood ahead of it in `commands` is to be read again."""
        self._heard_ms = [0] * len(self._heard_ms)
        self.forgets_up_to_ms = 0

    # -- granting ----------------------------------------------------------------------------------

    def begin_granting(self) -> None:
        """Let ready jobs be chosen: those of the store, and those of this turn."""
        self._grants = True
        self.fleet.matcher.load(self.number, list(self._read_lanes()), self._view.scan)
        for state in self.changes.states.values():
            if state is not None and state.phase is READY:
                self._line_up(state)

    def stop_granting(self) -> None:
        """Admit, but let nothing be chosen until `begin_granting`."""
        self._grants = False
        self._lanes.clear()
        self.fleet.matcher.unload(self.number)

    def _line_up(self, state: JobState) -> None:
        lane, key = keyspace.place_of(state)
        self._lanes.add(lane)
        self.fleet.matcher.push(self.number, lane, key, self._view.scan)

    # -- after the transaction ---------------------------------------------------------------------

    def batch(
        self, entries: Sequence[tuple[bytes, bytes | None]]
    ) -> tuple[list[tuple[bytes, bytes]], list[bytes]]:
        """Return the puts and deletes that bring the store to this turn's end.

        They are the `entries` that went into the changelog, and what follows from them in the indexes.
        """
        deletes = [key for key, value in entries if value is None]
        added: list[bytes] = []
        read = self.changes.read
        for job_id, new in self.changes.states.items():
            index_delta(read[job_id], new, added, deletes)
        puts = [(key, value) for key, value in entries if value is not None]
        puts += [(key, b"") for key in added]
        self._added = added
        return puts, deletes

    def applied(self) -> None:
        """Say that the store has written `batch`; begin the next turn."""
        self._remember()
        for key in self._added:
            if key[0] == _TIMER:
                self.timers.push(key)
            elif key[0] == _DROP:
                self.drops.push(key)
        self.timers.applied()
        self.drops.applied()
        self.fleet.matcher.applied(self.number, self._lanes)
        self._lanes.clear()
        self._committed_epoch = self.epoch
        self.changes = Changes()

    def _remember(self) -> None:
        """Keep the states that will be asked for soon: all leased ones, and ready ones while there is room."""
        live, ready, specs = self._live, self._ready, self._ready_specs
        for job_id, new in self.changes.states.items():
            if new is not None and new.phase is LEASED:
                live[job_id] = new
            else:
                live.pop(job_id, None)
            if new is not None and new.phase is READY and len(ready) < self._ready_kept:
                ready[job_id] = new
            else:
                ready.pop(job_id, None)
                specs.pop(job_id, None)
        for job_id, raw in self.changes.specs.items():
            if raw is not None and len(raw) <= _READY_SPEC_BYTES and job_id in ready:
                specs[job_id] = raw
            else:
                specs.pop(job_id, None)

    def dropped(self) -> None:
        """Say that the turn came to nothing; bring memory back to what the store holds."""
        self.changes = Changes()
        self.epoch = self._committed_epoch
        self.stop_granting()
        self.timers.reset()
        self.drops.reset()
        self.load()
        live = self._live.values()
        self.leases.keep_only({(state.job_id, state.epoch) for state in live})

    def load(self) -> None:
        """Read the live leases from the store."""
        self._ready.clear()
        self._ready_specs.clear()
        self._live = {state.job_id: state for state in self._read_leased()}

    def _read_leased(self) -> Iterator[JobState]:
        for key in walk(self._view.scan, keyspace.LEASED):
            state = self._view.state(key[1:].decode())
            if state is None or state.phase is not LEASED:
                raise AssertionError(f"shard {self.number}: index and state of {key[1:]!r} differ")
            yield state

    def _read_lanes(self) -> Iterator[bytes]:
        start, stop = keyspace.READY, keyspace.after(keyspace.READY)
        while found := self._view.scan(start, stop, 1):
            lane = keyspace.lane_of(found[0][0])
            yield lane
            start = keyspace.after(lane)


def index_delta(old: JobState | None, new: JobState | None, added: list[bytes], deletes: list[bytes]) -> None:
    """Add to a batch what takes the indexes from `old` to `new`: the only place that maintains them."""
    before, now = index_keys(old), index_keys(new)
    for key in now:  # loops: a comprehension costs more than these one or two keys
        if key not in before:
            added.append(key)  # noqa: PERF401
    for key in before:
        if key not in now:
            deletes.append(key)  # noqa: PERF401


def walk(
    scan: Callable[[bytes, bytes, int], Sequence[tuple[bytes, bytes]]], prefix: bytes
) -> Iterator[bytes]:
    """Go through the keys that begin with `prefix`, a bounded scan at a time."""
    start, stop = prefix, keyspace.after(prefix)
    while found := scan(start, stop, _WALK):
        yield from (key for key, _ in found)
        start = found[-1][0] + b"\0"


_WALK = 1_024
_READY_KEPT = 32_768  # over all shards: with their records, at most 64 MiB
_READY_SPEC_BYTES = 1_024
_TIMER = keyspace.TIMER[0]
_DROP = keyspace.DROP[0]
