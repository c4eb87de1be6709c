"""A restore ends at the end, whatever the log's tail looks like."""

import time

import pytest
from confluent_kafka import KafkaError, Producer, TopicPartition

from scheduler.dispatcher.ports import PositionLost
from scheduler.kafka.admin import Admin
from scheduler.kafka.changelog import KafkaChangelog
from scheduler.kafka.consumer_events import failure_of
from tests.kafka.seen import (
    DEADLINE_S,
    Seen,
    bare_changelog,
    changelog,
    ended,
    open_transaction,
    produce,
    transact,
)


@pytest.fixture
def log_of(properties, fresh_prefix):
    """Make a bare changelog topic with settings of the test's choice, and a reader of it."""
    readers = []

    def made(partitions=1, **configs):
        topic = bare_changelog(properties, fresh_prefix, partitions, **configs)
        reader = KafkaChangelog(properties, prefix=fresh_prefix)
        readers.append(reader)
        return topic, reader

    yield made
    for reader in readers:
        reader.close()


def restored(reader, shard, offset=-1):
    """Restore one shard; return its entries and where it goes on."""
    reader.begin(shard, offset)
    return rest_of(reader, {shard})[shard]


def rest_of(reader, shards):
    entries = {shard: [] for shard in shards}
    ends = {}
    deadline = time.monotonic() + DEADLINE_S
    while len(ends) < len(shards):
        assert time.monotonic() < deadline, f"ended: {ends}"
        for part in reader.poll(20):
            assert part.shard not in ends
            entries[part.shard] += part.entries
            if part.done:
                ends[part.shard] = part.next_offset
    return {shard: (entries[shard], ends[shard]) for shard in shards}


def committed(properties, topic, *keys):
    """Commit to an empty log."""
    open_transaction(properties, topic, topic, 0, keys).commit_transaction(10)
    ended(properties, topic, 0, len(keys) + 1)


def test_an_empty_log_is_done_at_once(log_of):
    _, reader = log_of()
    assert restored(reader, 0) == ([], 0)


def test_it_ends_behind_a_commit_marker(log_of, properties):
    topic, reader = log_of()
    committed(properties, topic, b"a", b"b")
    assert restored(reader, 0) == ([(b"a", b"v"), (b"b", b"v")], 3)
    assert restored(reader, 0, 1) == ([(b"b", b"v")], 3)
    assert restored(reader, 0, 3) == ([], 3)


def test_it_ends_behind_an_aborted_batch(log_of, properties):
    topic, reader = log_of()
    committed(properties, topic, b"a")
    open_transaction(properties, topic, topic, 0, [b"x", b"y"]).abort_transaction(10)
    ended(properties, topic, 0, 5)
    assert restored(reader, 0) == ([(b"a", b"v")], 5)
    assert restored(reader, 0, 2) == ([], 5)


def test_deletions_are_entries(log_of, properties):
    topic, reader = log_of(cleanup_policy="compact")
    produce(properties, topic, 0, [b"a"], b"v")
    produce(properties, topic, 0, [b"a"], None)
    assert restored(reader, 0) == ([(b"a", b"v"), (b"a", None)], 2)


def test_it_ends_in_a_log_whose_records_are_all_deleted(log_of, properties):
    topic, reader = log_of()
    produce(properties, topic, 0, [b"a", b"b", b"c"])
    delete_before(properties, topic, 3)
    assert restored(reader, 0) == ([], 3)
    for outside in (0, 2, 4):
        with pytest.raises(ValueError, match=f"offset {outside} is outside 3 to 3"):
            reader.begin(0, outside)


def delete_before(properties, topic, offset, partition=0):
    admin = Admin(properties)  # answers come only while it lives
    for answer in admin.client.delete_records([TopicPartition(topic, partition, offset)]).values():
        answer.result(10)


def test_it_crosses_compacted_holes(log_of, properties):
    """The cleaner leaves holes in every closed segment; the records around them come in order."""
    topic, reader = log_of(
        cleanup_policy="compact",
        internal_segment_bytes="16384",
        min_cleanable_dirty_ratio="0",
        segment_ms="100",
    )
    keys = [b"k%d" % (n % 3) for n in range(2_000)]
    produce(properties, topic, 0, keys, b"x" * 100, batch_num_messages=50)
    deadline = time.monotonic() + DEADLINE_S
    while True:
        entries, end = restored(reader, 0)
        if len(entries) < len(keys) - 100:
            break
        assert time.monotonic() < deadline, "the cleaner has not run"
        produce(properties, topic, 0, [b"again"], b"x" * 100)  # rolls the active segment
    assert {key for key, _ in entries} >= {b"k0", b"k1", b"k2"}
    assert end == Admin(properties).latest([TopicPartition(topic, 0)])[0].offset
    hole = next(n for n in range(end) if restored(reader, 0, n)[0] == restored(reader, 0, n + 1)[0])
    assert restored(reader, 0, hole)[1] == end  # a position inside a hole is a good one


