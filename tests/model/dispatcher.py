"""What a dispatcher does: it reads, grants, watches leases, and commits; an old one may not know yet that it is old."""

from collections.abc import Iterator

from tests.model.adopting import Adopting
from tests.model.bounds import Bounds
from tests.model.log import Inboxes
from tests.model.reading import Reading, left, looks_due
from tests.model.rules import Rules
from tests.model.state import (
    ABSENT,
    ACTIVE,
    ADOPTING,
    DEAD,
    ECHO,
    LEASE,
    LEASED,
    READY,
    REVOKE,
    TIMEOUT,
    Dispatcher,
    Notice,
    Renewal,
    Report,
    State,
    Step,
)
from tests.model.turns import NAMES, Turns


class DispatcherSteps:
    """The steps of either dispatcher."""

    def __init__(self, rules: Rules, bounds: Bounds, inboxes: Inboxes, window: int) -> None:
        """Take `window`, the age at which an offer can start nothing more."""
        self._rules = rules
        self._bounds = bounds
        self._offer_ages = range(window + 1)
        self._turns = Turns(rules, bounds, inboxes)
        self._adopting = Adopting(rules, bounds, self._turns)
        self._reading = Reading(rules, bounds, self._turns, self._adopting)

    def steps(self, state: State, number: int) -> Iterator[Step]:
        """Go through everything that one dispatcher may do next."""
        me = state.dispatchers[number]
        if me.echoes and len(state.log) < self._bounds.log:
            yield Step(f"the echo of {NAMES[number]} is in the log", self._echo_arrives(state, number, me))
        if not me.stage:
            return
        if number != state.owner:
            lost = state.with_dispatcher(number, self._turns.lost(me))
            yield Step(f"{NAMES[number]} learns that it has lost the shard", lost)
        if me.turn:
            yield from self._adopting.commit(state, number, me)
        elif number == state.owner and me.position != state.position:
            yield Step(f"{NAMES[number]} commits its positions", state._replace(position=me.position))
        if self._turns.may_decide(state, number):
            yield from self._reading.steps(state, number, me)
            yield from self._watch(state, number, me)
            yield from self._grant(state, number, me)

    def take_over(self, state: State) -> Iterator[Step]:
        """Let the other one have the shard."""
        return self._adopting.take_over(state)

    # -- leases that live ------------------------------------------------------------------------------

    def _watch(self, state: State, number: int, me: Dispatcher) -> Iterator[Step]:
        name = NAMES[number]
        due = looks_due(me)
        if not me.awaits and (me.stage == ADOPTING or due):
            yield Step(f"{name} sends an echo", state.with_dispatcher(number, with_echo(me, proves=due)))
        if me.stage != ACTIVE:
            return
        if due and not self._rules.echo_read_back:
            after = self._reading.expire(state, number, me, timer_only=True)
            if after is not None:
                yield Step(f"{name} takes epoch {me.job.epoch} for expired", after)
        if state.can.timeouts and me.job.phase == LEASED and not me.job.ending:
            after = self._time_out(state, number, me)
            if after is not None:
                yield Step(f"{name} ends epoch {me.job.epoch} at its time-out", after, fault="timeouts")

    @staticmethod
    def _echo_arrives(state: State, number: int, me: Dispatcher) -> State:
        sequence, *rest = me.echoes
        state = state._replace(log=(*state.log, Report(ECHO, number, sequence)))
        return state.with_dispatcher(number, me._replace(echoes=tuple(rest)))

    def _time_out(self, state: State, number: int, me: Dispatcher) -> State | None:
        job = me.job
        revoke = Notice(REVOKE, job.worker, job.epoch)
        if self._rules.timeout_by_ending:
            me = me._replace(job=job._replace(ending=TIMEOUT))
        else:
            me = me._replace(job=left(job, READY), renewal=())
        return self._turns.decide(state, number, me, revoke, timer_only=True)

    # -- the grant -------------------------------------------------------------------------------------

    def _grant(self, state: State, number: int, me: Dispatcher) -> Iterator[Step]:
        job = me.job
        if me.stage != ACTIVE or job.phase != READY or job.epoch >= self._bounds.epochs:
            return
        epoch = job.epoch + 1 if self._rules.epochs_rise else max(job.epoch, 1)
        for worker in range(len(state.workers)):
            if not self._has_offer(state, me, worker):
                continue
            # The log may have held an offer back for any time, so it is of any age when it is answered.
            for age in self._offer_ages:
                lease = Notice(LEASE, worker, epoch, age)
                after = self._turns.decide(state, number, self._granted(me, lease), lease, timer_only=True)
                if after is not None:
                    text = f"{NAMES[number]} grants epoch {epoch} to %s, whose offer is {age} ticks old"
                    yield Step(text, after, worker)

    def _has_offer(self, state: State, me: Dispatcher, worker: int) -> bool:
        """Say whether an offer may be there. One that is repeated may be, always; then nobody keeps account."""
        life = state.workers[worker].life
        if life == ABSENT or (life == DEAD and self._rules.offers_expire):
            return False
        return self._rules.offers_repeated or worker in me.offers

    def _granted(self, me: Dispatcher, lease: Notice) -> Dispatcher:
        job = me.job._replace(phase=LEASED, epoch=lease.epoch, worker=lease.worker, offer_age=lease.offer_age)
        if self._rules.grant_overwrites or not me.renewal or me.renewal.epoch != lease.epoch:
            me = me._replace(renewal=Renewal(lease.epoch, 0, self._bounds.first))
        offers = tuple(worker for worker in me.offers if worker != lease.worker)
        return me._replace(job=job, offers=offers, proves=False)


def with_echo(me: Dispatcher, *, proves: bool) -> Dispatcher:
    """Return a dispatcher that has just sent an echo."""
    sequence = me.sequence + 1
    return me._replace(sequence=sequence, awaits=True, proves=proves, echoes=(*me.echoes, sequence))
