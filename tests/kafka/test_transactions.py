"""What commits, what is fenced, and what a failure asks of the caller."""

import os
import time

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import NewTopic

from scheduler.core.inputs import Input
from scheduler.dispatcher.ports import Fenced, MustAbort, Outgoing
from scheduler.kafka import transaction
from scheduler.kafka.admin import Admin
from scheduler.kafka.client_settings import RECORD_MAX_BYTES
from scheduler.kafka.log import KafkaLog
from tests.kafka.seen import Seen, add, at, changelog, committed_keys, produce, topic_of, transact


def keys_in(properties, installed, topic, shard, *, open_ends=False):
    return committed_keys(properties, installed.prefix + topic, shard, open_ends=open_ends)


def test_a_transaction_commits_everything_and_tells_changelog_offsets(owner, properties, installed):
    records = [
        *changelog(0, b"s1", b"s2"),
        Outgoing("retry.5s", 1, b"r", b"v"),
        Outgoing("dlq", -1, b"d", b"v", (("reason", "failed"),)),
        *changelog(3, b"s3"),
        *changelog(0, b"m"),
    ]
    last = transact(owner.log, 0, 0, records)
    assert last == {0: 4, 3: 2}  # behind the first meta and its marker
    assert keys_in(properties, installed, "changelog", 0) == [b"m", b"s1", b"s2", b"m"]
    assert keys_in(properties, installed, "retry.5s", 1) == [b"r"]
    again = transact(owner.log, 0, 0, changelog(0, b"s4"))
    assert again == {0: 6}


def test_records_leave_only_with_the_commit(owner, properties, installed):
    metadata = owner.log.metadata()
    owner.log.begin()
    add(owner.log, changelog(1, b"s1"))
    owner.log.flush()
    assert keys_in(properties, installed, "changelog", 1, open_ends=True) == [b"m"]
    owner.log.fence({(1, Input.REPORTS): 0}, metadata)
    owner.log.commit()
    assert keys_in(properties, installed, "changelog", 1) == [b"m", b"s1"]


def test_abort_and_rewind_read_the_same_records_again(owner, properties, installed):
    produce(properties, topic_of(installed, Input.SUBMIT_DEFAULT), 2, [b"a", b"b", b"c"])
    owner.log.follow(2, at(0))
    owner.until(lambda: len(owner.records) == 3)
    first = list(owner.records)
    owner.log.begin()
    add(owner.log, changelog(2, b"gone"))
    owner.log.flush()
    owner.log.abort()
    owner.log.rewind({(2, source): 0 for source in Input})
    owner.records.clear()
    owner.until(lambda: len(owner.records) == 3)
    assert owner.records == first
    transact(owner.log, 2, 0, changelog(2, b"kept"))
    assert keys_in(properties, installed, "changelog", 2) == [b"m", b"kept"]


def test_there_is_no_transaction_without_a_driver_offset(owner):
    metadata = owner.log.metadata()
    owner.log.begin()
    add(owner.log, changelog(0, b"s"))
    owner.log.flush()
    with pytest.raises(AssertionError, match="driver"):
        owner.log.fence({(0, Input.COMMANDS): 0}, metadata)
    with pytest.raises(AssertionError):
        owner.log.fence({(0, Input.REPORTS): -1001}, metadata)
    owner.log.abort()


def test_leases_can_not_overtake_their_commit(owner):
    owner.log.begin()
    with pytest.raises(AssertionError, match="after their commit"):
        owner.log.release([Outgoing("leases.default", 0, b"k", b"v")])
    owner.log.abort()


def test_released_records_arrive(owner, properties, installed):
    owner.log.release([Outgoing("leases.default", 1, b"k", b"v")])
    while keys_in(properties, installed, "leases.default", 1) != [b"k"]:
        owner.poll()


