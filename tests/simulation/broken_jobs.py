"""Broken variants of admission and time."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import msgspec

from scheduler.core import moment, wakeups
from scheduler.core.inputs import Meta
from scheduler.core.job import NO_HISTORY, Phase, move
from scheduler.core.outputs import CommandOut
from scheduler.dispatcher import (
    engine_clock,
    intake,
    seat,
)
from tests.simulation.breaking import Patches, variant


@variant("a job that lies in the wrong partition is accepted and never runs", "everything")
def forwarding_drops_a_job() -> Patches:
    original = intake.Intake._submit

    def lossy(self: Any, each: Any, now: Any, record: Any) -> None:
        original(self, each, now, record)
        each.changes.outputs = [one for one in each.changes.outputs if not isinstance(one, CommandOut)]

    yield patch.object(intake.Intake, "_submit", lossy)


@variant("two shards may hold one job", "everything")
def admitted_where_it_lies() -> Patches:
    class Anywhere(int):
        def __ne__(self, other: object) -> bool:
            return False

    yield patch.object(intake, "keys", SimpleNamespace(shard_of=lambda job_id, shards: Anywhere()))


@variant("an ended job may not even be kept for its keep time", "short keep")
def keep_time_ignored() -> Patches:
    original = wakeups.drop_old

    def drop_old(each: Any, now: moment.Moment, limit: int) -> int:
        return original(each, msgspec.structs.replace(now, now_ms=now.now_ms + 5_000), limit)

    yield patch.object(wakeups, "_read_past", lambda each, at_ms: True)
    yield patch("scheduler.dispatcher.housekeeping.drop_old", drop_old)


@variant("a second submit of an id starts it anew", "short keep")
def repeats_admitted() -> Patches:
    from scheduler.core import admission

    def meet(each: Any, now: Any, known: Any, content: bytes, submitted: Any) -> None:
        if known.end is not None:
            each.put_spec(known.job_id, submitted.raw)
            each.put(msgspec.structs.replace(known, phase=Phase.READY, end=None, history=NO_HISTORY))

    yield patch.object(admission, "_meet", meet)


@variant("a wall clock that runs ahead starts jobs early", "crowd", 8, first=3)
def wall_clock_believed() -> Patches:
    yield patch.object(engine_clock.EngineClock, "now_ms", lambda self, mono_ms: self.wall_ms())


@variant("a retry record is a hint: the state says when the job is due", "everything")
def retry_record_believed() -> Patches:
    def on_retry(each: Any, now: Any, record: Any) -> None:
        state = each.state(record.job_id)
        if state is not None and state.phase is Phase.RETRYING:
            each.put(move(state, Phase.READY, tier=0))

    yield patch.object(wakeups, "on_retry", on_retry)


@variant("a timer that was looked at is gone though its job was not due", "everything")
def timers_forgotten() -> Patches:
    original = wakeups._wake

    def forgetful(each: Any, now: Any, job_id: str) -> None:
        if hash_of(job_id) % 5:
            original(each, now, job_id)

    yield patch.object(wakeups, "_wake", forgetful)


@variant(
    "consumed records are deleted up to where reading is, not up to what was committed long ago", "everything"
)
def unread_records_deleted() -> Patches:
    original = seat.Seat.committed_as

    def ahead(self: Any, meta: Meta) -> None:
        original(self, meta)
        self.deletable = self.committed = {source: offset + 3 for source, offset in self.positions.items()}

    yield patch.object(seat.Seat, "committed_as", ahead)


def hash_of(job_id: str) -> int:
    return sum(job_id.encode())
