"""What a worker process decides about its leases: docs/DESIGN.md, section 7, the worker's side.

Pure: time is an argument (milliseconds of a monotonic clock that counts suspended time), nothing here waits,
sends or kills. Each method takes one event and returns the actions that follow from it, to be performed in
their order. `tick` is due at `next_ms`.

Two things keep a job from running twice at once. A run goes on only while `now < deadline`, and a deadline is
always counted from the *sending* of something that the dispatcher can only have read later: an offer (then
the dispatcher waits a whole first period after its grant), or a beat (a whole lease period after it read it).
And every method looks at deadlines before it looks at its event, so an acknowledgement that is handled too
late, because this process was stopped for a while, revives nothing.
"""

from collections import Counter

from scheduler.core import bounds
from scheduler.core.notices import Lease, Revoke
from scheduler.core.reports import Beat, Checkpoint, Freed, ReleaseReason
from scheduler.core.spec import JobSpec
from scheduler.worker.actions import (
    RUN_IS_OVER,
    Action,
    ConfirmSave,
    GuardRun,
    KillRun,
    Outcome,
    StartRun,
    StopReason,
    StopRun,
    Succeeded,
)
from scheduler.worker.desk import Desk, SessionConfig
from scheduler.worker.fitting import cut, fitted
from scheduler.worker.memory import EndedEpochs
from scheduler.worker.offers import NEVER
from scheduler.worker.outbox import Mail
from scheduler.worker.reporter import End, Reporter
from scheduler.worker.runs import Killed, Run, RunTable


