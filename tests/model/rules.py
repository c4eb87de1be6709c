"""The rules of the lease protocol, each a switch: what it says, and where it stands in docs/DESIGN.md and in the code.

What goes wrong without a rule stands in `runs.py`, and is searched for. A rule without which nothing goes wrong says
here why it is kept.
"""

from collections.abc import Iterable
from typing import NamedTuple


class Rule(NamedTuple):
    """One rule; `section` is a heading of docs/DESIGN.md, and `places` are relative to `scheduler/`."""

    name: str
    says: str
    section: str
    places: tuple[str, ...]
    kept_for: str = ""  # what it is good for, where the search finds nothing without it


RULES = (
    # -- transactions
    Rule(
        "commits_fenced",
        "Offset and group metadata fence each transaction: an old owner can't commit",
        "5. A turn of the dispatcher",
        ("dispatcher/commit.py: commit", "kafka/log.py: KafkaLog.fence"),
    ),
    Rule(
        "predecessor_fenced",
        "A restore ends only when nothing of an old owner's transaction can come any more",
        "10. Taking a shard over",
        ("kafka/changelog.py: KafkaChangelog", "kafka/log.py: KafkaLog.fence_owner"),
    ),
    Rule(
        "dropped_turn_undone",
        "After an abort memory goes back to what is committed",
        "11. When something fails",
        ("core/shard.py: Shard.dropped",),
    ),
    Rule(
        "leases_after_commit",
        "A lease leaves only after its commit",
        "The grant",
        ("dispatcher/commit.py: release", "kafka/log.py: KafkaLog.release"),
    ),
    Rule(
        "notices_are_durable",
        "A turn that sends a notice must commit, so an old owner can send none",
        "5. A turn of the dispatcher",
        ("core/changes.py: Changes.must_commit",),
    ),
    # -- offers
    Rule(
        "offers_repeated",
        "Free slots that nobody answers are offered again",
        "Offers",
        ("worker/offers.py: OfferBook._reclaim",),
    ),
    Rule(
        "offers_expire",
        "A dispatcher forgets an offer some seconds after it read it",
        "Offers",
        ("core/offers.py: Offers.expire",),
        "a lease to a worker that is gone costs its job a whole first period",
    ),
    Rule(
        "slots_given_back",
        "A dropped turn gives back the slots it took",
        "11. When something fails",
        ("core/offers.py: Offers.give_back",),
        "the slot would idle until its worker offers it again",
    ),
    # -- the grant
    Rule(
        "epochs_rise",
        "Epochs rise from grant to grant",
        "The grant",
        ("core/shard.py: Shard.next_epoch",),
    ),
    Rule(
        "grant_overwrites",
        "The entry of a grant replaces what a dropped grant left under the same epoch",
        "The grant",
        ("core/granting.py: grant", "core/leases.py: Leases.granted"),
    ),
    # -- starting and running
    Rule(
        "acts_on_own_boot_id",
        "A process acts only on what names its own boot id",
        "Starting and running",
        ("worker/session.py: Session.on_lease, Session.on_revoke",),
    ),
    Rule(
        "foreign_lease_unanswered",
        "It does not answer a lease of another boot id either",
        "Starting and running",
        ("worker/session.py: Session.on_lease",),
    ),
    Rule(
        "deadline_from_offer",
        "Start and first deadline count from when the worker sent the offer that the lease answers",
        "Starting and running",
        ("worker/offers.py: OfferBook.starts", "worker/session.py: Session._start"),
    ),
    Rule(
        "starts_within_first_period",
        "Until the first renewal the worker counts with F, as the dispatcher does",
        "Starting and running",
        ("worker/offers.py: OfferBook.starts", "worker/session.py: Session._start"),
    ),
    Rule(
        "stops_a_margin_early",
        "A run ends a margin before its lease can, for clocks that don't run quite alike",
        "7. Leases",
        ("core/timing.py: Timing.margin_ms",),
    ),
    Rule(
        "ended_epochs_remembered",
        "A worker remembers an epoch that ended there until no offer can start it again",
        "Starting and running",
        ("worker/memory.py: EndedEpochs",),
    ),
    Rule(
        "running_lease_answered",
        "A lease of the epoch that runs is answered by a beat",
        "Starting and running",
        ("worker/session.py: Session.on_lease",),
        "the new owner hears at once, not only with the next beat, that the run lives",
    ),
    Rule(
        "renewal_from_send",
        "An acknowledged beat prolongs the run from when it was sent",
        "Starting and running",
        ("worker/session.py: Session._renewed",),
    ),
    Rule(
        "deadline_first",
        "Deadlines come before any event, so no acknowledgement revives what is overdue",
        "Starting and running",
        ("worker/session.py: Session._enforce, Session._renewed",),
    ),
    Rule(
        "guard_ends_overdue",
        "The guard kills what is past its deadline, whatever has become of the parent process",
        "12. The worker process",
        ("worker/guard.py: watch", "worker/deadlines.py: DeadlineTable"),
    ),
    Rule(
        "guard_ends_with_parent",
        "The guard kills all children when the parent is gone",
        "12. The worker process",
        ("worker/guard.py: watch",),
        "their deadlines end them too, but what they do until then nobody can report",
    ),
    # -- renewals
    Rule(
        "whole_period_after_renewal",
        "A renewal that was read gives the lease its whole period L",
        "Ends",
        ("core/leases.py: Leases.renewed",),
    ),
    Rule(
        "renewals_survive_drop",
        "A dropped turn leaves the renewal table as it is; to the state all leases are new",
        "Beats",
        ("core/leases.py: Leases",),
    ),
    Rule(
        "loss_clears_renewals",
        "Who loses the shard forgets its renewals",
        "Beats",
        ("core/leases.py: Leases.clear",),
    ),
    # -- expiry
    Rule(
        "echo_read_back",
        "A lease expires only when an echo has been read back",
        "Ends",
        ("core/leases.py: Leases.looks_due, Leases.expired",),
    ),
    Rule(
        "echo_after_period",
        "That echo was made a whole period after the last renewal was read",
        "Ends",
        ("core/leases.py: Leases.expired",),
    ),
    Rule(
        "own_echo_only",
        "Echoes of other owners say nothing",
        "Ends",
        ("dispatcher/adopting.py: Adopting.echo_read",),
    ),
    Rule(
        "echoes_never_numbered_alike",
        "An echo from before the shard was lost does not pass for one from after it was regained",
        "Ends",
        ("core/leases.py: Leases.last_echo",),
    ),
    # -- ends
    Rule(
        "timeout_by_ending",
        "A time-out marks the lease as ending and revokes it; the lease lives on until its worker's word or its expiry",
        "Ends",
        ("core/wakeups.py: end_overlong",),
    ),
    Rule(
        "cancel_by_ending",
        "So does a cancel",
        "Ends",
        ("core/job.py: Ending", "core/reporting.py: on_release", "core/wakeups.py: expire_leases"),
    ),
    Rule(
        "ending_renews",
        "Beats renew a lease that is being ended, for its worker goes by them",
        "Ends",
        ("core/reporting.py: _renew",),
    ),
    Rule(
        "beat_revokes",
        "Each beat of a lease that is being ended is answered by its revoke once more",
        "Ends",
        ("core/reporting.py: _renew",),
    ),
    Rule(
        "stale_report_revoked",
        "Who reports without a live lease is told to stop, by a revoke",
        "Ends",
        ("core/reporting.py: _refuse",),
        "a worker that was cut off stops work that nobody will accept, before its deadline does so",
    ),
    Rule(
        "unknown_revoke_answered",
        "An epoch revoked before its lease has come counts as ended, and a release says so",
        "Ends",
        ("worker/session.py: Session.on_revoke",),
        "its lease may still come, from an old owner, and the job needs not wait for the expiry",
    ),
    Rule(
        "late_done_counts",
        "A late done of the latest epoch completes a job that is ready again",
        "Ends",
        ("core/reporting.py: on_done",),
        "the work is done, and need not be done twice",
    ),
    Rule(
        "done_before_the_end",
        "A done that comes after the job's end does not count",
        "Ends",
        ("core/reporting.py: on_done",),
    ),
    Rule(
        "done_of_latest_epoch",
        "Nor does one that is not of the latest epoch",
        "Ends",
        ("core/reporting.py: _claim",),
    ),
    # -- adopting
    Rule(
        "adopts_by_echo",
        "Who adopts a shard reads up to an echo of its own before it grants or sends anything again",
        "Adopting",
        ("dispatcher/adopting.py: Adopting.begin, Adopting.echo_read",),
        "leases whose end lies unread are not sent again, so a worker needs no long memory",
    ),
    Rule(
        "leases_sent_again",
        "It sends every live lease again",
        "Adopting",
        ("core/wakeups.py: resend_leases",),
        "a lease that got lost with the old owner is not waited for until it expires",
    ),
    Rule(
        "revokes_sent_again",
        "Of a lease that is being ended it sends the revoke instead",
        "Adopting",
        ("core/wakeups.py: resend_leases",),
        "the next beat would bring it about too; a job that does not beat is asked to stop at once",
    ),
    Rule(
        "fresh_period",
        "A lease without an entry in the renewal table gets a fresh period",
        "Adopting",
        ("core/wakeups.py: adopt_leases", "core/leases.py: Leases.adopted"),
    ),
    Rule(
        "fresh_period_whole",
        "That is a whole L, for the old owner may have read beats",
        "Adopting",
        ("core/wakeups.py: adopt_leases",),
    ),
)

NAMES = tuple(rule.name for rule in RULES)


class Rules:
    """Which rules hold: `rules.echo_read_back` is true unless it is named as off."""

    def __init__(self, off: Iterable[str] = ()) -> None:
        """Let all rules hold but those in `off`."""
        self.off = tuple(off)
        unknown = [name for name in self.off if name not in NAMES]
        if unknown:
            raise ValueError(f"no such rule: {', '.join(unknown)}")
        vars(self).update({name: name not in self.off for name in NAMES})
