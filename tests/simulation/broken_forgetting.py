"""Broken variants of forgetting: an ended job's state goes before every repeat of it has been read.

Three rules need more at once than seeds find in reasonable time: records that were handed over and wait for a later
turn are not acted upon yet, word goes through Kafka to shards held here too, and a dropped turn takes back the word.
`dispatcher/test_drops.py` shows each of them.
"""

from typing import Any
from unittest.mock import patch

from scheduler.core import wakeups
from scheduler.core.inputs import SUBMITS
from scheduler.dispatcher import forgetting
from tests.simulation import log
from tests.simulation.breaking import Patches, variant


@variant("a repeat that is still unread runs again", "repeats", 4)
def ended_state_dropped_too_early() -> Patches:
    yield patch.object(wakeups, "_read_past", lambda each, at_ms: True)


@variant("what lies unread in another shard's partition may be a repeat too", "repeats", 12)
def own_submits_alone_looked_at() -> Patches:
    def read_past(each: Any, at_ms: int) -> bool:
        return all(each.read_up_to_ms[submit] > at_ms for submit in SUBMITS)

    yield patch.object(wakeups, "_read_past", read_past)


@variant(
    "an input that was read to its end has news that nobody hears while its leader is away", "repeats", 8
)
def end_believed_for_good() -> Patches:
    original = forgetting.Forgetting.note

    def credulous(self: Any, seats: Any) -> None:
        original(self, seats)
        for each in seats.values():
            for source in SUBMITS if each.reads else ():
                if each.read_to_end(source):
                    read_up_to_ms = each.shard.read_up_to_ms
                    read_up_to_ms[source] = max(read_up_to_ms[source], self._as_of_ms)

    yield patch.object(forgetting.Forgetting, "note", credulous)


@variant("what is in an open transaction is older than its commit", "repeats", 12, first=10)
def end_of_what_has_committed() -> Patches:
    def stable_end(broker: Any, place: Any) -> int:
        return broker.stable_end(*place)

    yield patch.object(log, "end_of", stable_end)


@variant("a repeat counts up to the end of the keep time, not of the job", "repeats", 12, first=3)
def read_past_the_end_of_the_job_alone() -> Patches:
    original = wakeups._read_past

    def read_past(each: Any, at_ms: int) -> bool:
        return original(each, at_ms - 8_000)

    yield patch.object(wakeups, "_read_past", read_past)
