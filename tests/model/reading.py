"""What a dispatcher makes of what it reads: reports, echoes, a cancel. docs/DESIGN.md, section 7, *Ends* and *Beats*."""

from collections.abc import Iterator

from tests.model.adopting import Adopting
from tests.model.bounds import Bounds
from tests.model.rules import Rules
from tests.model.state import (
    ADOPTING,
    BEAT,
    CANCEL,
    CANCELLED,
    DONE,
    ECHO,
    ENDED,
    LEASED,
    READY,
    REVOKE,
    SUCCEEDED,
    Dispatcher,
    Job,
    Notice,
    Renewal,
    Report,
    State,
    Step,
)
from tests.model.turns import NAMES, Turns


class Reading:
    """The inputs of a turn."""

    def __init__(self, rules: Rules, bounds: Bounds, turns: Turns, adopting: Adopting) -> None:
        self._rules = rules
        self._lease_period = bounds.lease
        self._turns = turns
        self._adopting = adopting

    def steps(self, state: State, number: int, me: Dispatcher) -> Iterator[Step]:
        """Read the next report, or the cancel."""
        name = NAMES[number]
        if me.position < len(state.log):
            report = state.log[me.position]
            past = me._replace(position=me.position + 1)
            if report.kind == ECHO:
                text, after = self._echo(state, number, past, report)
                worker = -1
            else:
                text, after = self._report(state, number, past, report)
                worker = report.worker
            if after is not None:
                yield Step(f"{name} reads {text}", after, worker)
        if state.cancel_asked and not me.job.cancel_read:
            after = self._cancel(state, number, me)
            if after is not None:
                yield Step(f"{name} reads the cancel", after)

    # -- reports ---------------------------------------------------------------------------------------

    def _report(self, state: State, number: int, me: Dispatcher, report: Report) -> tuple[str, State | None]:
        text = f"the {report.kind} of epoch {report.epoch} by %s"
        if report.kind == BEAT:
            if is_live(me.job, report.epoch):
                return text, self._beat(state, number, me)
        else:
            me = self._with_freed_slot(me, report.worker)
            job = self._job_after(me.job, report)
            if job is not None:
                return text, self._turns.decide(state, number, me._replace(job=job, renewal=()))
        return f"{text}, which names no live lease", self._refuse(state, number, me, report)

    def _with_freed_slot(self, me: Dispatcher, worker: int) -> Dispatcher:
        if self._rules.offers_repeated:
            return me
        return me._replace(offers=tuple(sorted({*me.offers, worker})))

    def _beat(self, state: State, number: int, me: Dispatcher) -> State | None:
        job = me.job
        if not job.ending or self._rules.ending_renews:
            period = self._lease_period if self._rules.whole_period_after_renewal else me.renewal.period
            me = me._replace(renewal=Renewal(job.epoch, 0, period), proves=False)
        if job.ending and self._rules.beat_revokes:
            return self._turns.decide(state, number, me, Notice(REVOKE, job.worker, job.epoch))
        return state.with_dispatcher(number, me)

    def _job_after(self, job: Job, report: Report) -> Job | None:
        """The job after a done, a fail or a release; None if the report does not count."""
        if report.kind == DONE:
            counts = self._completes(job, report.epoch)
            completed = (*job.completed, report.epoch)
            return left(job, SUCCEEDED)._replace(completed=completed) if counts else None
        return handed_back(job) if is_live(job, report.epoch) else None

    def _completes(self, job: Job, epoch: int) -> bool:
        if epoch != job.epoch and self._rules.done_of_latest_epoch:
            return False
        if job.phase in ENDED:
            return not self._rules.done_before_the_end
        return job.phase == LEASED or (job.phase == READY and self._rules.late_done_counts)

    def _refuse(self, state: State, number: int, me: Dispatcher, report: Report) -> State | None:
        if not self._rules.stale_report_revoked:
            return state.with_dispatcher(number, me)
        revoke = Notice(REVOKE, report.worker, report.epoch)
        if self._rules.notices_are_durable:
            return self._turns.decide(state, number, me, revoke)
        return self._turns.send(state.with_dispatcher(number, me), revoke)

    # -- the cancel --------------------------------------------------------------------------------------

    def _cancel(self, state: State, number: int, me: Dispatcher) -> State | None:
        job = me.job._replace(cancel_read=True)
        if job.phase == READY:
            return self._turns.decide(state, number, me._replace(job=left(job, CANCELLED)))
        if job.phase != LEASED:
            return self._turns.decide(state, number, me._replace(job=job))
        revoke = Notice(REVOKE, job.worker, job.epoch)
        if self._rules.cancel_by_ending:
            return self._turns.decide(state, number, me._replace(job=job._replace(ending=CANCEL)), revoke)
        return self._turns.decide(state, number, me._replace(job=left(job, CANCELLED), renewal=()), revoke)

    # -- echoes --------------------------------------------------------------------------------------------

    def _echo(self, state: State, number: int, me: Dispatcher, echo: Report) -> tuple[str, State | None]:
        own = echo.worker == number and me.awaits and echo.epoch == me.sequence
        if not own and self._rules.own_echo_only:
            return "an echo that says nothing to it", state.with_dispatcher(number, me)
        text = "its echo" if own else "somebody's echo, and takes it for its own"
        proves = me.proves if self._rules.echo_after_period and own else looks_due(me)
        if own:
            me = me._replace(awaits=False, proves=False)
        if me.stage == ADOPTING:
            return f"{text}: the shard is adopted", self._adopting.adopted(state, number, me)
        if proves and me.job.phase == LEASED:
            after = self.expire(state, number, me)
            return f"{text}: epoch {me.job.epoch} has expired", after
        return f"{text}, by which nothing has expired", state.with_dispatcher(number, me)

    def expire(self, state: State, number: int, me: Dispatcher, *, timer_only: bool = False) -> State | None:
        """Take the lease back."""
        me = me._replace(job=handed_back(me.job), renewal=())
        return self._turns.decide(state, number, me, timer_only=timer_only)


def is_live(job: Job, epoch: int) -> bool:
    """Say whether an epoch is that of a live lease."""
    return job.phase == LEASED and job.epoch == epoch


def looks_due(me: Dispatcher) -> bool:
    """Say whether the live lease is older than its period, by what was read."""
    return me.job.phase == LEASED and bool(me.renewal) and me.renewal.age >= me.renewal.period


def left(job: Job, phase: str) -> Job:
    """Return the job after its lease."""
    return job._replace(phase=phase, ending="", offer_age=0)


def handed_back(job: Job) -> Job:
    """Return the job after a lease that ended without a completion."""
    return left(job, CANCELLED if job.ending == CANCEL else READY)
