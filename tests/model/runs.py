"""What is searched, and what each search is expected to find.

Bounds are the smallest that show the matter, for one core and a minute or two; `DEEP` is for nights.
"""

from typing import NamedTuple

from tests.model import properties
from tests.model.bounds import SMALLEST, Bounds, bounded
from tests.model.liveness import JOB_STUCK, RUN_GOES_ON

LIVENESS = (JOB_STUCK, RUN_GOES_ON)


class Run(NamedTuple):
    """One search: rules that are off, how far it goes, and the property it must find violated (empty: none)."""

    off: tuple[str, ...]
    bounds: Bounds
    finds: str = ""
    slow: bool = False  # left to `./scripts/model`
    about: str = ""

    @property
    def needs_liveness(self) -> bool:
        """Whether the graph of all states has to be kept; a violation of safety is found without it."""
        return self.finds in {"", *LIVENESS}


def _holds(about: str, bounds: str, *, slow: bool = False) -> Run:
    return Run((), bounded(bounds), slow=slow, about=about)


def _breaks(off: str, finds: str, bounds: str = "", *, slow: bool = False) -> Run:
    return Run(tuple(off.split()), bounded(bounds), finds, slow)


def _harmless(off: str, bounds: str, *, slow: bool = False) -> Run:
    return Run((off,), bounded(bounds), slow=slow)


ALL_ON = (
    _holds("one worker, no fault", ""),
    _holds("a cancel, also of the second lease", "cancels=1"),
    _holds(
        "cancel and time-out, a beat or a notice lost", "cancels=1 timeouts=1 losses=1 epochs=1", slow=True
    ),
    _holds("time-out, failure, a draining worker", "timeouts=1 failures=1 drains=1", slow=True),
    _holds("two workers", "workers=2", slow=True),
    _holds("two workers, one is killed", "workers=2 kills=1", slow=True),
    _holds("two workers, one is stopped, one is killed", "workers=2 stops=1 kills=1 epochs=1"),
    _holds(
        "a worker replaced under its name, stopped, killed",
        "replacements=1 stops=1 kills=1 epochs=1",
        slow=True,
    ),
    _holds("a take-over", "takeovers=1", slow=True),
    _holds("two take-overs", "takeovers=2 epochs=1"),
    _holds(
        "take-over and cancel, an old owner's notice late",
        "takeovers=1 cancels=1 delays=1 epochs=1",
        slow=True,
    ),
    _holds("an abort or an unknown outcome", "aborts=1 decisions=1", slow=True),
    _holds(
        "the same with two decisions a turn, and a cancel",
        "aborts=1 decisions=2 inbox=2 cancels=1 epochs=1",
        slow=True,
    ),
    _holds("an abort or unknown outcome, and a take-over", "aborts=1 decisions=1 takeovers=1 epochs=1"),
    _holds("worker clocks that lose a tick in five", "drift=4", slow=True),
)

BROKEN = (
    _breaks("commits_fenced", properties.DIVERGED, "takeovers=1 old_owner_acts=1 decisions=1"),
    _breaks("predecessor_fenced", properties.DIVERGED, "takeovers=1 old_owner_acts=1 decisions=1"),
    _breaks("dropped_turn_undone", properties.DIVERGED, "aborts=1 decisions=1"),
    _breaks("leases_after_commit", properties.NO_LEASE, "aborts=1 decisions=1"),
    _breaks("notices_are_durable", properties.LIVE_REVOKED, "takeovers=1 old_owner_acts=1"),
    _breaks("offers_repeated", JOB_STUCK, "takeovers=1 epochs=1"),
    _breaks("epochs_rise", properties.EPOCH_NOT_HIGHER),
    _breaks("grant_overwrites", properties.LEASE_LEFT, "aborts=1 decisions=1"),
    _breaks("acts_on_own_boot_id", properties.STARTED_TWICE, "replacements=1"),
    _breaks("foreign_lease_unanswered", properties.LEASE_LEFT, "replacements=1"),
    _breaks("deadline_from_offer", properties.LEASE_LEFT),
    _breaks("starts_within_first_period", properties.LEASE_LEFT),
    _breaks("stops_a_margin_early", properties.LEASE_LEFT, "drift=4"),
    _breaks("ended_epochs_remembered", properties.STARTED_TWICE, "takeovers=1"),
    _breaks("renewal_from_send", properties.LEASE_LEFT, "first=3"),
    _breaks("deadline_first", properties.LEASE_LEFT),
    _breaks("guard_ends_overdue", properties.OVERLAP, "stops=1 workers=2"),
    _breaks("whole_period_after_renewal", properties.LEASE_LEFT),
    _breaks("renewals_survive_drop", properties.LEASE_LEFT, "aborts=1 decisions=1 timeouts=1 epochs=1"),
    _breaks("loss_clears_renewals", properties.LEASE_LEFT, "takeovers=2 epochs=1"),
    _breaks("echo_read_back", properties.LEASE_LEFT),
    _breaks("echo_after_period", properties.LEASE_LEFT, "takeovers=1"),
    _breaks("own_echo_only", properties.LEASE_LEFT, "takeovers=1 epochs=1"),
    _breaks("echoes_never_numbered_alike", properties.LEASE_LEFT, "takeovers=2 epochs=1", slow=True),
    _breaks("timeout_by_ending", properties.LEASE_LEFT, "timeouts=1"),
    _breaks("cancel_by_ending", properties.LEASE_LEFT, "cancels=1"),
    _breaks("ending_renews", properties.LEASE_LEFT, "cancels=1 epochs=1"),
    _breaks("beat_revokes", RUN_GOES_ON, "cancels=1 losses=1 epochs=1"),
    _breaks("done_before_the_end", properties.END_LEFT, "cancels=1 epochs=1"),
    _breaks("done_of_latest_epoch", properties.OLD_COMPLETION, "workers=2"),
    _breaks("fresh_period", properties.LEASE_LEFT, "takeovers=1"),
    _breaks("fresh_period_whole", properties.LEASE_LEFT, "takeovers=1 epochs=1"),
)
"""A rule off, by itself."""

