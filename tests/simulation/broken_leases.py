"""Broken variants of leases at the dispatcher.

Whose echo it is (`Adopting.echo_read`) is not among them: another owner's would have to bear just the number that is
waited for, and to have been appended before what is unread. `dispatcher/test_adoption.py` and
`dispatcher/test_expiry.py` fail without it.
"""

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from scheduler.core import leases, moment, reporting, wakeups
from scheduler.core.job import Ending, Phase, grant_of, move
from scheduler.dispatcher import adopting, seat
from tests.simulation.breaking import Patches, variant


@variant("a clock can't tell whether a renewal lies unread", "deaf", 12, first=2)
def expiry_by_time_alone() -> Patches:
    original = adopting.Adopting.send_echoes

    def impatient(self: Any, held: Any, mono_ms: int) -> None:
        original(self, held, mono_ms)
        for each in held.values():
            if each.stage is seat.Stage.ACTIVE:
                now = moment.Moment(self._clock.now_ms(mono_ms), mono_ms, NoChance())
                wakeups.expire_leases(each.shard, now, mono_ms)

    yield patch.object(adopting.Adopting, "send_echoes", impatient)


@variant(
    "the echo must have been produced a whole period after the last renewal, not just read then", "long runs"
)
def expiry_by_any_echo() -> Patches:
    original = leases.Leases.echo_read

    def read_now(self: Any, sequence: int) -> int | None:
        produced_at_ms = original(self, sequence)
        return None if produced_at_ms is None else produced_at_ms + 20_000

    yield patch.object(leases.Leases, "echo_read", read_now)


@variant("beats are heard and not counted", "long runs")
def renewals_not_counted() -> Patches:
    yield patch.object(leases.Leases, "renewed", lambda self, entry, mono_ms: None)


@variant("a report of an epoch that is over ends the live lease", "deaf", 8)
def stale_epoch_accepted() -> Patches:
    yield patch.object(reporting, "_claim", _claim_without("epoch"))


@variant("whoever guesses an epoch ends somebody's lease", "deaf", 8)
def wrong_token_accepted() -> Patches:
    yield patch.object(reporting, "_claim", _claim_without("token"))


@variant("a checkpoint of a run that is over takes the place of the live one's", "deaf", 8)
def stale_checkpoint_accepted() -> Patches:
    original = reporting._claim
    lax = _claim_without("epoch")

    def claim(each: Any, now: Any, report: Any, sender: Any, phases: Any, kind: str) -> Any:
        how = lax if kind == "checkpoint" else original
        return how(each, now, report, sender, phases, kind)

    yield patch.object(reporting, "_claim", claim)


@variant("a completion counts though its job went to somebody else", "deaf", 8)
def any_done_completes() -> Patches:
    original = reporting._claim
    lax = _claim_without("epoch")

    def claim(each: Any, now: Any, report: Any, sender: Any, phases: Any, kind: str) -> Any:
        how = lax if kind == "done" else original
        return how(each, now, report, sender, phases, kind)

    yield patch.object(reporting, "_claim", claim)


@variant(
    "a lease that is being ended is over only by its worker's word or by expiry", "hand-overs", 32, first=20
)
def timeout_frees_the_job_at_once() -> Patches:
    original = wakeups.resend_leases

    def freed(each: Any) -> int:
        for state in each.live():
            current = each.state(state.job_id)
            if current is state and str(grant_of(state).ending):
                each.leases.ended(state.job_id)
                each.put(move(state, Phase.READY))
        return original(each)

    yield patch.object(adopting, "resend_leases", freed)


@variant(
    "the worker goes by the acknowledgements of its beats, also while it is asked to stop",
    "deaf workers",
    8,
    first=1,
)
def ending_leases_not_renewed() -> Patches:
    original = reporting._renew

    def renew(each: Any, now: Any, state: Any, held: Any) -> None:
        given = grant_of(state)
        if given.ending is Ending.NONE:
            original(each, now, state, held)
        else:
            each.notify(given.pool, given.inbox, reporting.revoke_of(each, state, str(given.ending)))

    yield patch.object(reporting, "_renew", renew)


@variant("a completion that comes twice ends its job twice", "everything", 4, first=2)
def done_after_the_end_counts() -> Patches:
    original = reporting._claim

    def claim(each: Any, now: Any, report: Any, sender: Any, phases: Any, kind: str) -> Any:
        return original(each, now, report, sender, frozenset(Phase) if kind == "done" else phases, kind)

    yield patch.object(reporting, "_claim", claim)


class NoChance:
    """Chance for what should not need any."""

    def fraction(self) -> float:
        return 0.5

    def token(self) -> bytes:
        raise AssertionError("no lease is granted here")


def _claim_without(what: str) -> Callable[..., Any]:
    def claim(each: Any, now: Any, report: Any, sender: Any, phases: Any, kind: str) -> Any:
        state = each.state(report.job_id)
        given = state.grant if state is not None else None
        if given is not None and state.phase in phases:
            epoch = what == "epoch" or given.epoch == report.epoch
            token = what in ("epoch", "token") or given.token == report.token
            if epoch and token:
                return state
        reporting._refuse(each, now, report, sender, state, kind)
        return None

    return claim
