"""What standbys read of a real broker's changelogs, and what they hear of the group."""

import time

import pytest
from confluent_kafka import KafkaError, TopicPartition

from scheduler.dispatcher.ports import LogError, PositionLost
from scheduler.kafka.admin import Admin
from scheduler.kafka.consumer_events import failure_of
from scheduler.kafka.following import KafkaFollower
from scheduler.kafka.roster import KafkaRoster
from tests.kafka.seen import DEADLINE_S, Seen, bare_changelog, open_transaction, produce


@pytest.fixture
def log_of(properties, fresh_prefix):
    """Make a bare changelog topic with settings of the test's choice, and a follower of it."""
    followers = []

    def made(partitions=1, **configs):
        stamped = {"message_timestamp_type": "LogAppendTime", **configs}
        topic = bare_changelog(properties, fresh_prefix, partitions, **stamped)
        follower = KafkaFollower(properties, prefix=fresh_prefix)
        followers.append(follower)
        return topic, follower

    yield made
    for follower in followers:
        follower.close()


def read(follower, until, shards=1):
    """Poll until `until(entries by shard, next offset by shard)`; return both."""
    entries, ends = {shard: [] for shard in range(shards)}, {}
    deadline = time.monotonic() + DEADLINE_S
    while not until(entries, ends):
        assert time.monotonic() < deadline, f"read {entries}, up to {ends}"
        slices = follower.poll()
        for each in slices:
            entries[each.shard] += each.entries
            ends[each.shard] = each.next_offset
        if not slices:
            time.sleep(0.005)  # it never waits itself
    return entries, ends


def up_to(end, shard=0):
    return lambda _, ends: ends.get(shard, -1) >= end


def keys(entries, shard=0):
    return [key for key, _ in entries[shard]]


def test_it_goes_on_with_what_commits_and_leaves_out_what_was_aborted(log_of, properties):
    topic, follower = log_of()
    follower.follow(0, -1)
    open_transaction(properties, topic, topic, 0, [b"a", b"b"]).commit_transaction(10)
    assert keys(read(follower, up_to(3))[0]) == [b"a", b"b"]
    open_transaction(properties, topic, topic, 0, [b"x"]).abort_transaction(10)
    open_transaction(properties, topic, topic, 0, [b"c"]).commit_transaction(10)
    entries, ends = read(follower, up_to(7))
    assert (keys(entries), ends) == ([b"c"], {0: 7})
    assert follower.lag(0) == 0


def test_what_is_still_open_is_not_shown(log_of, properties):
    topic, follower = log_of()
    follower.follow(0, -1)
    produce(properties, topic, 0, [b"a"])
    producer = open_transaction(properties, topic, topic, 0, [b"b"])
    produce(properties, topic, 0, [b"c"])
    assert keys(read(follower, up_to(1))[0]) == [b"a"]
    read_until = time.monotonic() + 1.5  # three answers of the broker
    entries, _ = read(follower, lambda *_: time.monotonic() > read_until)
    assert keys(entries) == []
    assert follower.lag(0) >= 1
    producer.commit_transaction(10)
    assert keys(read(follower, up_to(4))[0]) == [b"b", b"c"]