def test_an_evicted_owner_is_fenced_and_nothing_of_it_is_seen(open_log, properties, installed):
    """A stalls past its poll interval with a turn at hand; its shards move to B; then A goes on with the turn."""
    stalled = Seen(open_log("a", **{"max.poll.interval.ms": "6000", "session.timeout.ms": "6000"}))
    stalled.until(lambda: len(stalled.owned) == 4)
    metadata = stalled.log.metadata()
    stalled.log.begin()
    add(stalled.log, changelog(0, b"zombie"))
    stalled.log.flush()
    heir = Seen(open_log("b"))
    heir.until(lambda: len(heir.owned) == 4)
    with pytest.raises((MustAbort, Fenced)):
        stalled.log.fence({(0, Input.REPORTS): 0}, metadata)
    with pytest.raises((MustAbort, Fenced)):  # asking for newer metadata does not help
        stalled.log.fence({(0, Input.REPORTS): 0}, stalled.log.metadata())
    stalled.log.abort()
    transact(heir.log, 0, 0, changelog(0, b"heir"))
    assert keys_in(properties, installed, "changelog", 0) == [b"m", b"heir"]
    stalled.until(lambda: stalled.lost, heir)
    stalled.until(lambda: len(stalled.owned) == 2, heir)


def test_metadata_from_before_a_rebalance_is_refused(owner, open_log):
    old = owner.log.metadata()
    second = Seen(open_log("b"))
    second.until(lambda: len(second.owned) == 2, owner)
    owner.log.begin()
    add(owner.log, changelog(0, b"old"))
    owner.log.flush()
    with pytest.raises(MustAbort):
        owner.log.fence({(0, Input.REPORTS): 0}, old)
    owner.log.abort()
    kept = min(owner.owned)
    transact(owner.log, kept, 0, changelog(kept, b"new"))


def test_two_of_one_id_the_older_is_fenced_and_reopens(open_log, properties, installed):
    older = Seen(open_log("a"))
    older.until(lambda: len(older.owned) == 4)
    metadata = older.log.metadata()
    older.log.begin()
    add(older.log, changelog(0, b"older"))
    older.log.flush()
    other = Seen(open_log("other"))
    assert not other.log.fence_owner(older.log.owner, older.log.member)  # still a member: left alone
    assert not other.log.fence_owner(other.log.owner, "gone")  # never oneself
    assert not other.log.fence_owner("", "")
    assert other.log.fence_owner(older.log.owner, "not-a-member-any-more")
    with pytest.raises(Fenced):
        older.log.fence({(0, Input.REPORTS): 0}, metadata)
        older.log.commit()
    with pytest.raises(Fenced):
        older.log.abort()
    older.log.reopen()
    other.log.close()
    older.until(lambda: len(older.owned) == 4)
    transact(older.log, 0, 0, changelog(0, b"reopened"))
    assert keys_in(properties, installed, "changelog", 0) == [b"m", b"reopened"]


def test_a_record_that_is_too_large_is_named(owner, properties, installed):
    owner.log.begin()
    add(owner.log, changelog(0, b"s"))
    with pytest.raises(MustAbort) as refused:
        owner.log.produce([Outgoing("dlq", 0, b"large", b"x" * (RECORD_MAX_BYTES + 1))])
    assert (refused.value.topic, refused.value.key) == ("dlq", b"large")
    owner.log.abort()
    goes_on(owner)


def goes_on(owner):
    """After an abort the next transaction may fail once more; then one works."""
    for _ in range(3):
        try:
            return transact(owner.log, 0, 0, changelog(0, b"after"))
        except MustAbort:
            owner.log.abort()
    return pytest.fail("three aborts in a row")


def test_a_refusal_by_the_broker_names_the_foreign_record(owner, properties, installed):
    """The users' own topics may be anything: too small for a record, or not there at all."""
    small = installed.prefix.rstrip("-.") + "_out"
    admin = Admin(properties)
    admin.client.create_topics([NewTopic(small, 1, 1, config={"max.message.bytes": "1000"})])[small].result(
        10
    )
    owner.log.begin()
    add(owner.log, [*changelog(0, b"s"), Outgoing(small, -1, b"large", os.urandom(10_000), foreign=True)])
    with pytest.raises(MustAbort) as refused:
        owner.log.flush()
    assert (refused.value.topic, refused.value.key) == (small, b"large")
    owner.log.abort()
    goes_on(owner)
    owner.log.begin()
    with pytest.raises(MustAbort) as refused:
        owner.log.produce([Outgoing(small, 7, b"nowhere", b"v", foreign=True)])
        owner.log.flush()
    assert (refused.value.topic, refused.value.key) == (small, b"nowhere")
    owner.log.abort()
    goes_on(owner)
    assert committed_keys(properties, small, 0) == []


