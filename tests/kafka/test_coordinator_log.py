"""What a transaction's coordinator wrote down, read back: from the broker, and from bytes that are anything."""

import struct
import uuid

import pytest

from scheduler.dispatcher.ports import LogError
from scheduler.kafka.coordinator_log import ended_in, ended_transactions, partition_of
from scheduler.kafka.layout import COORDINATOR_LOG
from tests.kafka.seen import open_transaction

PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, ONGOING = 2, 3, 4, 1


def value(version, state, *places, start_ms=1_000, at_ms=2_000):
    """Return what a coordinator writes of a transaction with these partitions, one of each topic."""
    head = struct.pack(">hqhib", version, 7, 3, 10_000, state)
    if version == 0:
        listed = struct.pack(">i", len(places))
        for topic, number in places:
            listed += struct.pack(">h", len(topic)) + topic.encode() + struct.pack(">ii", 1, number)
    else:
        listed = bytes([len(places) + 1])
        for topic, number in places:
            listed += (
                bytes([len(topic) + 1]) + topic.encode() + b"\2" + struct.pack(">i", number) + b"\1\5\1x"
            )
    return head + listed + struct.pack(">qq", at_ms, start_ms) + (b"\0" if version else b"")


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(("state", "committed"), [(PREPARE_COMMIT, True), (PREPARE_ABORT, False)])
def test_an_end_is_read_in_both_versions(version, state, committed):
    ended = ended_in(value(version, state, ("jobs.changelog", 3), ("jobs.dlq", 0)))
    assert ended is not None
    assert (ended.committed, ended.start_ms, ended.at_ms) == (committed, 1_000, 2_000)
    assert ended.places == (("jobs.changelog", 3), ("jobs.dlq", 0))


@pytest.mark.parametrize(
    "raw",
    [
        value(1, ONGOING, ("t", 0)),
        value(1, COMPLETE_COMMIT),
        value(2, PREPARE_COMMIT, ("t", 0)),
        b"",
        *(
            value(version, PREPARE_COMMIT, ("topic", 0))[:cut]
            for version in (0, 1)
            for cut in range(0, 40, 3)
        ),
    ],
)
def test_whatever_else_says_nothing(raw):
    assert ended_in(raw) is None


@pytest.mark.parametrize(
    ("transactional_id", "hashed"),
    [("", 0), ("a", 97), ("polygenelubricants", -(1 << 31)), ("jobs.dispatcher.a.b", None), ("ж𝄞", None)],
)
def test_a_coordinators_partition_is_javas(transactional_id, hashed):
    """Java's documentation has the sum; one word is famous for the least int there is, which has no absolute value."""
    units = struct.unpack(
        f">{len(transactional_id.encode('utf-16-be')) // 2}H", transactional_id.encode("utf-16-be")
    )
    total = sum(unit * 31 ** (len(units) - 1 - at) for at, unit in enumerate(units)) & 0xFFFFFFFF
    signed = total - (1 << 32) if total >= 1 << 31 else total
    assert hashed in {None, signed}
    assert partition_of(transactional_id, 50) == (0 if signed == -(1 << 31) else abs(signed) % 50)


def test_the_broker_tells_how_transactions_of_an_id_ended(properties, installed):
    name = f"{installed.prefix}{uuid.uuid4().hex[:6]}"
    topic = f"{installed.prefix}lifecycle"
    producer = open_transaction(properties, name, topic, 1, [b"a"])
    producer.commit_transaction(10)
    producer.begin_transaction()
    producer.produce(topic, b"v", b"b", 2)
    producer.flush(10)
    producer.abort_transaction(10)
    ended = ended_transactions(properties, f"{installed.prefix}dispatcher", name, 0)
    assert [(each.committed, each.places) for each in ended] == [
        (True, ((topic, 1),)),
        (False, ((topic, 2),)),
    ]
    assert all(each.start_ms <= each.at_ms for each in ended)
    later_ms = ended[-1].at_ms + 60_000
    assert ended_transactions(properties, f"{installed.prefix}dispatcher", name, later_ms) == []
    assert ended_transactions(properties, f"{installed.prefix}dispatcher", "nobody", 0) == []


def test_without_an_answer_nothing_is_known():
    with pytest.raises(LogError, match=COORDINATOR_LOG):
        ended_transactions({"bootstrap.servers": "127.0.0.1:1"}, "group", "id", 0)
