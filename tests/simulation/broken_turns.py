"""Broken variants of the transaction, and of taking a shard over.

Four rules are not among them, for the simulation can't show what they are good for. Who is fenced forgets its renewals
(`Recovery._start_over`): whoever may have had another owner in between has lost its seat in a poll, and the new one has
none. What was read of a lost shard is forgotten (`Reading.forget`): a seat that does not read yet drops it too, and
the claim's commit settles the rest. And echoes of a shard that comes back are numbered on (`Seats.lose`): an old one
would have to be under way for longer than a lease, and then ends an adoption or an expiry only as early as it was
appended. They spare a proof that this stays so; `dispatcher/test_dropped_turns.py`, `dispatcher/test_deferral.py` and
`dispatcher/test_adoption.py` fail without them. And a restore that was overtaken by the cleaner reads on
(`Restorer._was_overtaken`): one seed in two thousand showed it; `dispatcher/test_restore.py` fails without it.
"""

from functools import partial
from typing import Any
from unittest.mock import patch

import msgspec

from scheduler.core import leases, shard, wakeups
from scheduler.core.leases import Renewal
from scheduler.core.outputs import MessageOut
from scheduler.dispatcher import (
    adopting,
    commit,
    engine,
    own_disk,
    reading,
    recovery,
    restore,
    seat,
    writing,
)
from tests.dispatcher import fault_log
from tests.simulation.breaking import Patches, variant

# -- the transaction -----------------------------------------------------------------------------------


@variant("the store holds what may never commit")
def store_written_before_commit() -> Patches:
    def committed_late(
        log: Any, parts: Any, metadata: object, failpoint: Any, *, extra: Any
    ) -> dict[int, int]:
        flush = log.flush

        def flush_and_apply() -> dict[int, int]:
            last = flush()
            for each, written in parts:
                each.store.write(*each.shard.batch(written.entries), last[each.number] + 1, 0)
            return last

        with patch.object(log, "flush", flush_and_apply):
            return original(log, parts, metadata, failpoint, extra=extra)

    original = commit.commit
    yield patch.object(commit, "commit", committed_late)


@variant("the broker can't refuse a suspended owner's turn", "sleepers", 12, first=1)
def missing_group_metadata() -> Patches:
    original = commit.commit

    def unfenced(log: Any, parts: Any, metadata: object, failpoint: Any, *, extra: Any) -> dict[int, int]:
        return original(log, parts, None, failpoint, extra=extra)

    yield patch.object(commit, "commit", unfenced)


@variant("metadata of a membership newer than what the turn has acted on", "sleepers", 12, first=2)
def metadata_taken_at_commit() -> Patches:
    original = commit.commit

    def too_fresh(log: Any, parts: Any, metadata: object, failpoint: Any, *, extra: Any) -> dict[int, int]:
        fence = log.fence

        def fence_as_of_now(offsets: Any, metadata: object) -> None:
            fence(offsets, log._metadata)

        with patch.object(log, "fence", fence_as_of_now):
            return original(log, parts, metadata, failpoint, extra=extra)

    yield patch.object(commit, "commit", too_fresh)


@variant("a lease goes out whose grant may never commit", "turns", 4, first=1)
def leases_released_before_commit() -> Patches:
    original = commit.commit

    def hasty(log: Any, parts: Any, metadata: object, failpoint: Any, *, extra: Any) -> dict[int, int]:
        for each, _ in parts:
            for notice in each.shard.changes.notices:
                log._send(partial(log._append, writing.encode_released(notice)))
        return original(log, parts, metadata, failpoint, extra=extra)

    yield patch.object(commit, "commit", hasty)


@variant("what a run emitted is published though its completion is tried again", "turns", 8)
def emits_outside_the_transaction() -> Patches:
    original = engine.Engine._written

    def published_at_once(self: Any, each: Any, now: Any, member: str) -> Any:
        kept = []
        for output in each.shard.changes.outputs:
            if isinstance(output, MessageOut):
                self._log._append(writing.encode_output(output, each.number, 1))
            else:
                kept.append(output)
        each.shard.changes.outputs = kept
        return original(self, each, now, member)

    yield patch.object(engine.Engine, "_written", published_at_once)


@variant("an unknown outcome is no abort: what has committed is lost from the store", "turns", 4, first=1)
def unknown_taken_for_aborted() -> Patches:
    def aborted(self: Any, error: Exception) -> None:
        self._log.reopen()
        self._try(self._drop_turn)

    yield patch.object(recovery.Recovery, "unknown", aborted)


@variant("inputs of a dropped turn are lost")
def rewind_skipped() -> Patches:
    def forgotten(self: Any, held: Any) -> None:
        self.pending.clear()
        self.settled()

    yield patch.object(reading.Reading, "rewind", forgotten)