def test_a_users_topic_that_does_not_exist_is_refused_at_once_and_named(
    owner, properties, installed, monkeypatch
):
    """Left to the client, the record timed out with the transaction, named nobody, and came again for ever."""
    monkeypatch.setattr(transaction, "_KNOWN_S", 0.0)
    name = installed.prefix.rstrip("-.") + "_gone"
    admin = Admin(properties)
    admin.client.create_topics([NewTopic(name, 1, 1)])[name].result(10)
    owner.log.begin()
    add(owner.log, [*changelog(0, b"s"), Outgoing(name, -1, b"k", b"v", foreign=True)])
    owner.log.flush()
    owner.log.abort()
    admin.client.delete_topics([name], operation_timeout=10)[name].result(20)
    for topic in (name, installed.prefix.rstrip("-.") + "_never"):
        began_s = time.monotonic()
        owner.log.begin()
        with pytest.raises(MustAbort) as refused:
            add(owner.log, [*changelog(0, b"s"), Outgoing(topic, -1, b"k", b"v", foreign=True)])
        assert (refused.value.topic, refused.value.key) == (topic, b"k")
        owner.log.abort()
        assert time.monotonic() - began_s < 2
        goes_on(owner)


def test_notices_to_nowhere_are_dropped_and_hold_nothing_up(owner, properties, installed):
    began_s = time.monotonic()
    nowhere = [
        Outgoing(f"leases.{pool}", inbox, b"k", b"v")
        for pool in ("nul\0inside", "", "no such pool", "x" * 128, "default")
        for inbox in (-1, 2, 1 << 40)
    ]
    owner.log.release(nowhere * 10_000)
    owner.log.release([Outgoing("leases.default", 1, b"k", b"arrives")])
    assert time.monotonic() - began_s < 2
    owner.until(lambda: keys_in(properties, installed, "leases.default", 1) == [b"k"])
    goes_on(owner)


def test_a_refusal_without_a_report_aborts_too(owner, properties, installed):
    """Only foreign and last changelog records are reported one by one; the others still fail the transaction."""
    name = installed.prefix + "small"
    admin = Admin(properties)
    admin.client.create_topics([NewTopic(name, 1, 1, config={"max.message.bytes": "1000"})])[name].result(10)
    metadata = owner.log.metadata()
    owner.log.begin()
    add(owner.log, [*changelog(0, b"s"), Outgoing("small", 0, b"large", os.urandom(10_000))])
    with pytest.raises(MustAbort):
        owner.log.flush()
        owner.log.fence({(0, Input.REPORTS): 0}, metadata)
        owner.log.commit()
    owner.log.abort()
    goes_on(owner)
    assert keys_in(properties, installed, "changelog", 0) == [b"m", b"after"]


def commit_under(log, metadata):
    log.begin()
    add(log, changelog(0, b"stale"))
    log.flush()
    log.fence({(0, Input.REPORTS): 0}, metadata)
    log.commit()


def test_an_owner_that_was_thrown_out_does_not_commit_as_nobody(owner, properties, installed, monkeypatch):
    """The client hears of it in the background, and forgets its name: what it says of itself is what a stranger says."""
    stranger = Consumer(
        {"bootstrap.servers": properties["bootstrap.servers"], "group.id": f"{installed.prefix}dispatcher"}
    )
    nobody = stranger.consumer_group_metadata()
    commit_under(owner.log, nobody)  # the broker lets it pass, though the group has a member
    with monkeypatch.context() as thrown_out:
        thrown_out.setattr(KafkaLog, "member", "")
        with pytest.raises(MustAbort, match="no member"):
            commit_under(owner.log, nobody)
    owner.log.abort()
    goes_on(owner)
    stranger.close()
    assert keys_in(properties, installed, "changelog", 0) == [b"m", b"stale", b"after"]


def test_closing_aborts_what_is_open(owner, properties, installed):
    owner.log.begin()
    add(owner.log, changelog(0, b"open"))
    owner.log.flush()
    owner.log.close()
    assert keys_in(properties, installed, "changelog", 0) == [b"m"]
