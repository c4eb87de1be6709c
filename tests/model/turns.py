"""A dispatcher's turn: it decides, commits, and then releases what it decided to send. docs/DESIGN.md, section 5.

`None` for a state says that it can't be reached just now: an inbox has no room.
"""

from tests.model.bounds import Bounds
from tests.model.log import Inboxes
from tests.model.rules import Rules
from tests.model.state import LEASE, Dispatcher, Notice, State, Turn

NAMES = ("dispatcher A", "dispatcher B")
NO_TURN = Turn(decisions=0, notices=(), timer_only=True)


class Turns:
    """Deciding, committing, releasing."""

    def __init__(self, rules: Rules, bounds: Bounds, inboxes: Inboxes) -> None:
        self._rules = rules
        self._bounds = bounds
        self._inboxes = inboxes

    def may_decide(self, state: State, number: int) -> bool:
        """Say whether a dispatcher can take something up: it has no turn open, or one that takes more."""
        turn = state.dispatchers[number].turn
        return not turn or (turn.decisions < self._bounds.decisions and number == state.owner)

    def decide(
        self, state: State, number: int, me: Dispatcher, *notices: Notice, timer_only: bool = False
    ) -> State | None:
        """Take what `me` holds now for a turn's decision, and `notices` for what is sent when it has committed."""
        if not self._rules.leases_after_commit and any(notice.kind == LEASE for notice in notices):
            leaked = self.send(state, *notices)
            return leaked and self.decide(leaked, number, me, timer_only=timer_only)
        turn = me.turn or NO_TURN
        timer_only = timer_only and turn.timer_only
        turn = Turn(turn.decisions + 1, turn.notices + notices, timer_only)
        me = me._replace(turn=turn)
        if self._is_refused(state, number, turn):
            # Nobody sees a turn that is bound to be refused, so it needs no states of its own.
            return state.with_dispatcher(number, self.lost(me))
        if not self._bounds.decisions:
            return self.commit(state, number, me)
        has_room = self.send(state, *turn.notices) is not None
        return state.with_dispatcher(number, me) if has_room else None

    def _is_refused(self, state: State, number: int, turn: Turn) -> bool:
        if number == state.owner or turn.outlives:
            return False
        return self._rules.commits_fenced or not turn.timer_only

    def commit(self, state: State, number: int, me: Dispatcher) -> State | None:
        """Make the open turn true, and release what it sends."""
        committed = state._replace(job=me.job, position=me.position)
        sent = self.send(committed, *me.turn.notices)
        return sent and sent.with_dispatcher(number, me._replace(turn=()))

    def send(self, state: State, *notices: Notice) -> State | None:
        """Put notices into their inboxes."""
        sent: State | None = state
        for notice in notices:
            sent = sent and self._inboxes.put(sent, notice)
        return sent

    def lost(self, me: Dispatcher) -> Dispatcher:
        """Return what is left of a dispatcher that has lost the shard."""
        return Dispatcher(
            renewal=() if self._rules.loss_clears_renewals else me.renewal,
            sequence=me.sequence if self._rules.echoes_never_numbered_alike else 0,
            echoes=me.echoes,
        )
