"""Who reads what, and from when on."""

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewPartitions

from scheduler.core.inputs import Input
from scheduler.dispatcher.ports import Budget, Fenced, LogError, PositionLost
from scheduler.kafka.admin import Admin
from scheduler.kafka.log import KafkaLog, LogSettings
from tests.kafka.seen import Seen, at, changelog, open_transaction, produce, topic_of, transact


def test_nothing_is_read_before_follow(owner, properties, installed):
    for source in Input:
        produce(properties, topic_of(installed, source), 1, [b"before"])
    produce(properties, topic_of(installed, Input.REPORTS), 2, [b"other"])
    owner.log.follow(2, at(0, Input.REPORTS))
    owner.until(lambda: owner.keys(Input.REPORTS) == [b"other"])
    assert [record.shard for record in owner.records] == [2]
    owner.log.follow(1, at(0))
    owner.until(lambda: len(owner.records) == 1 + len(Input))
    assert {record.input for record in owner.records} == set(Input)


def test_a_record_is_complete(owner, properties, installed):
    produce(properties, topic_of(installed, Input.SUBMIT_DEFAULT), 3, [b"k0", b"k1"], b"value")
    owner.log.follow(3, at(0))
    owner.until(lambda: len(owner.records) == 2)
    first, second = owner.records
    assert (first.input, first.shard, first.offset, first.key, first.value) == (
        Input.SUBMIT_DEFAULT, 3, 0, b"k0", b"value",
    )  # fmt: skip
    assert second.offset == 1
    assert first.at_ms > 1_700_000_000_000


def test_two_members_share_the_shards_and_the_rest_moves_when_one_leaves(owner, open_log):
    second = Seen(open_log("b"))
    second.until(lambda: len(second.owned) == 2 and len(owner.owned) == 2, owner)
    assert owner.owned | second.owned == {0, 1, 2, 3}
    assert sorted(owner.lost) == sorted(second.owned)
    second.log.close()
    owner.until(lambda: len(owner.owned) == 4)


def test_of_a_lost_shard_nothing_more_is_read(owner, open_log, properties, installed):
    for shard in range(4):
        owner.log.follow(shard, at(0))
    second = Seen(open_log("b"))
    second.until(lambda: len(second.owned) == 2, owner)
    owner.records.clear()
    for shard in range(4):
        for source in (Input.REPORTS, Input.SUBMIT_BULK):
            produce(properties, topic_of(installed, source), shard, [b"k"])
    owner.until(lambda: len(owner.records) == 4)
    assert {record.shard for record in owner.records} == owner.owned
    for shard in second.owned:
        second.log.follow(shard, at(0))
    second.until(lambda: len(second.records) == 4, owner)
    assert len(owner.records) == 4


def test_an_input_that_is_read_to_its_end_says_so(owner, properties, installed):
    produce(properties, topic_of(installed, Input.RETRY_5S), 0, [b"a", b"b"])
    owner.log.follow(0, at(0))
    owner.until(lambda: {source for _, source in owner.ended} == set(Input))
    assert owner.keys(Input.RETRY_5S) == [b"a", b"b"]


def test_open_transactions_are_hidden_except_in_reports(owner, properties, installed):
    owner.log.follow(0, at(0))
    hidden = open_transaction(
        properties, installed.prefix + "x", topic_of(installed, Input.COMMANDS), 0, [b"h"]
    )
    shown = open_transaction(
        properties, installed.prefix + "y", topic_of(installed, Input.REPORTS), 0, [b"s"]
    )
    produce(properties, topic_of(installed, Input.SUBMIT_BULK), 0, [b"k"])
    owner.until(lambda: len(owner.records) == 2)
    assert {record.key for record in owner.records} == {b"s", b"k"}
    hidden.commit_transaction(10)
    shown.abort_transaction(10)
    owner.until(lambda: owner.keys(Input.COMMANDS) == [b"h"])


def test_an_end_is_told_by_the_leader_and_counts_what_nobody_can_read_yet(owner, properties, installed):
    submits, bulk = (0, Input.SUBMIT_DEFAULT), (0, Input.SUBMIT_BULK)
    owner.log.follow(0, at(0))
    owner.until(lambda: len(owner.ended) == len(Input))
    produce(properties, topic_of(installed, bulk[1]), 0, [b"a", b"b"])
    hidden = open_transaction(
        properties, installed.prefix + "z", topic_of(installed, submits[1]), 0, [b"h", b"h"]
    )
    owner.log.ask_ends([submits, bulk])
    owner.until(lambda: len(owner.ends) == 2)
    assert owner.ends == {submits: 2, bulk: 2}
    owner.until(lambda: owner.end_offsets[bulk] == 2)
    assert owner.end_offsets[submits] == 0
    hidden.abort_transaction(10)
    owner.until(lambda: owner.end_offsets[submits] == 3)  # behind the marker
    owner.log.ask_ends([submits])
    owner.until(lambda: owner.ends[submits] == 3)
    assert owner.keys(submits[1]) == []


