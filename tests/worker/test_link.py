"""The worker's link on a real broker."""

import os
import select
import time

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from scheduler.codec.notices import encode_notice
from scheduler.codec.reports import decode_report
from scheduler.core.keys import murmur2
from scheduler.core.notices import Drain
from scheduler.core.reports import Done, Offer, Sender
from scheduler.kafka.apply import apply
from scheduler.kafka.inbox import KafkaLink
from scheduler.kafka.layout import Layout
from scheduler.worker.ports import Delivered, JoinError, LinkEvent, LinkFailed, Received, Undelivered
from tests.worker.workers import eventually

BOOT_ID = os.urandom(16)


SENDER = Sender("w", BOOT_ID, "default", 1)


@pytest.fixture
def prefix(kafka, fresh_prefix):
    apply({"bootstrap.servers": kafka}, Layout(shards=4, leases={"default": 8}, prefix=fresh_prefix))
    return fresh_prefix


@pytest.fixture
def link(kafka, prefix):
    made = KafkaLink({"bootstrap.servers": kafka}, prefix, "w")
    yield made
    if not made.closed:
        made.close(2_000)


@pytest.fixture
def producer(kafka):
    return Producer({"bootstrap.servers": kafka, "linger.ms": 0})


def happened(link: KafkaLink, count: int = 1, wait_s: float = 15.0) -> list[LinkEvent]:
    """Return the next events, waiting as the parent does: on the descriptor alone."""
    found: list[LinkEvent] = []
    until_s = time.monotonic() + wait_s
    while len(found) < count:
        left_s = until_s - time.monotonic()
        assert left_s > 0, f"only {found}"
        assert select.select([link.fileno()], [], [], left_s)[0], f"nothing more than {found}"
        found += link.take()
    return found


def notify(producer: Producer, prefix: str, inbox: int, value: bytes) -> None:
    producer.produce(f"{prefix}leases.default", value, partition=inbox)
    assert producer.flush(10) == 0


def test_it_finds_its_inbox_and_the_number_of_shards(link):
    joined = link.join("default", BOOT_ID)
    assert joined.shards == 4
    assert joined.inbox == murmur2(BOOT_ID) % 8


def test_nothing_sent_after_joining_is_lost_and_nothing_sent_before_is_read(link, producer, prefix):
    inbox = murmur2(BOOT_ID) % 8
    notify(producer, prefix, inbox, encode_notice(Drain(BOOT_ID, "before")))
    link.join("default", BOOT_ID)
    for n in range(30):
        notify(producer, prefix, inbox, encode_notice(Drain(BOOT_ID, str(n))))
    read = happened(link, 30)
    assert [event.notice.reason for event in read if isinstance(event, Received)] == [
        str(n) for n in range(30)
    ]


def test_what_is_no_notice_is_passed_over(link, producer, prefix):
    joined = link.join("default", BOOT_ID)
    notify(producer, prefix, joined.inbox, b"garbage")
    notify(producer, prefix, joined.inbox, encode_notice(Drain(BOOT_ID, "good")))
    assert happened(link) == [Received(Drain(BOOT_ID, "good"))]


def test_a_lost_position_goes_on_at_the_end(link, producer, prefix, caplog):
    joined = link.join("default", BOOT_ID)

    def lose(message):
        """Read on beyond the end, in the thread that has the consumer."""
        del link._received
        link._consumer.assign(
            [TopicPartition(message.topic(), message.partition(), message.offset() + 1_000)]
        )

    link._received = lose
    notify(producer, prefix, joined.inbox, encode_notice(Drain(BOOT_ID, "before")))
    eventually(lambda: "position is lost" in caplog.text, "word of the loss")
    last = None
    while last is None:  # until it stands at the end again
        notify(producer, prefix, joined.inbox, encode_notice(Drain(BOOT_ID, "after")))
        last = next(iter(link.take()), None)
    assert last == Received(Drain(BOOT_ID, "after"))


def test_an_inbox_that_went_deaf_is_taken_up_anew_and_brings_each_notice_once(
    link, producer, prefix, monkeypatch, caplog
):
    monkeypatch.setattr("scheduler.kafka.inbox.POLL_S", 0.05)
    monkeypatch.setattr("scheduler.kafka.inbox.LOOK_POLLS", 2)
    inbox = murmur2(BOOT_ID) % 8
    received = link._received

    def going_deaf(message):
        link._received = received
        link._consumer.pause(
            [TopicPartition(f"{prefix}leases.default", inbox)]
        )  # by the one thread that may use it
        return received(message)

    link._received = going_deaf
    link.join("default", BOOT_ID)
    notify(producer, prefix, inbox, encode_notice(Drain(BOOT_ID, "heard")))
    assert happened(link) == [Received(Drain(BOOT_ID, "heard"))]
    for reason in ("a", "b"):
        notify(producer, prefix, inbox, encode_notice(Drain(BOOT_ID, reason)))
    assert happened(link, 2) == [Received(Drain(BOOT_ID, reason)) for reason in ("a", "b")]
    # At this pace it may be taken up again before the first fetch has come.
    assert {record.getMessage() for record in caplog.records if "brings nothing" in record.getMessage()} == {
        f"{prefix}leases.default/{inbox} brings nothing from 1 of 3 on: taken up anew"
    }


def test_a_dead_consumer_ends_the_worker(link):
    link.join("default", BOOT_ID)
    assert isinstance(link._on_error(KafkaError(KafkaError._FATAL)), LinkFailed)


def test_reports_arrive_in_their_partition_in_order_and_are_confirmed(link, kafka, prefix):
    link.join("default", BOOT_ID)
    for ticket in range(1, 6):
        link.send(ticket, 2, Offer(SENDER, ticket, 1))
    assert happened(link, 5) == [Delivered(ticket) for ticket in range(1, 6)]
    reader = Consumer({"bootstrap.servers": kafka, "group.id": "x", "enable.auto.commit": False})
    reader.assign([TopicPartition(f"{prefix}reports", 2, 0)])
    read = [eventually(lambda: reader.poll(0.1), "record") for _ in range(5)]
    reader.close()
    assert [decode_report(message.value()).sequence for message in read] == [1, 2, 3, 4, 5]


def test_a_report_that_kafka_refuses_comes_back_as_undelivered(link):
    link.join("default", BOOT_ID)
    link.send(7, 99, Offer(SENDER, 1, 1))
    link.send(8, 0, Done(SENDER, "j", 1, b"t" * 16, result=os.urandom(3_000_000)))
    for refused in happened(link, 2):
        assert isinstance(refused, Undelivered)
        assert refused.retriable is False
        assert refused.why


def test_closing_delivers_what_is_queued(link, kafka, prefix):
    link.join("default", BOOT_ID)
    link.send(1, 0, Offer(SENDER, 1, 1))
    assert link.close(10_000) is True


def test_a_pool_without_topic_is_named(link):
    with pytest.raises(JoinError, match=r"leases\.nowhere does not exist: run 'scheduler topics apply"):
        link.join("nowhere", BOOT_ID)