@variant("slots that a dropped turn took are never given back", "turns", 4, first=1)
def slots_kept_by_a_dropped_turn() -> Patches:
    yield patch("scheduler.core.offers.Offers.give_back", lambda self: None)


@variant(
    "an old owner that wakes up answers reports of leases that it does not know",
    "lost coordinators",
    16,
    first=9,
)
def notices_without_a_transaction() -> Patches:
    original = engine.Engine._commit

    def answered_at_once(self: Any, now: Any) -> None:
        for each in self._seats.values():
            if each.reads and each.shard.changes.notices and not each.shard.changes.states:
                commit.release(self._log, each.shard.changes.notices)
                each.shard.changes.notices.clear()
        original(self, now)

    yield patch.object(engine.Engine, "_commit", answered_at_once)


@variant("what a dropped turn decided comes again with its inputs", "turns", 8, first=4)
def dropped_turn_kept() -> Patches:
    yield patch.object(shard.Shard, "dropped", lambda self: None)


# -- taking over ---------------------------------------------------------------------------------------


@variant("the next owner reads from where the last meta's predecessor stood")
def positions_not_in_meta() -> Patches:
    original = engine.Engine._written

    def without(self: Any, each: Any, now: Any, member: str) -> Any:
        written = original(self, each, now, member)
        written.meta = msgspec.structs.replace(written.meta, positions=each.meta.positions)
        written.entries[-1] = (written.entries[-1][0], writing.encode_meta(written.meta))
        return written

    yield patch.object(engine.Engine, "_written", without)


@variant("epochs begin anew with each owner", "everything")
def epoch_not_in_meta() -> Patches:
    original = shard.Shard.__init__

    def reset(self: Any, number: int, seen: Any, fleet: Any, table: Any, *, epoch: int) -> None:
        original(self, number, seen, fleet, table, epoch=0)

    yield patch.object(shard.Shard, "__init__", reset)


@variant("what a dead owner has open may still commit behind the restore", "sleepers", 12)
def restore_ends_before_open_transactions() -> Patches:
    def begin(self: Any, number: int, offset: int) -> None:
        super(fault_log.FaultChangelog, self).begin(number, offset)
        self._ends[number] = self._broker.stable_end("changelog", number)

    yield patch.object(fault_log.FaultChangelog, "begin", begin)


@variant("deletions that the cleaner has removed are never seen", "short keep", 12, first=2)
def old_store_believed() -> Patches:
    yield patch.object(own_disk, "is_recent", lambda as_of_ms, ground, now_ms: True)


@variant("leases that got lost between commit and release are never sent", "turns", 4, first=2)
def no_resend_at_adopt() -> Patches:
    yield patch.object(adopting, "resend_leases", lambda each: 0)


@variant(
    "granting before the clock is known: a wall clock that runs ahead starts jobs early",
    "everything",
    16,
    first=13,
)
def grants_while_adopting() -> Patches:
    original = adopting.Adopting.begin

    def at_once(self: Any, each: Any) -> None:
        original(self, each)
        each.stage = seat.Stage.ACTIVE
        each.shard.begin_granting()
        wakeups.resend_leases(each.shard)

    yield patch.object(adopting.Adopting, "begin", at_once)


@variant("an adopted lease may have been renewed until just before the take-over", "moves", 12)
def adopted_leases_get_the_first_period() -> Patches:
    original = leases.Leases.adopted

    def shorter(self: Any, entry: Renewal) -> None:
        entry.period_ms = self._timing.first_ms
        original(self, entry)

    yield patch.object(leases.Leases, "adopted", shorter)


@variant("after a reload a lease counts from its grant, whatever beats were read", "hand-overs", 12, first=5)
def renewals_forgotten_at_reload() -> Patches:
    original = leases.Leases.keep_only

    def forgetful(self: Any, live: Any) -> None:
        original(self, live)
        for entry in self:
            entry.read_at_ms, entry.period_ms = entry.granted_at_ms, self._timing.first_ms
            self._watch(entry)

    yield patch.object(leases.Leases, "keep_only", forgetful)


@variant(
    "a turn that reads an echo goes by one time: the one it is written down with", "sleepers", 105, first=104
)
def retries_by_a_later_time() -> Patches:
    original = reading.Reading.take_due_retries

    def later(self: Any, seats: Any, moment: Any) -> None:
        now_ms = self._clock.now_ms(moment.mono_ms)
        original(self, seats, msgspec.structs.replace(moment, now_ms=now_ms))

    yield patch.object(reading.Reading, "take_due_retries", later)


@variant("a job that came and went while a store lagged is no orphan", "short jobs")
def gone_jobs_taken_for_orphans() -> Patches:
    def note(self: Any, puts: Any, deletes: Any) -> None:
        original(self, puts, ())

    original = restore.Restore._note_specs
    yield patch.object(restore.Restore, "_note_specs", note)
