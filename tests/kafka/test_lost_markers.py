"""Transactions of which the brokers lose markers: a coordinator leaves out partitions that have no leader just then."""

import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import TopicPartition

from scheduler import devkafka
from scheduler.core.inputs import Input
from scheduler.dispatcher.ports import ANYBODY, LogError
from scheduler.kafka import lost_markers
from scheduler.kafka.admin import Admin
from scheduler.kafka.apply import apply
from scheduler.kafka.layout import Layout
from scheduler.kafka.log import KafkaLog, LogSettings
from scheduler.kafka.names import Names
from tests.kafka.seen import Seen, add, changelog, committed_keys, ended, open_transaction, transact

SHARDS = 3

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def brokers():
    with devkafka.start(3) as cluster:
        yield cluster


@pytest.fixture
def installed(brokers):
    """Topics of one copy each: a shard's partitions lie on one broker and have no leader while that is away."""
    properties = {"bootstrap.servers": brokers.bootstrap, "heartbeat.interval.ms": "500"}
    layout = Layout(SHARDS, {"default": 1}, prefix=f"t{uuid.uuid4().hex[:6]}-", replication_factor=1)
    apply(properties, layout)
    return properties, layout


def opened(properties, layout, name):
    return KafkaLog(LogSettings(properties, name, "boot", layout.prefix, shards=SHARDS))


def owning(properties, layout, name):
    seen = Seen(opened(properties, layout, name))
    return seen.until(lambda: len(seen.owned) == SHARDS)


def leader_of(brokers, properties, place):
    topics = Admin(properties).client.list_topics(place.topic, timeout=10).topics
    return brokers.nodes[topics[place.topic].partitions[place.partition].leader - 1]


def begun(log, records, reports=0):
    metadata = log.metadata()
    log.begin()
    add(log, records)
    log.flush()
    log.fence({(0, Input.REPORTS): reports}, metadata)


def without(brokers, properties, place, act):
    """Act while a partition has no leader."""
    node = leader_of(brokers, properties, place)
    admin = Admin(
        {"bootstrap.servers": ",".join(each.bootstrap for each in brokers.nodes if each is not node)}
    )
    node.kill()
    try:
        while (
            admin.client.list_topics(place.topic, timeout=10)
            .topics[place.topic]
            .partitions[place.partition]
            .leader
            != -1
        ):
            admin.client.poll(0.1)
        act()
    finally:
        node.start()


def fenced_by_each(successors, owner):
    """Let each of them end what the owner left, all at work at once; none may be in another's way."""
    with ThreadPoolExecutor() as threads:
        at_work = []
        for successor in successors:
            at_work.append(threads.submit(fenced_in_time, successor, owner))
            time.sleep(1)  # the next one comes while this one has to come again
        return [each.result(60) for each in at_work]


def fenced_in_time(successor, owner):
    deadline = time.monotonic() + 30
    while True:
        try:
            return successor.fence_owner(owner, ANYBODY)
        except LogError as early:
            if "too early" not in str(early) or time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def abort_unsure(log):
    with pytest.raises(LogError, match="is not told"):  # so it has to start over
        log.abort()


@pytest.mark.timeout(180)
@pytest.mark.slow
@pytest.mark.parametrize("committed", [True, False], ids=["committed", "aborted"])
@pytest.mark.parametrize("who", ["successor", "two successors", "itself"])
def test_what_the_brokers_lost_sight_of_is_ended_as_it_was_decided(
    brokers, installed, committed, who, monkeypatch
):
    monkeypatch.setattr(lost_markers, "_OVER_S", 2.0)
    properties, layout = installed
    first = owning(properties, layout, "first")
    transact(first.log, 0, 0, changelog(0, b"before"))
    place = TopicPartition(f"{layout.prefix}changelog", 0)
    begun(first.log, changelog(0, b"told"))

    without(brokers, properties, place, first.log.commit if committed else lambda: abort_unsure(first.log))
    admin = Admin(properties)
    hidden = admin.committed_end([place])[0].offset, admin.latest([place])[0].offset
    assert hidden[0] < hidden[1], "the brokers have written every marker: is KAFKA-20734 mended?"

    if who == "itself":
        first.log.reopen()
    else:
        successors = [opened(properties, layout, f"s{n}") for n in range(1 + (who == "two successors"))]
        assert all(fenced_by_each(successors, first.log.owner))
        for successor in successors:
            successor.close()
    first.log.close()
    ended(properties, place.topic, 0, hidden[1] + 2)  # behind that record and its marker
    told = [b"told", b"told"] if committed else []
    assert committed_keys(properties, place.topic, 0) == [b"m", b"before", *told]


def test_what_somebody_else_is_still_writing_is_left_alone(properties, layout, monkeypatch):
    """Its record lies in a partition, and at a time, of a transaction that the owner did commit."""
    monkeypatch.setattr(lost_markers, "_finish", lambda *_, **__: pytest.fail("ended what is not its own"))
    apply(properties, layout)
    topic, owner = f"{layout.prefix}lifecycle", f"{layout.prefix}dispatcher.a.b"
    ours = open_transaction(properties, owner, topic, 0, [b"ours"])
    theirs = open_transaction(properties, f"{owner}.other", topic, 0, [b"theirs"])
    ours.commit_transaction(10)
    threading.Timer(3.0, theirs.abort_transaction, (10,)).start()
    admin, names = Admin(properties), Names(layout.prefix)
    lost = lost_markers.LostMarkers(properties, f"{layout.prefix}dispatcher", names, admin)
    with pytest.raises(LogError, match="too early"):
        lost.end_of_dead(lambda: ours, owner)
    lost.end_own(ours, owner, lost_markers.EVERYWHERE)
    ended(properties, topic, 0, 4)
    assert committed_keys(properties, topic, 0) == [b"ours"]


def test_an_abort_looks_only_where_it_wrote(properties, layout, monkeypatch):
    """What others leave open elsewhere must not keep a turn waiting: whoever was killed may have left it a second ago."""
    monkeypatch.setattr(
        lost_markers.LostMarkers, "_first_records", lambda *_: pytest.fail("looked at what others wrote")
    )
    apply(properties, layout)
    seen = owning(properties, layout, "a")
    theirs = open_transaction(properties, "somebody", f"{layout.prefix}changelog", 1, [b"theirs"])
    begun(seen.log, changelog(0, b"ours"))
    seen.log.abort()
    seen.log.close()
    theirs.abort_transaction(10)
