"""What a worker process does. It knows nothing but itself, its inbox, and what Kafka acknowledged to it.

docs/DESIGN.md, section 7: *Starting and running*, and the worker's side of *Beats* and *Ends*.
"""

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from tests.model.bounds import Bounds
from tests.model.rules import Rules
from tests.model.state import (
    ABSENT,
    AT_DEADLINE,
    BEAT,
    BY_ITSELF,
    DEAD,
    DONE,
    FAIL,
    LEASE,
    NO_ACK,
    RELEASE,
    REVOKE,
    STOPPED,
    UP,
    Notice,
    Report,
    Sending,
    Worker,
)


class Move(NamedTuple):
    """A step of one worker: what becomes of it, and the report that gets into the log by it."""

    text: str
    worker: Worker
    report: Report | tuple[()] = ()
    fault: str = ""
    run_ends: str = ""


class WorkerSteps:
    """The steps of any worker process. They are worked out once for each value that a worker takes."""

    def __init__(self, rules: Rules, bounds: Bounds) -> None:
        self._rules = rules
        margin = bounds.margin if rules.stops_a_margin_early else 0
        first = bounds.first if rules.starts_within_first_period else bounds.lease
        self.window = first - margin  # an offer can start something for so long
        self._renewed_for = bounds.lease - margin  # and so long a beat lets a run go on
        self._remembers_for = bounds.first
        self.moves = cache(self._moves)
        self.older = cache(self._older)

    def _moves(self, number: int, worker: Worker) -> list[Move]:
        moves = [*self._life(worker), *self._sending(number, worker)]
        if worker.life == UP:
            moves += [*self._run(worker), *self._acknowledged(worker), *self._reading(number, worker)]
        return [move._replace(worker=self._tidied(move.worker)) for move in moves]

    # -- the process -----------------------------------------------------------------------------------

    def _life(self, worker: Worker) -> Iterator[Move]:
        if worker.life == ABSENT:
            yield Move("%s starts", worker._replace(life=UP), fault="replacements")
        elif worker.life == STOPPED:
            yield Move("%s goes on", worker._replace(life=UP))
        elif worker.life == UP:
            yield Move("%s is stopped, its children are not", worker._replace(life=STOPPED), fault="stops")
            dead = worker._replace(life=DEAD, run=0 if self._rules.guard_ends_with_parent else worker.run)
            yield Move("%s is killed", dead, fault="kills")
            if worker.outbox:
                yield Move("%s is killed before it has sent all", dead._replace(outbox=()), fault="kills")

    def _tidied(self, worker: Worker) -> Worker:
        """Leave out what can't matter any more, so that fewer states differ."""
        if worker.life == DEAD:
            worker = worker._replace(ended=0, ack=NO_ACK, inbox=())
        if not worker.run:
            worker = worker._replace(left=0, ack=NO_ACK)
        elif self._rules.renewal_from_send and self._renewed_for - worker.ack <= worker.left:
            worker = worker._replace(ack=NO_ACK)
        if not worker.ended or worker.ended_age >= self._remembers_for:
            worker = worker._replace(ended=0, ended_age=0)
        return worker

    # -- reports ---------------------------------------------------------------------------------------

    def _sending(self, number: int, worker: Worker) -> Iterator[Move]:
        if not worker.outbox:
            return
        first, *rest = worker.outbox
        after = worker._replace(outbox=tuple(rest))
        if first.kind == BEAT and worker.life != DEAD:
            yield Move(f"the beat of epoch {first.epoch} by %s is lost", after, fault="losses")
        if first.kind == BEAT and first.epoch == worker.run:
            after = after._replace(ack=first.age)
        report = Report(first.kind, number, first.epoch)
        yield Move(f"the {first.kind} of epoch {first.epoch} by %s is in the log", after, report)

    def _send(self, worker: Worker, kind: str, epoch: int) -> Worker:
        sending = Sending(kind, epoch)
        if sending in worker.outbox:
            return worker  # it could only become one more report without a live lease
        return worker._replace(outbox=(*worker.outbox, sending))

    # -- a run -----------------------------------------------------------------------------------------

    def _run(self, worker: Worker) -> Iterator[Move]:
        epoch = worker.run
        if not epoch:
            return
        if not worker.left:
            yield Move(f"%s ends epoch {epoch}, which is overdue", self._ended(worker, RELEASE))
            return
        yield Move(f"epoch {epoch} succeeds at %s", self._ended(worker, DONE), run_ends=BY_ITSELF)
        yield Move(f"epoch {epoch} fails at %s", self._ended(worker, FAIL), fault="failures")
        # One beat at a time, no two in one tick, and none that could not prolong the run.
        if not worker.outbox and worker.ack != 0 and worker.left < self._renewed_for:
            yield Move(f"%s sends a beat of epoch {epoch}", self._send(worker, BEAT, epoch))

    def _ended(self, worker: Worker, report: str) -> Worker:
        """End the run, remember its epoch and report it."""
        return self._send(self._remembering(worker, worker.run), report, worker.run)._replace(run=0)

    @staticmethod
    def _remembering(worker: Worker, epoch: int) -> Worker:
        return worker._replace(ended=max(epoch, worker.ended), ended_age=0)

    def _acknowledged(self, worker: Worker) -> Iterator[Move]:
        if worker.ack == NO_ACK or (self._rules.deadline_first and not worker.left):
            return
        age = worker.ack if self._rules.renewal_from_send else 0
        left = max(worker.left, self._renewed_for - age)
        text = f"%s hears that the log has the beat which it sent {worker.ack} ticks ago"
        yield Move(text, worker._replace(left=left, ack=NO_ACK))

    # -- the inbox -------------------------------------------------------------------------------------

    def _reading(self, number: int, worker: Worker) -> Iterator[Move]:
        if not worker.inbox or (worker.run and not worker.left):
            return
        notice, *rest = worker.inbox
        worker = worker._replace(inbox=tuple(rest))
        text = f"%s reads the {notice.kind} of epoch {notice.epoch}"
        if notice.worker != number:
            yield Move(f"{text}, which has another boot id", self._foreign(worker, notice))
        elif notice.kind == REVOKE:
            yield Move(text, self._revoked(worker, notice.epoch))
        else:
            yield Move(text, self._leased(worker, notice))
            if not worker.run and notice.epoch > worker.ended:
                drained = self._refused(worker, notice.epoch)
                yield Move(f"%s is draining, and releases epoch {notice.epoch}", drained, fault="drains")

    def _foreign(self, worker: Worker, notice: Notice) -> Worker:
        if not self._rules.acts_on_own_boot_id:
            return (
                self._leased(worker, notice) if notice.kind == LEASE else self._revoked(worker, notice.epoch)
            )
        if not self._rules.foreign_lease_unanswered and notice.kind == LEASE:
            return self._send(worker, RELEASE, notice.epoch)
        return worker

    def _revoked(self, worker: Worker, epoch: int) -> Worker:
        if worker.run == epoch:
            return self._ended(worker, RELEASE)
        if epoch > max(worker.ended, worker.run) and self._rules.unknown_revoke_answered:
            return self._refused(worker, epoch)
        return worker

    def _leased(self, worker: Worker, notice: Notice) -> Worker:
        epoch = notice.epoch
        if worker.run == epoch:
            answers = self._rules.running_lease_answered and not worker.outbox
            return self._send(worker, BEAT, epoch) if answers else worker
        if self._rules.ended_epochs_remembered and epoch <= max(worker.ended, worker.run):
            return worker
        if worker.run:
            worker = self._remembering(worker, worker.run)._replace(run=0)  # superseded, so it is over
        left = self.window - (notice.offer_age if self._rules.deadline_from_offer else 0)
        if left <= 0:
            return self._refused(worker, epoch)
        return worker._replace(run=epoch, left=left, ack=NO_ACK)

    def _refused(self, worker: Worker, epoch: int) -> Worker:
        return self._send(self._remembering(worker, epoch), RELEASE, epoch)

    # -- time ------------------------------------------------------------------------------------------

    def _older(self, worker: Worker) -> Worker:
        """Return the worker a tick of its own clock later."""
        worker = worker._replace(
            ended_age=worker.ended_age + 1,
            ack=worker.ack if worker.ack == NO_ACK else self._older_beat(worker.ack),
            outbox=tuple(self._older_sending(sending, worker.run) for sending in worker.outbox),
            inbox=tuple(self.older_notice(notice) for notice in worker.inbox),
        )
        if worker.left:
            worker = worker._replace(left=worker.left - 1)
            if not worker.left and self._ends_at_deadline(worker):
                worker = self._overdue(worker)
        return self._tidied(worker)

    def _ends_at_deadline(self, worker: Worker) -> bool:
        return self._rules.deadline_first if worker.life == UP else self._rules.guard_ends_overdue

    def _overdue(self, worker: Worker) -> Worker:
        if worker.life == UP:
            return self._ended(worker, RELEASE)
        return self._remembering(worker, worker.run)._replace(run=0)  # the guard killed it, nobody reports

    def _older_sending(self, sending: Sending, run: int) -> Sending:
        if sending.kind != BEAT:
            return sending
        return sending._replace(
            age=self._older_beat(sending.age) if sending.epoch == run else self._renewed_for
        )

    def _older_beat(self, age: int) -> int:
        return min(age + 1, self._renewed_for)

    def older_offer(self, age: int) -> int:
        """Return the age of an offer a tick later; one that can start nothing more grows no older."""
        return min(age + 1, self.window)

    def older_notice(self, notice: Notice) -> Notice:
        """Return a notice on its way a tick later."""
        return (
            notice._replace(offer_age=self.older_offer(notice.offer_age)) if notice.kind == LEASE else notice
        )


def ends_at_deadline(before: tuple[Worker, ...], after: tuple[Worker, ...]) -> str:
    """Say how a run ended by the passing of time, if one did."""
    ended = any(old.run and not new.run for old, new in zip(before, after, strict=True))
    return AT_DEADLINE if ended else ""
