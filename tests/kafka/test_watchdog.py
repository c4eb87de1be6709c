"""Inputs that bring nothing are taken up anew, on a real broker; a client that stays deaf is given up."""

import pytest
from confluent_kafka import TopicPartition

from scheduler.core.inputs import Input
from scheduler.dispatcher.ports import Fenced, PositionLost
from scheduler.kafka.admin import Admin
from scheduler.kafka.names import Names
from scheduler.kafka.stable_ends import StableEnds
from scheduler.kafka.stalls import LOOKS
from scheduler.kafka.watchdog import TRIES, Watchdog
from tests.kafka.seen import at, open_transaction, produce, topic_of


class Heard:
    """Remembers what the watchdog tells, and counts its looks."""

    def __init__(self):
        self.topics, self.records, self.looks = [], {}, 0

    def taken_up(self, topic):
        self.topics.append(topic)

    def hidden(self, records):
        self.records, self.looks = dict(records), self.looks + 1


@pytest.fixture
def heard(owner, properties, installed):
    """The owner's log under a watchdog whose few looks give a slow broker the time to bring what there is."""
    heard = Heard()
    ends = StableEnds(Admin(properties).client)
    owner.log._watchdog = Watchdog(ends, Names(installed.prefix), heard, look_every_s=0.4)
    return heard


def go_deaf(log, topic, shard, source):
    """Pause an input behind the reader's back, as a lost resume would leave it."""
    log._reader_of[source].consumer.pause([TopicPartition(topic, shard)])


@pytest.mark.parametrize("source", [Input.REPORTS, Input.SUBMIT_BULK, Input.RETRY_5S])
def test_an_input_that_went_deaf_is_taken_up_anew_and_brings_each_record_once(
    owner, heard, properties, installed, source
):
    topic = topic_of(installed, source)
    produce(properties, topic, 1, [b"a"])
    owner.log.follow(1, at(0))
    owner.until(lambda: owner.keys(source) == [b"a"])
    go_deaf(owner.log, topic, 1, source)
    produce(properties, topic, 1, [b"b", b"c"])
    owner.until(lambda: owner.keys(source) == [b"a", b"b", b"c"])
    assert set(heard.topics) == {topic.removeprefix(installed.prefix)}


def test_quiet_read_and_paused_inputs_are_left_alone(owner, heard, properties, installed):
    owner.log.follow(0, at(0))
    produce(properties, topic_of(installed, Input.SUBMIT_BULK), 0, [b"a"])
    # A transaction leaves a marker, which no record ever shows to have been passed.
    writer = open_transaction(
        properties, installed.prefix + "t", topic_of(installed, Input.COMMANDS), 0, [b"b"]
    )
    writer.commit_transaction()
    owner.until(lambda: len(owner.records) == 2)
    owner.log.pause(0, Input.SUBMIT_DEFAULT)
    produce(properties, topic_of(installed, Input.SUBMIT_DEFAULT), 0, [b"c"])
    before = heard.looks
    owner.until(lambda: heard.looks > before + 2 * LOOKS)
    assert heard.topics == []


def test_an_input_whose_position_is_gone_stays_held(owner, heard, properties, installed):
    topic = topic_of(installed, Input.SUBMIT_BULK)
    produce(properties, topic, 0, [b"a", b"b", b"c"])
    admin = Admin(properties)
    deletion = admin.client.delete_records([TopicPartition(topic, 0, 2)])
    assert [future.result(10).low_watermark for future in deletion.values()] == [2]
    owner.log.follow(0, at(0))
    with pytest.raises(PositionLost):
        owner.until(lambda: False)
    before = heard.looks
    owner.until(lambda: heard.looks > before + 2 * LOOKS)
    assert heard.topics == []
    assert owner.records == []


def test_what_an_open_transaction_hides_is_told(owner, heard, properties, installed):
    owner.log.follow(2, at(0))
    rogue = open_transaction(
        properties, installed.prefix + "rogue", topic_of(installed, Input.SUBMIT_BULK), 2, [b"a", b"b"]
    )
    owner.until(lambda: heard.records == {"submit.bulk": 2})
    rogue.abort_transaction()
    owner.until(lambda: heard.records == {})
    assert heard.topics == []


def test_a_client_that_stays_deaf_is_made_anew(owner, heard, properties, installed):
    topic = topic_of(installed, Input.SUBMIT_BULK)
    owner.log._watchdog._look_every_s = 0
    owner.log.follow(3, at(0))
    reader = owner.log._reader_of[Input.SUBMIT_BULK]
    reader.take_up = lambda place: None  # as if it did not help
    go_deaf(owner.log, topic, 3, Input.SUBMIT_BULK)
    produce(properties, topic, 3, [b"a"])
    with pytest.raises(Fenced, match=rf"{topic}/3 brings nothing, though it was taken up {TRIES} times"):
        owner.until(lambda: False)
    assert heard.topics == ["submit.bulk"] * TRIES
    owner.log.reopen()
    owner.owned.clear()
    owner.until(lambda: 3 in owner.owned)
    owner.log.follow(3, at(0))
    owner.until(lambda: owner.keys(Input.SUBMIT_BULK) == [b"a"])
