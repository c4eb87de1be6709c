"""A dispatcher's log and changelogs over the simulated broker, by a link that may be cut at every step."""

from collections.abc import Collection, Iterable
from functools import partial
from typing import TYPE_CHECKING

from scheduler.core.inputs import TOPIC_OF, Input
from scheduler.dispatcher.ports import (
    Budget,
    Fenced,
    LogError,
    MustAbort,
    OutcomeUnknown,
    Outgoing,
    Polled,
    PositionLost,
    Restored,
)
from tests.dispatcher.fault_broker import Place
from tests.dispatcher.fault_log import FaultChangelog, FaultLog
from tests.simulation.broker import SimulatedBroker
from tests.simulation.group import Group
from tests.simulation.violation import require

if TYPE_CHECKING:
    from tests.simulation.dispatcher import DispatcherProcess


class SimulatedLog(FaultLog):
    """One member of the simulated group."""

    def __init__(self, process: "DispatcherProcess", broker: SimulatedBroker, group: Group) -> None:
        timeline = process.timeline
        super().__init__(broker, group, process.name, lambda: timeline.ms)
        self._process = process
        self._link = process.link
        self.member = ""
        self._metadata = self._polled = ("", -1)  # as of now, and as of the last poll
        self.records_read = 0
        self.deaf_to: set[Input] = set()  # inputs whose leader does not answer
        self._gone: set[tuple[int, Input]] = set()  # inputs whose loss was told
        self._questions = 0
        self._told: dict[tuple[int, Input], int] = {}  # by leaders, of where inputs end

    def _join(self) -> None:
        """It joins at its first poll."""

    def _pass(self, step: str) -> None:
        self._process.passes(step)
        super()._pass(step)

    # -- membership --------------------------------------------------------------------------------

    def heartbeat(self) -> None:
        """Do what the client's own thread does between polls; one that was thrown out joins again."""
        member = self.group.heartbeat(self.owner, self._wall_ms())
        self._metadata = (member.member_id, self.group.generation)

    def metadata(self) -> object:
        return self._polled

    def poll(self, budget: Budget, wait_ms: int) -> Polled:
        if not self._link.is_whole:
            self._pass("poll")
        if not self._link.is_whole:
            return Polled([], [], [], [])
        polled = super().poll(budget, wait_ms)  # without its coordinator it still reads
        self._polled = self._metadata
        self._pass("decide")  # what comes next may take long
        self.records_read += len(polled.records)
        return polled

    def _assigned(self) -> tuple[list[int], list[int]]:
        out_of_reach = self._process.lost_coordinator
        if not out_of_reach:
            self.heartbeat()
        member = self._metadata[0]
        if member != self.member:  # new, or thrown out meanwhile: the client tells that before anything else
            self.member = member
            lost = set(self.owned)
            again: set[int] = set()
        elif out_of_reach:
            return [], []
        else:
            given_up = set(self.group.give_up(self.owner))
            again = (self._again & self.owned) - given_up
            lost = again | given_up
        self._again = set()
        gained = set() if out_of_reach else set(self.group.take(self.owner)) | again
        self.owned = (self.owned - lost) | gained
        return sorted(gained), sorted(lost)

    def _read(self, key: tuple[int, Input], limit: int, polled: Polled) -> None:
        shard, source = key
        if source in self.deaf_to:
            return
        if key in self._ended and self._next[key] == len(self._broker.log(TOPIC_OF[source], shard)):
            return
        start = self._broker.start(TOPIC_OF[source], shard)
        if self._next[key] < start:
            self._is_gone(key, start)
        else:
            super()._read(key, limit, polled)

    def _is_gone(self, key: tuple[int, Input], start: int) -> None:
        """Say that the next record is deleted: its holder must never meet that, but who lost the shard may."""
        (shard, source), wanted = key, self._next[key]
        holds = self.group.holders.get(shard) == self.owner
        require(not holds, "nothing unread is deleted", f"{self.owner}: {source.name}/{shard}@{wanted}")
        if key not in self._gone:
            self._gone.add(key)
            raise PositionLost(TOPIC_OF[source], shard, wanted, start, -1)

    def ask_ends(self, inputs: Collection[tuple[int, Input]]) -> None:
        """Ask; whoever can't be reached now does not answer."""
        self._told = {}
        self._questions += 1
        if self._link.is_whole:
            places = [(key, (TOPIC_OF[key[1]], key[0])) for key in inputs if key[1] not in self.deaf_to]
            ends = {key: end_of(self._broker, place) for key, place in places}
            self._process.later(partial(self._hear_ends, self._questions, ends))

    def _hear_ends(self, question: int, ends: dict[tuple[int, Input], int]) -> None:
        if self._link.is_whole and question == self._questions:
            self._told = ends

    def _answer(self) -> dict[tuple[int, Input], int]:
        told, self._told = self._told, {}
        return told

    def follow(
        self, shard: int, offsets: dict[Input, int], leader_epochs: dict[Input, int] | None = None
    ) -> None:
        self._gone.difference_update([(shard, source) for source in offsets])
        super().follow(shard, offsets, leader_epochs)

    # -- the transaction ---------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin; the broker hears of it when the first record comes."""
        assert not self.in_transaction, "the last transaction is still open"
        self._transaction = []
        self._pass("begin")

    def flush(self) -> dict[int, int]:
        self._reach(MustAbort)
        self._raise_if_fenced()
        self._broker.begin_transaction(self.owner, self._wall_ms())
        last = super().flush()
        self._hear(MustAbort)
        return last

    def _check_member(self, metadata: object) -> None:
        self._reach(MustAbort)
        if self._process.lost_coordinator:
            self._process.pause(200)
        if self._process.lost_coordinator:
            raise MustAbort("the coordinator can't be reached")
        if metadata is not None and not self.group.knows(*metadata):
            raise MustAbort("illegal generation")

    def commit(self) -> None:
        assert self.calls[-1] == "fence"
        self._pass("commit")
        if self._link.up.is_cut:
            transaction = self._broker.transaction_of(self.owner)
            self._process.later(partial(self._commit_late, transaction))
            self._reach(OutcomeUnknown)
        self._raise_if_fenced()
        if self._broker.is_open(self.owner, self._broker.transaction_of(self.owner)):
            self._end(commit=True)
        self._hear(OutcomeUnknown)

    def _commit_late(self, transaction: int) -> None:
        """Let a request arrive that nobody waits for any more."""
        if self._broker.is_open(self.owner, transaction) and self.owner not in self._broker.timed_out:
            self._process.note("commit arrives late")
            self._end(commit=True)

    def abort(self) -> None:
        self._reach(Fenced)
        super().abort()

    def reopen(self) -> None:
        self._reach(Fenced)
        super().reopen()

    def _reach(self, error: type[LogError]) -> None:
        """Ask the broker, as often as the client's patience lasts."""
        if self._link.up.is_cut:
            self._process.wait_for_broker()
            if self._link.up.is_cut:
                raise error("the broker can't be reached")

    def _hear(self, error: type[LogError]) -> None:
        """Wait for the broker's answer."""
        if self._link.down.is_cut:
            self._process.wait_for_broker()
            if self._link.down.is_cut:
                raise error("the broker does not answer")

    # -- outside of it -----------------------------------------------------------------------------

    def release(self, records: Iterable[Outgoing]) -> None:
        assert not self.in_transaction, "notices leave only after their commit"
        self._pass("release")
        for record in records:
            self._process.released(record)
            self._send(partial(self._append, record))

    def echo(self, shard: int, value: bytes) -> None:
        self._pass("echo")
        self._send(partial(super(FaultLog, self).echo, shard, value))

    def _send(self, arrive: partial[object]) -> None:
        self._link.up.send(arrive)
        if self._process.is_doubled():
            self._process.later(arrive)

    def members(self) -> frozenset[str]:
        if self._process.lost_coordinator or not self._link.is_whole:
            raise LogError("no broker")
        return frozenset(member.member_id for member in self.group.members.values())

    def fence_owner(self, owner: str, member: str) -> bool:
        if member in self.members():
            return False
        self._broker.end_transaction(owner, commit=False, at_ms=self._wall_ms())
        self._broker.timed_out.add(owner)
        return True

    def delete_before(self, offsets: dict[tuple[int, Input], int]) -> None:
        if self._link.is_whole:
            for (shard, source), offset in offsets.items():
                self._broker.delete_before(TOPIC_OF[source], shard, offset)

    def close(self) -> None:
        if self._link.is_whole:
            self.group.leave(self.owner)


def end_of(broker: SimulatedBroker, place: Place) -> int:
    """Return where a partition ends, as its leader has it, open transactions included."""
    return len(broker.log(*place))


class SimulatedChangelog(FaultChangelog):
    """Reads changelogs while the link is whole."""

    def __init__(self, process: "DispatcherProcess", broker: SimulatedBroker, slice_records: int) -> None:
        super().__init__(broker, slice_records)
        self._link = process.link

    def begin(self, shard: int, offset: int) -> None:
        if not self._link.is_whole:
            raise LogError("no broker")
        super().begin(shard, offset)

    def poll(self, budget_ms: int) -> list[Restored]:
        return super().poll(budget_ms) if self._link.is_whole else []