def test_a_budget_of_one_gives_one_record(owner, properties, installed):
    for source in Input:
        produce(properties, topic_of(installed, source), 0, [b"a", b"b"])
    owner.log.follow(0, at(0))
    one = Budget(records=1, size_bytes=1 << 20)
    while len(owner.records) < 2 * len(Input):
        assert len(owner.poll(5, one).records) <= 1


def test_a_budget_of_bytes_bounds_large_records(owner, properties, installed):
    produce(
        properties, topic_of(installed, Input.SUBMIT_BULK), 0, [b"%d" % n for n in range(60)], b"x" * 100_000
    )
    owner.log.follow(0, at(0))
    budget = Budget(records=2_000, size_bytes=1 << 20)
    while len(owner.records) < 5:
        owner.poll(5, Budget(records=5, size_bytes=1 << 20))
    sizes = []
    while len(owner.records) < 60:
        sizes.append(sum(len(record.value) for record in owner.poll(5, budget).records))
    assert max(sizes) < 3 << 20


def test_rewind_reads_the_same_records_again(owner, properties, installed):
    sources = (Input.REPORTS, Input.SUBMIT_DEFAULT, Input.RETRY_2M)
    for source in sources:
        produce(properties, topic_of(installed, source), 1, [b"%d" % n for n in range(1_000)])
    owner.log.follow(1, at(0))
    owner.until(lambda: {record.input for record in owner.records} == set(sources))
    owner.log.rewind({(1, source): 10 for source in sources})
    before = len(owner.records)
    for source in sources:
        owner.until(lambda source=source: again(owner, before, source) == list(range(10, 1_000)))


def again(seen, since, source):
    return [record.offset for record in seen.records[since:] if record.input is source]


def test_a_paused_input_waits_and_goes_on_where_it_is_told(owner, properties, installed):
    produce(properties, topic_of(installed, Input.RETRY_5S), 0, [b"%d" % n for n in range(100)])
    owner.log.follow(0, at(0))
    owner.until(lambda: len(owner.records) >= 10)
    owner.log.pause(0, Input.RETRY_5S)
    before = len(owner.records)
    produce(properties, topic_of(installed, Input.RETRY_30S), 0, [b"probe"])
    owner.until(lambda: owner.keys(Input.RETRY_30S) == [b"probe"])
    assert len(owner.records) == before + 1
    owner.log.resume(0, Input.RETRY_5S, 7)
    owner.until(lambda: again(owner, before, Input.RETRY_5S) == list(range(7, 100)))


def test_unfollow_keeps_the_membership_and_follow_goes_on(owner, properties, installed):
    produce(properties, topic_of(installed, Input.REPORTS), 0, [b"a", b"b"])
    produce(properties, topic_of(installed, Input.SUBMIT_BULK), 0, [b"c", b"d"])
    owner.log.follow(0, at(0))
    owner.until(lambda: len(owner.records) == 4)
    owner.log.unfollow(0)
    owner.records.clear()
    produce(properties, topic_of(installed, Input.REPORTS), 0, [b"e"])
    produce(properties, topic_of(installed, Input.REPORTS), 1, [b"probe"])
    owner.log.follow(1, at(0))
    owner.until(lambda: owner.keys(Input.REPORTS) == [b"probe"])
    owner.log.follow(0, {**at(0), Input.REPORTS: 1, Input.SUBMIT_BULK: 1})
    owner.until(lambda: owner.keys(Input.REPORTS) == [b"probe", b"b", b"e"])
    owner.until(lambda: owner.keys(Input.SUBMIT_BULK) == [b"d"])
    assert not owner.lost


