"""Who may not commit any more: thrown out under the new group protocol, too slow for the coordinator, or frozen out."""

import time

import pytest
from confluent_kafka import TopicPartition

from scheduler.core.inputs import Input
from scheduler.dispatcher.ports import Fenced, MustAbort, OutcomeUnknown
from scheduler.kafka.admin import Admin
from scheduler.kafka.log import KafkaLog, LogSettings
from tests.kafka.seen import DEADLINE_S, Seen, add, changelog, committed_keys, transact


def test_an_owner_that_the_new_protocol_threw_out_is_fenced_too(properties, installed):
    new = {"bootstrap.servers": properties["bootstrap.servers"], "group.protocol": "consumer"}
    settings = LogSettings({**new, "max.poll.interval.ms": "6000"}, "a", "boot", installed.prefix)
    stalled, heir = Seen(KafkaLog(settings)), None
    try:
        stalled.until(lambda: len(stalled.owned) == 4)
        metadata = stalled.log.metadata()
        stalled.log.begin()
        add(stalled.log, changelog(0, b"zombie"))
        stalled.log.flush()
        heir = Seen(KafkaLog(LogSettings(new, "b", "boot", installed.prefix)))
        heir.until(lambda: len(heir.owned) == 4)
        with pytest.raises((MustAbort, Fenced)):
            stalled.log.fence({(0, Input.REPORTS): 0}, metadata)
        stalled.log.abort()
        transact(heir.log, 0, 0, changelog(0, b"heir"))
        assert committed_keys(properties, installed.prefix + "changelog", 0) == [b"m", b"heir"]
        stalled.until(lambda: stalled.lost, heir)
        stalled.until(lambda: len(stalled.owned) == 2, heir)
    finally:
        for member in (stalled, heir):
            if member is not None:
                member.log.close()


def test_a_transaction_that_the_coordinator_has_ended_is_given_up_and_the_next_one_works(
    open_log, properties, installed
):
    seen = Seen(open_log("a", **{"transaction.timeout.ms": "1000"}))
    seen.until(lambda: len(seen.owned) == 4)
    metadata = seen.log.metadata()
    seen.log.begin()
    add(seen.log, changelog(0, b"too late"))
    seen.log.flush()
    ended_by_the_coordinator(properties, installed.prefix + "changelog")
    with pytest.raises((MustAbort, Fenced, OutcomeUnknown)):
        seen.log.fence({(0, Input.REPORTS): 0}, metadata)
        seen.log.commit()
    seen.log.reopen()
    seen.until(lambda: len(seen.owned) == 4)
    transact(seen.log, 0, 0, changelog(0, b"after"))
    assert committed_keys(properties, installed.prefix + "changelog", 0) == [b"m", b"after"]


def ended_by_the_coordinator(properties, topic):
    """Wait until the last stable offset has reached the end: nothing is open any more."""
    admin, place = Admin(properties), [TopicPartition(topic, 0)]
    deadline = time.monotonic() + DEADLINE_S
    while admin.committed_end(place)[0].offset < admin.latest(place)[0].offset:
        assert time.monotonic() < deadline