def test_it_begins_where_it_is_told_and_gives_append_times(log_of, properties):
    topic, follower = log_of(partitions=2)
    before_ms = time.time_ns() // 1_000_000
    for shard in range(2):
        produce(properties, topic, shard, [b"a", b"b", b"c"])
        follower.follow(shard, shard + 1)
    times = []
    poll = follower.poll

    def noted():
        slices = poll()
        times.extend(each.at_ms for each in slices if each.entries)
        return slices

    follower.poll = noted
    entries, _ = read(follower, lambda *_: len(times) >= 2, shards=2)
    assert [keys(entries, shard) for shard in range(2)] == [[b"b", b"c"], [b"c"]]
    assert all(before_ms - 1_000 <= at_ms <= time.time_ns() // 1_000_000 + 1_000 for at_ms in times)


def test_a_stopped_shard_brings_nothing_and_may_be_followed_again(log_of, properties):
    topic, follower = log_of(partitions=2)
    for shard in range(2):
        follower.follow(shard, -1)
        produce(properties, topic, shard, [b"a"])
    read(follower, lambda _, ends: len(ends) == 2, shards=2)
    follower.stop(0)
    for shard in range(2):
        produce(properties, topic, shard, [b"b"])
    entries, _ = read(follower, up_to(2, shard=1), shards=2)
    assert (keys(entries, 0), keys(entries, 1)) == ([], [b"b"])
    follower.follow(0, 1)
    assert keys(read(follower, up_to(2), shards=2)[0]) == [b"b"]


@pytest.mark.parametrize("offset", [1, 99])
def test_an_offset_that_the_log_does_not_hold_is_told_once(log_of, properties, offset):
    topic, follower = log_of()
    produce(properties, topic, 0, [b"a", b"b", b"c"])
    admin, before = Admin(properties), TopicPartition(topic, 0, 2)
    admin.client.delete_records([before])[before].result(10)
    follower.follow(0, offset)
    with pytest.raises(PositionLost, match=f"offset {offset} is gone") as lost:
        read(follower, up_to(3))
    assert (lost.value.topic, lost.value.partition) == ("changelog", 0)
    follower.follow(0, -1)
    assert keys(read(follower, up_to(3))[0]) == [b"c"]


def test_a_log_that_is_compacted_under_it_comes_to_the_same(log_of, properties):
    """It stands in the middle of what is cleaned; what it has not read comes to what it would have come to."""
    topic, follower = log_of(
        cleanup_policy="compact",
        segment_ms="100",
        min_cleanable_dirty_ratio="0.001",
        delete_retention_ms="3600000",
        max_compaction_lag_ms="200",
    )
    last = {}

    def write(round_):
        for key in (b"a", b"b", b"c"):
            value = f"{key}-{round_}".encode() if (round_, key) != (5, b"b") else None
            produce(properties, topic, 0, [key], value)
            last[key] = value

    write(0)
    follower.follow(0, -1)
    found = dict(read(follower, up_to(3))[0][0])
    follower._consumer.pause([TopicPartition(topic, 0)])
    for round_ in range(1, 6):
        write(round_)
    behind = KafkaFollower(properties, prefix=topic.removesuffix("changelog"))
    deadline = time.monotonic() + 60
    kept = 18
    while kept >= 18:  # until the cleaner has been here
        assert time.monotonic() < deadline, "nothing was compacted"
        produce(properties, topic, 0, [b"tick"])
        time.sleep(0.3)
        behind.follow(0, -1)
        entries, _ = read(behind, lambda e, _: any(key == b"tick" for key, _ in e[0]))
        kept = sum(key != b"tick" for key, _ in entries[0])
    behind.close()
    follower._consumer.resume([TopicPartition(topic, 0)])
    entries, _ = read(follower, lambda e, _: any(key == b"tick" for key, _ in e[0]))
    found.update(entries[0])
    del found[b"tick"]
    assert found == last


def test_a_dead_consumer_is_replaced_and_other_trouble_is_raised(log_of, properties):
    topic, follower = log_of()
    produce(properties, topic, 0, [b"a", b"b"])
    follower.follow(0, 1)
    follower._failures.append(failure_of(KafkaError(KafkaError._FATAL), "standbys"))
    assert keys(read(follower, up_to(2))[0]) == [b"b"]
    follower._failures.append(LogError("refused"))
    with pytest.raises(LogError, match="refused"):
        follower.poll()
    produce(properties, topic, 0, [b"c"])
    assert keys(read(follower, up_to(3))[0]) == [b"c"]


def test_the_roster_tells_who_holds_what_by_name(open_log, properties, installed):
    first, second = Seen(open_log("first")), Seen(open_log("second"))
    first.until(lambda: len(first.owned) == len(second.owned) == 2, second)
    roster = KafkaRoster(properties, prefix=installed.prefix)
    assert roster.answer() is None
    found = None
    deadline = time.monotonic() + DEADLINE_S
    while found is None:
        assert time.monotonic() < deadline
        roster.ask()
        found = roster.answer()
        first.poll()
        second.poll(wait_ms=1)
    assert {peer.name: peer.shards for peer in found} == {"first": first.owned, "second": second.owned}
    assert {peer.member for peer in found} == {first.log.member, second.log.member}
    assert roster.answer() is None