class Session:
    """The leases, offers and beats of one worker process."""

    def __init__(self, config: SessionConfig) -> None:
        """Begin without a slot: `on_capacity` brings them up."""
        self._config = config
        self._timing = config.timing
        self._boot_id = config.sender.boot_id
        self.counts: Counter[str] = Counter()
        self._runs = RunTable()
        self._desk = Desk(config, self._runs, self.counts)
        self._reporter = Reporter(config.sender)
        self._ended = EndedEpochs(config.timing.first_ms)
        self._superseding: dict[str, tuple[Lease, JobSpec | None]] = {}
        self._number = 0
        self._draining = False
        self._stop_at_ms = NEVER
        self._kill_at_ms = NEVER
        self._linger_until_ms = 0

    # -- what happens at Kafka ------------------------------------------------------------------------

    def on_lease(self, lease: Lease, spec: JobSpec | None, now_ms: int) -> list[Action]:
        """Start a job, or say why not. `spec` is the lease's record decoded; None if it can't be."""
        if lease.boot_id != self._boot_id:
            self.counts["foreign"] += 1
            return []
        self._enforce(now_ms)
        run = self._runs.of_job(lease.job_id)
        if run is not None and run.lease.epoch == lease.epoch:
            self._beat_now(run, now_ms)  # its shard was adopted and it is asked for: answer with a beat
        elif self._is_past(lease.job_id, lease.epoch, run, now_ms):
            self.counts["stale_leases"] += 1
        elif run is not None:
            # It was granted anew, so the old epoch has expired. Two runs of a job may never overlap.
            self._supersede(run, lease, spec)
        else:
            self._accept(lease, spec, now_ms)
        return self._finish(now_ms)

    def on_revoke(self, revoke: Revoke, now_ms: int) -> list[Action]:
        """Stop a run and hand it back; answer for an epoch never seen, once."""
        if revoke.boot_id != self._boot_id:
            self.counts["foreign"] += 1
            return []
        self._enforce(now_ms)
        run = self._runs.of_job(revoke.job_id)
        if run is not None and run.lease.epoch == revoke.epoch:
            if run.lease.token == revoke.token:
                self._stop(run, revoke.reason, now_ms)
            else:
                self.counts["forged_revokes"] += 1
        elif not self._is_past(revoke.job_id, revoke.epoch, run, now_ms):
            self._ended.add(revoke.job_id, revoke.epoch, now_ms)
            self._forget_superseding(revoke.job_id, revoke.epoch)
            release = self._reporter.refused(revoke.job_id, revoke.epoch, revoke.token, ReleaseReason.STOPPED)
            self._desk.send(revoke.shard, release, now_ms)
        return self._finish(now_ms)

    def on_acked(self, ticket: int, now_ms: int) -> list[Action]:
        """Count what Kafka has: a beat renews its leases, a checkpoint is durable."""
        self._enforce(now_ms)
        mail = self._desk.settle(ticket)
        if mail is not None and isinstance(mail.report, Beat):
            self._renewed(mail, now_ms)
        elif mail is not None and isinstance(mail.report, Checkpoint):
            self._desk.actions.append(ConfirmSave(mail.runs[0], mail.number))
        return self._finish(now_ms)

    def on_failed(self, ticket: int, now_ms: int, *, retriable: bool, why: str) -> list[Action]:
        """See to a report that Kafka does not have."""
        self._enforce(now_ms)
        mail = self._desk.settle(ticket)
        if mail is not None:
            self._desk.undelivered(mail, now_ms, retriable=retriable, why=why)
        return self._finish(now_ms)

    # -- what happens here --------------------------------------------------------------------------------

    def on_capacity(self, capacity: int, now_ms: int) -> list[Action]:
        """Say how many slots can run something: those of ready and of busy children."""
        self._enforce(now_ms)
        self._desk.book.set_capacity(capacity)
        return self._finish(now_ms)

    def on_began(self, number: int, now_ms: int) -> list[Action]:
        """Say that a child has got the run; its time counts from now."""
        self._enforce(now_ms)
        run = self._runs.get(number)
        if run is not None:
            run.began_ms = now_ms
            run.limit_ms = now_ms + run.lease.timeout_ms
            self._desk.wake_at(run.limit_ms)
        return self._finish(now_ms)

    def on_finished(self, number: int, outcome: Outcome, now_ms: int) -> list[Action]:
        """Report a run whose handler ended by itself.
        Deadlines are not looked at first: what is finished needs no ending, and whether it still counts is
        for the dispatcher to say, by the epoch. A run that is being killed counts only if it succeeded.
        """
        run = self._runs.get(number)
        if (
            run is not None
            and run.killed is not Killed.SUPERSEDED
            and (run.killed is None or isinstance(outcome, Succeeded))
        ):
            self._end(run, now_ms)
            freed = self._desk.freed(run.kind, run.lease.shard, now_ms)
            self._report(run, self._reporter.ended(run, fitted(outcome), now_ms, freed), now_ms)
        self._enforce(now_ms)
        return self._finish(now_ms)

    def on_gone(self, numbers: tuple[int, ...], detail: str, now_ms: int) -> list[Action]:
        """Report the runs of a child that is dead, with its whole process group; `detail` says how it died.
        If it was killed for some of them, by this process or at a deadline by the guard, the others were
        only interrupted. If it died by itself all are taken for the cause, and tried alone from then on.
        """
        runs = [run for run in map(self._runs.get, numbers) if run is not None]
        for run in runs:
            if run.killed is None and now_ms >= run.deadline_ms:
                run.killed = Killed.LOST
        killed = self._runs.were_killed(numbers) or any(run.killed for run in runs)
        for run in runs:
            self._end(run, now_ms)
            if run.killed is not Killed.SUPERSEDED:
                self._report(run, self._obituary(run, detail, now_ms, died_by_itself=not killed), now_ms)
            self._succeed_to(run, now_ms)
        self._enforce(now_ms)
        return self._finish(now_ms)

    def on_save(self, number: int, save: int, data: bytes, now_ms: int) -> list[Action]:
        """Send checkpoint number `save` of a run; `ConfirmSave` follows once Kafka has it."""
        self._enforce(now_ms)
        run = self._runs.get(number)
        if run is None or run.killed is not None:
            self._desk.actions.append(ConfirmSave(number, save, RUN_IS_OVER))
        elif len(data) > bounds.CHECKPOINT_MAX_BYTES:
            why = f"checkpoint of {len(data)} bytes is above {bounds.CHECKPOINT_MAX_BYTES}"
            self._desk.actions.append(ConfirmSave(number, save, why))
        else:
            lease = run.lease
            checkpoint = Checkpoint(self._config.sender, lease.job_id, lease.epoch, lease.token, data)
            self._desk.send(lease.shard, checkpoint, now_ms, (number,), save)
        return self._finish(now_ms)

    def on_progress(self, number: int, fraction: float, note: str) -> None:
        """Keep what a run tells of its progress for its next beat."""
        run = self._runs.get(number)
        if run is not None:
            run.fraction, run.note = fraction, cut(note, bounds.PROGRESS_NOTE_MAX_BYTES)

    def on_shield(self, number: int, duration_ms: int, now_ms: int) -> list[Action]:
        """Keep a cancel or a drain from killing a run for so long; 0 ends that."""
        run = self._runs.get(number)
        if run is not None:
            run.shield_ms = now_ms + duration_ms if duration_ms else 0
            self._desk.wake_at(now_ms)
        self._enforce(now_ms)
        return self._finish(now_ms)

    def on_over_memory(self, number: int, detail: str, now_ms: int) -> list[Action]:
        """End a run whose child went over its memory bound."""
        self._enforce(now_ms)
        run = self._runs.get(number)
        if run is not None and run.killed is None:
            run.detail = detail
            self._kill(run, Killed.OUT_OF_MEMORY)
        return self._finish(now_ms)

    def on_drain(self, stop_at_ms: int, kill_at_ms: int, now_ms: int, *, hurry: bool = False) -> list[Action]:
        """Take no more leases; ask runs to leave at `stop_at_ms` and kill them at `kill_at_ms`.
        May be called again with earlier times. `hurry` ignores shields.
        """
        self._enforce(now_ms)
        if not self._draining:
            self._draining = True
            if self._desk.withdraw(now_ms):
                self._linger_until_ms = now_ms + self._config.linger_ms
        self._stop_at_ms = min(self._stop_at_ms, stop_at_ms)
        self._kill_at_ms = min(self._kill_at_ms, kill_at_ms)
        if hurry:
            self._linger_until_ms = 0
        for run in self._runs:
            run.shield_ms = 0 if hurry else run.shield_ms
            if run.stop is StopReason.DRAINING:
                run.kill_ms = min(run.kill_ms, self._kill_at_ms)
        self._desk.wake_at(now_ms)
        self._enforce(now_ms)
        return self._finish(now_ms)

    def tick(self, now_ms: int) -> list[Action]:
        """Do what time asks for: deadlines, beats, offers, reports to be tried again."""
        self._enforce(now_ms)
        return self._finish(now_ms)

    def next_ms(self) -> int:
        """Return when `tick` is due next, at the earliest; it may then turn out to have nothing to do."""
        return self._desk.wake_ms

    @property
    def running(self) -> int:
        """How many leases are held."""
        return len(self._runs)

    def unconfirmed(self) -> int:
        """Return how many reports of runs Kafka has not confirmed."""
        return self._desk.unconfirmed()

    def drained(self, now_ms: int) -> bool:
        """Say whether the process may go: nothing runs, and Kafka has every report."""
        idle = not self._runs and not self._desk.unconfirmed()
        return self._draining and idle and now_ms >= self._linger_until_ms

    # -- leases ------------------------------------------------------------------------------------------

    def _accept(self, lease: Lease, spec: JobSpec | None, now_ms: int) -> None:
        if self._draining:
            self._refuse(lease, ReleaseReason.SHUTDOWN, now_ms)
            return
        if not self._desk.book.starts(lease.offer, now_ms):
            self._refuse(lease, ReleaseReason.TOO_LATE, now_ms)
            return
        taken = self._desk.book.take(lease.offer)
        if taken is None:
            self._refuse(lease, ReleaseReason.BUSY, now_ms)
            return
        if spec is None or spec.type not in self._config.types:
            self._desk.book.give_back(taken.kind)
            detail = f"no handler for {spec.type!r}" if spec else "its record can't be read here"
            freed = self._desk.freed(taken.kind, lease.shard, now_ms)
            self._refuse(lease, ReleaseReason.UNKNOWN_TYPE, now_ms, detail, freed)
            return
        self._start(lease, spec, taken.kind, taken.sent_ms, now_ms)

    def _start(self, lease: Lease, spec: JobSpec, kind: int, sent_ms: int, now_ms: int) -> None:
        self._number += 1
        deadline_ms = sent_ms + self._timing.first_ms - self._timing.first_margin_ms
        at_once = lease.suspect or now_ms - sent_ms >= self._timing.first_beat_ms
        beat_ms = now_ms if at_once else now_ms + self._timing.first_beat_ms
        run = Run(self._number, lease, spec, kind, now_ms, deadline_ms, beat_ms)
        self._runs.add(run)
        self._desk.actions.append(StartRun(run.number, lease, spec, deadline_ms))
        self._desk.wake_at(run.wake_ms())

    def _refuse(
        self, lease: Lease, reason: ReleaseReason, now_ms: int, detail: str = "", freed: Freed | None = None
    ) -> None:
        self.counts[f"released_{reason}"] += 1
        self._ended.add(lease.job_id, lease.epoch, now_ms)
        release = self._reporter.refused(
            lease.job_id, lease.epoch, lease.token, reason, detail=detail, freed=freed
        )
        self._desk.send(lease.shard, release, now_ms)

    def _is_past(self, job_id: str, epoch: int, run: Run | None, now_ms: int) -> bool:
        return self._ended.has(job_id, epoch, now_ms) or (run is not None and run.lease.epoch > epoch)

    def _supersede(self, run: Run, lease: Lease, spec: JobSpec | None) -> None:
        waiting = self._superseding.get(lease.job_id)
        if waiting is None or waiting[0].epoch < lease.epoch:
            self._superseding[lease.job_id] = (lease, spec)
        self._kill(run, Killed.SUPERSEDED)

    def _succeed_to(self, run: Run, now_ms: int) -> None:
        waiting = self._superseding.pop(run.lease.job_id, None)
        if waiting is not None:
            self._accept(*waiting, now_ms)

    def _forget_superseding(self, job_id: str, epoch: int) -> None:
        waiting = self._superseding.get(job_id)
        if waiting is not None and waiting[0].epoch <= epoch:
            del self._superseding[job_id]

    def _renewed(self, mail: Mail, now_ms: int) -> None:
        for number in mail.runs:
            run = self._runs.get(number)
            if run is None or now_ms >= run.deadline_ms:
                continue  # too late: the guard may have ended it, and the dispatcher may have given it up
            lease_ms = run.lease.lease_ms
            deadline_ms = mail.sent_ms + lease_ms - self._timing.margin_ms(lease_ms)
            if deadline_ms > run.deadline_ms:
                run.deadline_ms = deadline_ms
                self._desk.actions.append(GuardRun(number, deadline_ms))

    # -- ends ----------------------------------------------------------------------------------------------

    def _stop(self, run: Run, reason: str, now_ms: int) -> None:
        if run.killed is not None:
            return
        if reason != "cancel":
            # Its time is long over, or no such lease lives: it may be running elsewhere already.
            self._kill(run, Killed.STOPPED)
        elif run.stop is not StopReason.CANCELLED:
            run.stop = StopReason.CANCELLED
            run.kill_ms = min(run.kill_ms, now_ms + self._config.grace_ms)
            self._desk.actions.append(StopRun(run.number, StopReason.CANCELLED, run.kill_ms - now_ms))
            self._desk.wake_at(run.wake_ms())

    def _kill(self, run: Run, why: Killed) -> None:
        if run.killed is None:
            self._desk.actions.append(KillRun(run.number))
            self._runs.killing.add(run.number)
        if run.killed is None or why is Killed.SUPERSEDED:
            run.killed = why

    def _end(self, run: Run, now_ms: int) -> None:
        """Forget a run, remember that its epoch has ended; its slot is idle."""
        self._runs.remove(run)
        self._ended.add(run.lease.job_id, run.lease.epoch, now_ms)
        self._desk.book.give_back(run.kind)

    def _obituary(self, run: Run, detail: str, now_ms: int, *, died_by_itself: bool) -> End:
        freed = self._desk.freed(run.kind, run.lease.shard, now_ms)
        if run.killed is not None:
            return self._reporter.killed(run, run.killed, now_ms, freed)
        if died_by_itself and run.began_ms >= 0:
            return self._reporter.released(run, ReleaseReason.CRASHED, now_ms, freed, detail=detail)
        return self._reporter.released(run, ReleaseReason.INTERRUPTED, now_ms, freed)

    def _report(self, run: Run, report: End, now_ms: int) -> None:
        self.counts[type(report).__name__.lower()] += 1
        self._desk.send(run.lease.shard, report, now_ms)

    # -- what time asks for ----------------------------------------------------------------------------------

    def _enforce(self, now_ms: int) -> None:
        """End what may not go on: first of all what is past its deadline."""
        if now_ms < self._desk.wake_ms:
            return
        if self._draining and now_ms >= self._stop_at_ms:
            for run in self._runs:
                if run.stop is None and run.killed is None:
                    self._ask_to_leave(run, now_ms)
        for run, why in self._runs.overdue(now_ms):
            self._kill(run, why)

    def _ask_to_leave(self, run: Run, now_ms: int) -> None:
        run.stop = StopReason.DRAINING
        run.kill_ms = self._kill_at_ms
        if now_ms < run.kill_ms:
            self._desk.actions.append(StopRun(run.number, StopReason.DRAINING, run.kill_ms - now_ms))

    def _finish(self, now_ms: int) -> list[Action]:
        """Add what is due by now, and hand the actions over."""
        self._desk.periodic(now_ms)
        if self._draining:
            for at_ms in (self._stop_at_ms, self._kill_at_ms, self._linger_until_ms):
                self._desk.wake_at(at_ms if at_ms > now_ms else NEVER)
        actions, self._desk.actions = self._desk.actions, []
        return actions

    def _beat_now(self, run: Run, now_ms: int) -> None:
        if now_ms < run.deadline_ms:
            run.beat_ms = min(run.beat_ms, now_ms)
            self._desk.wake_at(now_ms)
