"""What standbys read and ask, over the broker and the group in memory."""

from collections.abc import Callable

from scheduler.dispatcher.ports import Peer, PositionLost, Restored
from tests.dispatcher.fault_broker import FaultBroker
from tests.dispatcher.fault_log import FaultLog


class FaultFollower:
    """Reads in small slices what has committed, a slice of each shard a poll."""

    def __init__(self, broker: FaultBroker, slice_records: int = 100) -> None:
        self._broker = broker
        self.slice_records = slice_records
        self.next: dict[int, int] = {}
        self.begun: list[tuple[int, int]] = []  # shard and offset of each `follow`
        self.starts: dict[int, int] = {}  # where logs begin that have lost their beginning
        self.before_poll: Callable[[], None] = lambda: None

    def follow(self, shard: int, offset: int) -> None:
        assert shard not in self.next, f"shard {shard} is followed already"
        self.begun.append((shard, offset))
        self.next[shard] = self.starts.get(shard, 0) if offset < 0 else offset

    def poll(self) -> list[Restored]:
        self.before_poll()
        for shard, offset in self.next.items():
            if not self.starts.get(shard, 0) <= offset <= len(self._broker.log("changelog", shard)):
                del self.next[shard]
                raise PositionLost("changelog", shard, offset, -1, -1)
        slices = [self._slice(shard) for shard in self.next]
        return [each for each in slices if each is not None]

    def _slice(self, shard: int) -> Restored | None:
        start = self.next[shard]
        found = list(self._broker.read("changelog", shard, start))[: self.slice_records]
        end = self._broker.stable_end("changelog", shard)
        if len(found) == self.slice_records:
            end = found[-1][0] + 1
        if end <= start:
            return None
        self.next[shard] = end
        entries = [(stored.key or b"", stored.value) for _, stored in found]
        at_ms = found[-1][1].at_ms if found else 0
        return Restored(shard, entries, end, end == self._broker.stable_end("changelog", shard), at_ms)

    def lag(self, shard: int) -> int:
        return len(self._broker.log("changelog", shard)) - self.next.get(shard, 0)

    def stop(self, shard: int) -> None:
        self.next.pop(shard, None)

    def close(self) -> None:
        self.next.clear()


class GroupRoster:
    """Answers a poll later, from the group as it is then."""

    def __init__(self, log: FaultLog) -> None:
        self._log = log
        self._asked = False
        self.asked = 0

    def ask(self) -> None:
        self.asked += not self._asked
        self._asked = True

    def answer(self) -> list[Peer] | None:
        if not self._asked:
            return None
        self._asked = False
        group = self._log.group
        members = group.joined - group.evicted
        return [Peer(f"member-{name}", name, frozenset(group.shards_of(name))) for name in sorted(members)]