HARMLESS = (
    _harmless("offers_expire", "replacements=1 kills=1 epochs=1"),
    _harmless("slots_given_back", "aborts=1 decisions=1 epochs=1"),
    _harmless("running_lease_answered", "takeovers=1 cancels=1 epochs=1", slow=True),
    _harmless("guard_ends_with_parent", "replacements=1 kills=1 epochs=1"),
    _harmless("stale_report_revoked", "takeovers=1"),
    _harmless("unknown_revoke_answered", "takeovers=1 delays=1 cancels=1 epochs=1", slow=True),
    _harmless("late_done_counts", "failures=1"),
    _harmless("adopts_by_echo", "takeovers=1", slow=True),
    _harmless("leases_sent_again", "takeovers=1 losses=1 epochs=1"),
    _harmless("revokes_sent_again", "takeovers=1 cancels=1 epochs=1", slow=True),
)
"""A rule off without which nothing goes wrong."""

PAIRS = (
    _breaks("slots_given_back offers_repeated", JOB_STUCK, "aborts=1 decisions=1 epochs=1"),
    _breaks("guard_ends_with_parent guard_ends_overdue", properties.OVERLAP, "kills=1 workers=2"),
    _breaks(
        "unknown_revoke_answered beat_revokes",
        RUN_GOES_ON,
        "takeovers=1 delays=1 cancels=1 epochs=1",
        slow=True,
    ),
    _breaks(
        "revokes_sent_again beat_revokes", RUN_GOES_ON, "takeovers=1 losses=1 cancels=1 epochs=1", slow=True
    ),
)
"""Two rules off of which the first is harmless by itself: what it is a second fence for."""

BEYOND = (
    Run((), bounded("drift=1"), properties.LEASE_LEFT, about="worker clocks lose more than the margin"),
    Run((), bounded("margin=2"), JOB_STUCK, about="a margin as long as the first period"),
)
"""All rules on, and an assumption not kept."""

DEEP = (
    _holds("a cancel, time-outs, a failure, a loss", "cancels=1 timeouts=1 failures=1 losses=1"),
    _holds("three leases, and a cancel", "epochs=3 cancels=1 inbox=2 log=3"),
    _holds("two workers, one is stopped, one is killed", "workers=2 stops=1 kills=1"),
    _holds("two workers, cancel and time-out", "workers=2 cancels=1 timeouts=1 inbox=2"),
    _holds("two workers, a take-over, an old owner's notice late", "workers=2 takeovers=1 delays=1"),
    _holds("take-over and cancel, a notice late or lost", "takeovers=1 cancels=1 delays=1 losses=1 inbox=2"),
    _holds("an old owner that acts on after a take-over", "takeovers=1 old_owner_acts=1 decisions=1"),
    _holds("two take-overs", "takeovers=2 delays=1 inbox=2"),
    _holds("two aborts or unknown outcomes, two decisions a turn", "aborts=2 decisions=2 inbox=2"),
    _holds("an abort, a take-over, a cancel", "aborts=1 decisions=2 inbox=2 takeovers=1 cancels=1 epochs=1"),
    _holds("a worker replaced under its name, stopped, killed", "replacements=1 stops=1 kills=1"),
    _holds("longer periods, clocks that drift", "lease=6 first=4 drift=4"),
)
"""All rules on, in larger worlds."""


def without(off: tuple[str, ...]) -> Run:
    """Return the search in which just these rules are off, in the smallest world if there is none."""
    for run in (*BROKEN, *HARMLESS, *PAIRS):
        if set(run.off) == set(off):
            return run
    return Run(off, SMALLEST)