@pytest.mark.parametrize("source", [Input.SUBMIT_DEFAULT, Input.REPORTS])
def test_a_deleted_position_is_held_and_named(owner, properties, installed, source):
    produce(properties, topic_of(installed, source), 2, [b"%d" % n for n in range(8)])
    produce(properties, topic_of(installed, Input.SUBMIT_BULK), 2, [b"bulk"])
    delete(properties, topic_of(installed, source), 2, 8)
    owner.log.follow(2, {**at(0), source: 5})
    with pytest.raises(PositionLost) as lost:
        owner.until(lambda: False)
    assert (lost.value.topic, lost.value.partition) == (
        topic_of(installed, source).removeprefix(installed.prefix),
        2,
    )
    assert (lost.value.wanted, lost.value.low, lost.value.high) == (5, 8, 8)
    produce(properties, topic_of(installed, source), 2, [b"new"])
    owner.until(lambda: owner.keys(Input.SUBMIT_BULK) == [b"bulk"])
    assert owner.keys(source) == []
    owner.log.follow(2, {source: 8})  # an operator's decision
    owner.until(lambda: owner.keys(source) == [b"new"])


def test_a_position_beyond_the_end_is_named_too(owner, properties, installed):
    owner.log.follow(2, {Input.REQUESTS: 17})
    with pytest.raises(PositionLost, match="requests/2: offset 17 is gone; the log holds 0 to 0"):
        owner.until(lambda: False)


def delete(properties, topic, partition, before):
    admin = Admin(properties)
    for answer in admin.client.delete_records([TopicPartition(topic, partition, before)]).values():
        answer.result(10)


def test_consumed_prefixes_are_deleted(owner, properties, installed):
    produce(properties, topic_of(installed, Input.SUBMIT_BULK), 0, [b"a", b"b", b"c"])
    owner.log.delete_before({(0, Input.SUBMIT_BULK): 2})
    topic = topic_of(installed, Input.SUBMIT_BULK)
    admin = Admin(properties)
    owner.until(lambda: admin.earliest([TopicPartition(topic, 0)])[0].offset == 2)


def test_an_echo_is_read_back(owner):
    owner.log.follow(3, at(0))
    owner.log.echo(3, b"echo")
    owner.until(lambda: [record.value for record in owner.records] == [b"echo"])


def test_a_session_that_the_broker_refuses_is_an_error(open_log):
    seen = Seen(open_log("s", **{"session.timeout.ms": "600", "heartbeat.interval.ms": "100"}))
    with pytest.raises(LogError, match="INVALID_SESSION_TIMEOUT"):
        seen.until(lambda: False)


def test_a_fenced_static_member_joins_anew_after_reopen(open_log):
    first = Seen(open_log("a", **{"group.instance.id": "slot"}))
    first.until(lambda: len(first.owned) == 4)
    second = Seen(open_log("b", **{"group.instance.id": "slot"}))
    second.until(lambda: len(second.owned) == 4)
    with pytest.raises(Fenced):
        first.until(lambda: False, second)
    second.log.close()
    first.log.reopen()
    first.until(lambda: first.lost and len(first.owned) == 4)


def test_the_new_group_protocol_works_too(properties, installed):
    """As a setting: broker-side sessions and assignments, partitions moved in increments by the broker."""
    new = {"bootstrap.servers": properties["bootstrap.servers"], "group.protocol": "consumer"}
    first, second = (Seen(KafkaLog(LogSettings(new, name, "boot", installed.prefix))) for name in "ab")
    try:
        first.until(lambda: len(first.owned) == 2 and len(second.owned) == 2, second)
        shard = min(first.owned)
        produce(properties, topic_of(installed, Input.REPORTS), shard, [b"a"])
        first.poll()
        assert first.records == []
        first.log.follow(shard, at(0))
        first.until(lambda: first.keys(Input.REPORTS) == [b"a"], second)
        transact(first.log, shard, 1, changelog(shard, b"s"))
    finally:
        second.log.close()
        first.log.close()


def test_the_group_says_what_was_committed_in_it(owner, installed):
    transact(owner.log, 1, 7, changelog(1, b"s"))
    owner.until(
        lambda: owner.log.group_offsets(range(4)) == {(1, Input.REPORTS): 7}
    )  # a marker may be on its way


def test_partitions_that_somebody_adds_are_counted(owner, properties, installed):
    before = owner.log.partitions()
    assert (before["submit.default"], before["changelog"], before["reports"]) == (4, 4, 4)
    name = topic_of(installed, Input.SUBMIT_DEFAULT)
    admin = Admin(properties)
    admin.client.create_partitions([NewPartitions(name, 6)])[name].result(10)
    owner.until(lambda: owner.log.partitions() == {**before, "submit.default": 6})
