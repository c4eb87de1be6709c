"""Taking up a shard: after a take-over, a dropped turn, an unknown outcome. docs/DESIGN.md, sections 7, 10 and 11."""

from collections.abc import Iterator

from tests.model.bounds import Bounds
from tests.model.rules import Rules
from tests.model.state import (
    ACTIVE,
    ADOPTING,
    LEASE,
    LEASED,
    REVOKE,
    Dispatcher,
    Job,
    Notice,
    Renewal,
    State,
    Step,
)
from tests.model.turns import NAMES, Turns


class Adopting:
    """From memory that is as the changelog has it to a shard that grants again."""

    def __init__(self, rules: Rules, bounds: Bounds, turns: Turns) -> None:
        self._rules = rules
        self._bounds = bounds
        self._turns = turns

    # -- what makes a dispatcher adopt -----------------------------------------------------------------

    def commit(self, state: State, number: int, me: Dispatcher) -> Iterator[Step]:
        """End an open turn, well or not."""
        name = NAMES[number]
        committed = self._turns.commit(state, number, me)
        if committed is not None:
            yield Step(f"{name} commits", committed)
        if number != state.owner or not state.can.aborts:
            return
        dropped = self._dropped(state, number, me)
        if dropped is not None:
            yield Step(
                f"the transaction of {name} is aborted, and it drops the turn", dropped, fault="aborts"
            )
        # Like an abort, but what was decided holds: only the notices are gone.
        unheard = state._replace(job=me.job, position=me.position)
        adopting = self._adopt(unheard, number, me, dropped=True)
        if adopting is not None:
            text = f"{name} commits, does not learn so, and starts over"
            yield Step(text, adopting, fault="aborts")

    def _dropped(self, state: State, number: int, me: Dispatcher) -> State | None:
        if not self._rules.dropped_turn_undone:
            return state.with_dispatcher(number, me._replace(turn=()))
        if self._rules.slots_given_back and not self._rules.offers_repeated:
            taken = {notice.worker for notice in me.turn.notices if notice.kind == LEASE}
            me = me._replace(offers=tuple(sorted(taken.union(me.offers))))
        return self._adopt(state, number, me, dropped=True)

    def take_over(self, state: State) -> Iterator[Step]:
        """Give the shard to the other dispatcher, which restores it, fences the old owner, and adopts."""
        new = 1 - state.owner
        last = self._old_owner(state.dispatchers[state.owner])
        after = state.with_dispatcher(state.owner, last)._replace(owner=new)
        me = after.dispatchers[new]
        if me.stage:
            me = self._turns.lost(me)
        adopting = self._adopt(after, new, me, dropped=False)
        if adopting is not None:
            yield Step(f"{NAMES[new]} takes the shard over", adopting, fault="takeovers")

    def _old_owner(self, last: Dispatcher) -> Dispatcher:
        if last.turn and not self._rules.predecessor_fenced:
            return last._replace(turn=last.turn._replace(outlives=True))
        return last if self._bounds.old_owner_acts and not last.turn else self._turns.lost(last)

    # -- adopting ------------------------------------------------------------------------------------

    def _adopt(self, state: State, number: int, me: Dispatcher, *, dropped: bool) -> State | None:
        me = me._replace(
            stage=ADOPTING,
            job=state.job,
            position=state.position,
            renewal=self._renewal(state.job, me.renewal, dropped=dropped),
            awaits=False,  # only an echo from now on counts
            proves=False,
            turn=(),
        )
        state = state.with_dispatcher(number, me)
        return state if self._rules.adopts_by_echo else self.adopted(state, number, me)

    def _renewal(self, job: Job, known: Renewal | tuple[()], *, dropped: bool) -> Renewal | tuple[()]:
        """The entry of the live lease: what was read stays read, and one that is new here begins anew."""
        if job.phase != LEASED:
            return () if self._rules.grant_overwrites else known
        if known and known.epoch == job.epoch:
            survives = self._rules.renewals_survive_drop or not dropped
            return known if survives else Renewal(job.epoch, 0, self._bounds.first)
        period = self._bounds.lease if self._rules.fresh_period_whole else self._bounds.first
        return Renewal(job.epoch, 0 if self._rules.fresh_period else period, period)

    def adopted(self, state: State, number: int, me: Dispatcher) -> State | None:
        """Grant again, and send the live lease once more, or its revoke."""
        me = me._replace(stage=ACTIVE)
        job = me.job
        if job.phase == LEASED and job.ending and self._rules.revokes_sent_again:
            return self._turns.decide(state, number, me, Notice(REVOKE, job.worker, job.epoch))
        if job.phase == LEASED and not job.ending and self._rules.leases_sent_again:
            lease = Notice(LEASE, job.worker, job.epoch, job.offer_age)
            return self._turns.decide(state, number, me, lease)
        return state.with_dispatcher(number, me)
