"""Who is at fault when the broker refuses a record: the job whose run emitted it, or the inputs of the turn."""

from collections.abc import Iterable

from scheduler.core.outputs import MessageOut
from scheduler.dispatcher.intake import Intake
from scheduler.dispatcher.ports import MustAbort, Record
from scheduler.dispatcher.seat import Seat, Stage
from scheduler.dispatcher.suspicion import Suspicion


class Blame:
    """Says who is at fault, to those who act on it when the inputs come again."""

    def __init__(self, intake: Intake, suspicion: Suspicion) -> None:
        """Tell `intake` of emits, `suspicion` of inputs."""
        self._intake = intake
        self._suspicion = suspicion

    def refused(self, error: MustAbort, seats: Iterable[Seat], taken: list[Record]) -> None:
        """Blame an abort. Without a refused record the world is at fault (a broker away, a rebalance)."""
        if error.topic and not self._emits(error, seats):
            self._suspicion.failed(taken)

    def crashed(self, record: Record) -> None:
        """Blame the record that was decided about when something unexpected was raised."""
        self._suspicion.blame(record)

    def _emits(self, error: MustAbort, seats: Iterable[Seat]) -> bool:
        """Blame a refused record on the job whose run emitted it; return whether it is certain which one that was.

        If several emitted to that topic under that key, their completions are suspected like any other inputs
        until they are taken alone.
        """
        blamed = {
            output.job_id
            for seat in seats
            if seat.stage is not Stage.RESTORING
            for output in seat.shard.changes.outputs
            if isinstance(output, MessageOut) and (output.topic, output.key) == (error.topic, error.key)
        }
        if len(blamed) != 1:
            return False
        self._intake.refused_emits |= blamed
        return True
