"""Who is at fault when a turn fails by its own doing: one job, or the inputs of the turn."""

from collections.abc import Iterable

from scheduler.core.crash import JobCrashed
from scheduler.core.outputs import MessageOut
from scheduler.dispatcher.ports import MustAbort, Record, TopicStuck
from scheduler.dispatcher.seat import Seat, Stage
from scheduler.dispatcher.set_aside import SetAside
from scheduler.dispatcher.suspicion import Suspicion
from scheduler.dispatcher.unpublishable import Unpublishable


class Blame:
    """Says who is at fault, to those who act on it when the inputs come again."""

    def __init__(self, unpublishable: Unpublishable, suspicion: Suspicion, set_aside: SetAside) -> None:
        """Tell `unpublishable` of emits, `suspicion` of inputs, `set_aside` of jobs."""
        self._unpublishable = unpublishable
        self._suspicion = suspicion
        self._set_aside = set_aside

    def refused(self, error: MustAbort, seats: Iterable[Seat], taken: list[Record], mono_ms: int) -> None:
        """Blame an abort. Without a refused record the world is at fault (a broker away, a rebalance)."""
        if isinstance(error, TopicStuck):
            self._unpublishable.timed_out(error.topic, mono_ms)
        elif error.topic and not self._emits(error, seats):
            self._suspicion.failed(taken)

    def crashed(self, record: Record) -> None:
        """Blame the record that was decided about when something unexpected was raised."""
        self._suspicion.blame(record)

    def job_crashed(self, crash: JobCrashed, taken: list[Record]) -> None:
        """Set a job aside; if it was so already, or none is known, an input brought it on.

        Raises `crash` if nobody is left to blame, and if no more can be set aside.
        """
        jobs = self._set_aside.jobs
        if crash.job_id and crash.job_id not in jobs:
            if self._set_aside.full():
                raise crash
            jobs.add(crash.job_id)
        elif taken:
            self._suspicion.failed(taken)
        elif not crash.job_id:
            raise crash

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
        self._unpublishable.jobs |= blamed
        return True
