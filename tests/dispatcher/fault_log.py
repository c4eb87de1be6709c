"""The dispatcher's log with a group, transactions and faults on request; it also checks the order of calls."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from scheduler.core.inputs import TOPIC_OF, Input
from scheduler.dispatcher.ports import (
    Budget,
    Fenced,
    MustAbort,
    OutcomeUnknown,
    Outgoing,
    Polled,
    PositionLost,
    Record,
    Restored,
)
from scheduler.testing.memory_log import MemoryChangelog, MemoryLog
from tests.dispatcher.fault_broker import FaultBroker

Faults = deque[Callable[["FaultLog"], None]]


class Group:
    """Who owns which shard, as the coordinator has it; members learn of it in their next poll."""

    def __init__(self) -> None:
        self.owners: dict[int, str] = {}
        self.joined: set[str] = set()
        self.evicted: set[str] = set()

    def assign(self, owner: str, shards: Iterable[int]) -> None:
        self.owners.update(dict.fromkeys(shards, owner))

    def shards_of(self, owner: str) -> set[int]:
        return {shard for shard, whose in self.owners.items() if whose == owner}


class FaultLog(MemoryLog):
    """One member. `fail` queues faults by step; `refused` says which records the broker refuses."""

    def __init__(self, broker: FaultBroker, group: Group, owner: str, wall_ms: Callable[[], int]) -> None:
        super().__init__(broker, wall_ms)
        self._broker: FaultBroker = broker
        self.group = group
        self.owner = owner
        self.member = f"member-{owner}"
        self._join()
        self.calls: deque[str] = deque(maxlen=1_000)
        self.fences: list[dict[tuple[int, Input], int]] = []
        self.deleted: list[dict[tuple[int, Input], int]] = []
        self.paused: set[tuple[int, Input]] = self._paused
        self.refused: Callable[[Outgoing], bool] = lambda _: False
        self.lost_positions: list[PositionLost] = []
        self.silent: set[tuple[int, Input]] = set()  # inputs whose leader is out of reach
        self.epochs: dict[tuple[int, Input], int] = {}  # what it says of their leaders' epochs
        self.followed: dict[
            int, dict[Input, int]
        ] = {}  # the leaders' epochs each shard was last followed with
        self.owned: set[int] = set()
        self.read_at_most: int | None = None
        self._faults: dict[str, Faults] = {}
        self._again: set[int] = set()
        self._polls = 0

    def _join(self) -> None:
        self.group.joined.add(self.owner)

    # -- faults ----------------------------------------------------------------------------------------

    def fail(self, step: str, fault: Callable[["FaultLog"], None]) -> None:
        """Let `fault` happen at the next passage of `step` (poll, begin, flush, fence, commit, abort, reopen)."""
        self._faults.setdefault(step, deque()).append(fault)

    def rejoin(self, shards: Iterable[int]) -> None:
        """Let the next poll report these shards as lost and gained."""
        self._again |= set(shards)

    def _pass(self, step: str) -> None:
        self.calls.append(step)
        waiting = self._faults.get(step)
        if waiting:
            waiting.popleft()(self)

    # -- reading ---------------------------------------------------------------------------------------

    def poll(self, budget: Budget, wait_ms: int) -> Polled:
        self._polls += 1
        self._pass("poll")
        if self.lost_positions:
            raise self.lost_positions.pop(0)
        gained, lost = self._assigned()
        for shard in lost:
            self.unfollow(shard)
        polled = Polled([], gained, lost, [])
        most = budget.records if self.read_at_most is None else min(budget.records, self.read_at_most)
        for key in sorted(self._next, key=lambda key: (key[1], key[0])):
            if key not in self._paused and key not in self.silent:
                self._read(key, most - len(polled.records), polled)
        polled.ends = {key: end for key, end in self._answer().items() if key not in self.silent}
        return polled

    def _assigned(self) -> tuple[list[int], list[int]]:
        """Return the shards gained and lost since the last poll."""
        assigned = self.group.shards_of(self.owner)
        if (
            self.owner in self.group.evicted
        ):  # thrown out meanwhile: it joins again, and begins anew with all it gets
            self.group.evicted.discard(self.owner)
            self._again = set(assigned)
        again, self._again = self._again & self.owned & assigned, set()
        lost = sorted((self.owned - assigned) | again)
        gained = sorted((assigned - self.owned) | again)
        self.owned = assigned
        return gained, lost

    def _read(self, key: tuple[int, Input], limit: int, polled: Polled) -> None:
        shard, source = key
        end = self._broker.stable_end(TOPIC_OF[source], shard)
        for offset, stored in self._broker.read(TOPIC_OF[source], shard, self._next[key]):
            if limit <= 0:
                return
            limit -= 1
            polled.records.append(Record(source, shard, offset, stored.at_ms, stored.key, stored.value))
            self._next[key] = offset + 1
            self._ended.discard(key)
        if end > self._next[key]:  # markers and what was aborted: the client tells of the new end
            self._next[key] = end
            self._ended.discard(key)
        if key not in self._ended:
            self._ended.add(key)
            polled.ended.append((shard, source, self._next[key]))

    def metadata(self) -> object:
        return self._polls

    def unfollow(self, shard: int) -> None:
        super().unfollow(shard)
        for held in (self._paused, self._ended):
            held.difference_update([key for key in held if key[0] == shard])

    def follow(
        self, shard: int, offsets: dict[Input, int], leader_epochs: dict[Input, int] | None = None
    ) -> None:
        assert shard in self.owned, f"shard {shard} is not ours"
        self._ended.difference_update([(shard, source) for source in offsets])
        self.followed[shard] = dict(leader_epochs or {})
        super().follow(shard, offsets)

    def leader_epochs(self, shard: int, offsets: dict[Input, int]) -> dict[Input, int]:
        assert all((shard, source) in self._next for source in offsets), "asked of what is not followed"
        return {source: self.epochs[shard, source] for source in offsets if (shard, source) in self.epochs}

    def rewind(self, offsets: dict[tuple[int, Input], int]) -> None:
        for key, offset in offsets.items():
            if key in self._next:
                self._next[key] = offset
                self._ended.discard(key)

    def resume(self, shard: int, source: Input, offset: int) -> None:
        super().resume(shard, source, offset)
        self._ended.discard((shard, source))

    # -- the transaction ---------------------------------------------------------------------------------

    @property
    def in_transaction(self) -> bool:
        return bool(self.calls) and self.calls[-1] in ("begin", "flush", "fence")

    def begin(self) -> None:
        assert not self.in_transaction, "the last transaction is still open"
        self._transaction = []
        self._broker.begin_transaction(self.owner, self._wall_ms())
        self._pass("begin")

    def produce_changelog(self, shard: int, entries: Sequence[tuple[bytes, bytes | None]]) -> None:
        self.produce(Outgoing("changelog", shard, key, value) for key, value in entries)

    def produce(self, records: Iterable[Outgoing]) -> None:
        assert self.calls[-1] == "begin"
        for record in records:
            if self.refused(record):
                raise MustAbort(f"{record.topic} refused", topic=record.topic, key=record.key)
            self._transaction.append(record)

    def flush(self) -> dict[int, int]:
        assert self.calls[-1] == "begin"
        last: dict[int, int] = {}
        for record in self._transaction:
            topic = record.topic if not record.foreign else f"foreign:{record.topic}"
            partition = max(record.partition, 0)
            offset = self._broker.append(
                topic, partition, record.key, record.value, at_ms=self._wall_ms(), headers=record.headers
            )
            self._broker.add_pending(self.owner, topic, partition, offset)
            if record.topic == "changelog":
                last[record.partition] = offset
        self._pass("flush")
        return last

    def fence(self, offsets: dict[tuple[int, Input], int], metadata: object) -> None:
        assert self.calls[-1] == "flush"
        assert any(source is Input.REPORTS for _, source in offsets), "a transaction without a fence"
        assert all(offset >= 0 for offset in offsets.values()), offsets
        self.fences.append(offsets)
        self._pass("fence")
        self._check_member(metadata)
        self._raise_if_fenced()

    def commit(self) -> None:
        assert self.calls[-1] == "fence"
        self._pass("commit")
        self._raise_if_fenced()
        self._end(commit=True)

    def abort(self) -> None:
        self._pass("abort")
        self._end(commit=False)

    def _check_member(self, metadata: object) -> None:
        assert metadata == self._polls, "group metadata of another poll"
        if self.owner in self.group.evicted:
            raise MustAbort("unknown member")

    def _raise_if_fenced(self) -> None:
        if self.owner in self._broker.timed_out:
            raise Fenced("the coordinator has ended the transaction")

    def _end(self, *, commit: bool) -> None:
        self._broker.end_transaction(self.owner, commit=commit, at_ms=self._wall_ms())

    def reopen(self) -> None:
        self._end(commit=False)
        self._broker.timed_out.discard(self.owner)
        self._pass("reopen")

    def close(self) -> None:
        self.group.joined.discard(self.owner)
        super().close()

    def members(self) -> frozenset[str]:
        return frozenset(f"member-{owner}" for owner in self.group.joined - self.group.evicted)

    def fence_owner(self, owner: str, member: str) -> bool:
        self._pass("fence_owner")
        if owner not in self.group.evicted:
            return False
        self._broker.end_transaction(owner, commit=False, at_ms=self._wall_ms())
        self._broker.timed_out.add(owner)  # should it wake up, its producer is of no use
        return True

    # -- outside of it ------------------------------------------------------------------------------------

    def release(self, records: Iterable[Outgoing]) -> None:
        assert not self.in_transaction, "notices leave only after their commit"
        self._pass("release")
        super().release(records)

    def echo(self, shard: int, value: bytes) -> None:
        self._pass("echo")
        super().echo(shard, value)

    def delete_before(self, offsets: dict[tuple[int, Input], int]) -> None:
        self.deleted.append(offsets)


def abort(log: FaultLog) -> None:
    """The coordinator aborts; no record is at fault."""
    raise MustAbort("aborted by the coordinator")


def fenced(log: FaultLog) -> None:
    """Somebody else took the transactional id."""
    raise Fenced("fenced")


def unknown_committed(log: FaultLog) -> None:
    """The commit happened, but its answer was lost."""
    log._end(commit=True)
    raise OutcomeUnknown("no answer")


def unknown_aborted(log: FaultLog) -> None:
    """The commit did not happen, and its answer was lost."""
    log._end(commit=False)
    raise OutcomeUnknown("no answer")


class FaultChangelog(MemoryChangelog):
    """Reads in small slices, up to the end as of `begin`, and no further than an open transaction lets it.

    Each second poll finds nothing, so that a restore takes a slice a turn, though no time passes in one.
    """

    def __init__(self, broker: FaultBroker, slice_records: int = 100) -> None:
        super().__init__(broker)
        self._broker: FaultBroker = broker
        self._slice_records = slice_records
        self._ends: dict[int, int] = {}
        self._handed_over = False

    def begin(self, shard: int, offset: int) -> None:
        super().begin(shard, offset)
        self._ends[shard] = len(self._broker.log("changelog", shard))

    def poll(self, wait_ms: int) -> list[Restored]:
        self._handed_over = not self._handed_over
        if not self._handed_over:
            return []
        return [self._slice(shard, start) for shard, start in list(self._begun.items())]

    def _slice(self, shard: int, start: int) -> Restored:
        entries, position = [], start
        for offset, stored in self._broker.read("changelog", shard, start):
            if len(entries) == self._slice_records:
                break
            entries.append((stored.key or b"", stored.value))
            position = offset + 1
        else:
            position = max(position, self._broker.stable_end("changelog", shard))
        self._begun[shard] = position
        done = position >= self._ends[shard]
        if done:
            self.stop(shard)
        return Restored(shard, entries, position, done)

    def held_back(self, shard: int) -> bool:
        position = self._begun.get(shard)
        return (
            position is not None
            and position == self._broker.stable_end("changelog", shard) < self._ends[shard]
        )
