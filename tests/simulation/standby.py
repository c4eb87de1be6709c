"""What a simulated dispatcher's standbys read and ask: while the link is whole, and not at once."""

from typing import TYPE_CHECKING

from scheduler.dispatcher.ports import LogError, Peer, Restored
from tests.dispatcher.standby_ports import FaultFollower
from tests.simulation.broker import SimulatedBroker
from tests.simulation.group import Group

if TYPE_CHECKING:
    from tests.simulation.dispatcher import DispatcherProcess


class SimulatedFollower(FaultFollower):
    """Follows changelogs while the link is whole."""

    def __init__(self, process: "DispatcherProcess", broker: SimulatedBroker, slice_records: int) -> None:
        super().__init__(broker, slice_records)
        self._link = process.link

    def poll(self) -> list[Restored]:
        if not self._link.is_whole:
            raise LogError("no broker")
        return super().poll()


class SimulatedRoster:
    """Tells who is in the group as of some time after it was asked, if the coordinator is in reach then."""

    def __init__(self, process: "DispatcherProcess", group: Group) -> None:
        self._process = process
        self._group = group
        self._asked = False
        self._told: list[Peer] | None = None

    def ask(self) -> None:
        if not self._asked:
            self._asked = True
            self._process.timeline.after(self._process.world.delay_ms(), self._answered)

    def answer(self) -> list[Peer] | None:
        told, self._told = self._told, None
        return told

    def _answered(self) -> None:
        self._asked = False
        if not self._process.link.is_whole or self._process.lost_coordinator:
            return
        group = self._group
        self._told = [
            Peer(
                member.member_id,
                name,
                frozenset(shard for shard, holder in group.holders.items() if holder == name),
            )
            for name, member in group.members.items()
        ]