def test_an_open_transaction_holds_it_back_until_its_owner_is_fenced(properties, installed, open_log):
    """The owner dies with a transaction open; the heir ends it by its id and restores to the end."""
    dead = Producer({"bootstrap.servers": properties["bootstrap.servers"], "transactional.id": "dead-owner"})
    dead.init_transactions(10)
    dead.begin_transaction()
    dead.produce(installed.prefix + "changelog", b"v", b"lost", 0)
    assert dead.flush(10) == 0
    heir = Seen(open_log("heir"))
    heir.until(lambda: len(heir.owned) == 4)
    reader = KafkaChangelog(properties, prefix=installed.prefix)
    reader.begin(0, -1)
    entries = []
    heir.until(lambda: entries.extend(reader.poll(5)) or reader.held_back(0))
    assert not any(part.done for part in entries)
    assert heir.log.fence_owner("dead-owner", "a-member-that-left")
    (rest, end) = rest_of(reader, {0})[0]
    assert (rest, end) == ([], 4)  # meta, marker, the aborted record, its marker
    assert not reader.held_back(0)
    reader.close()


def test_several_shards_in_slices(log_of, properties):
    topic, reader = log_of(partitions=3)
    for shard in range(3):
        produce(properties, topic, shard, [b"%d" % n for n in range(2_000 * (shard + 1))])
        reader.begin(shard, 0)
    done = rest_of(reader, {0, 1, 2})
    assert [len(done[shard][0]) for shard in range(3)] == [2_000, 4_000, 6_000]
    assert [done[shard][1] for shard in range(3)] == [2_000, 4_000, 6_000]
    assert reader.poll(0) == []


def test_a_stopped_shard_is_silent_and_can_begin_again(log_of, properties):
    topic, reader = log_of(partitions=2)
    for shard in range(2):
        produce(properties, topic, shard, [b"%d" % n for n in range(3_000)])
    reader.begin(0, 0)
    reader.begin(1, 0)
    reader.stop(0)
    assert rest_of(reader, {1})[1][1] == 3_000
    assert restored(reader, 0, 2_990)[1] == 3_000


def test_it_reads_only_to_the_end_as_it_was(log_of, properties):
    topic, reader = log_of()
    produce(properties, topic, 0, [b"a"])
    reader.begin(0, 0)
    produce(properties, topic, 0, [b"b"])
    entries, end = rest_of(reader, {0})[0]
    assert entries[0] == (b"a", b"v")
    assert end == len(entries)


def test_each_position_that_vanishes_on_the_way_is_named(log_of, properties):
    topic, reader = log_of(partitions=2)
    both = [TopicPartition(topic, shard) for shard in range(2)]
    for shard in range(2):
        produce(properties, topic, shard, [b"a", b"b"])
        reader.begin(shard, 0)
    reader._consumer.pause(both)
    for shard in range(2):
        delete_before(properties, topic, 2, shard)
    reader._consumer.resume(both)
    named = set()
    for _ in range(2):
        with pytest.raises(PositionLost, match="offset 0 is gone") as lost:
            rest_of(reader, {0, 1})
        named.add(lost.value.partition)
    assert named == {0, 1}


def test_a_dead_consumer_is_replaced_and_goes_on_where_it_was(log_of, properties):
    topic, reader = log_of(partitions=2)
    for shard in range(2):
        produce(properties, topic, shard, [b"a", b"b"])
        reader.begin(shard, shard)  # the second from its second record on
    reader._failures.append(failure_of(KafkaError(KafkaError._FATAL), "changelog"))
    rest = rest_of(reader, {0, 1})
    assert [[key for key, _ in entries] for entries, _ in (rest[0], rest[1])] == [[b"a", b"b"], [b"b"]]


def test_a_restore_sees_what_a_turn_wrote(owner, properties, installed):
    last = transact(owner.log, 1, 0, changelog(1, b"s1", b"m"))
    ended(properties, installed.prefix + "changelog", 1, last[1] + 2)
    reader = KafkaChangelog(properties, prefix=installed.prefix)
    entries, end = restored(reader, 1)
    assert [key for key, _ in entries] == [b"m", b"s1", b"m"]
    assert end == last[1] + 2  # the marker stands behind the last record
    assert restored(reader, 1, last[1] + 1) == ([], end)
    reader.close()
