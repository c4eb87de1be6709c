"""A log that lost its end in an unclean election and has grown past our position again: other records lie there now."""

import contextlib
import time
import uuid

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewTopic

from scheduler import devkafka
from scheduler.core.inputs import TOPIC_OF, Input
from scheduler.dispatcher.ports import PositionLost
from scheduler.kafka.admin import Admin
from scheduler.kafka.apply import apply
from scheduler.kafka.layout import Layout
from scheduler.kafka.log import KafkaLog, LogSettings
from tests.kafka.seen import DEADLINE_S, Seen, at, open_transaction, produce, topic_of

SOURCE = Input.SUBMIT_DEFAULT
SHARDS = 2

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def brokers():
    with devkafka.start(3) as cluster:
        yield cluster


class Scene:
    """Shards of which one input has two copies, the first node's being the leader's; all else has three."""

    def __init__(self, brokers):
        self.nodes = brokers.nodes
        self.leader, self.follower, _ = brokers.nodes
        self.layout = Layout(SHARDS, {"default": 1}, prefix=f"t{uuid.uuid4().hex[:6]}-", replication_factor=3)
        # A dispatcher that goes on has to stay in the group while nobody answers; and if its word that it leaves is lost
        # with the coordinator, the next one waits for so long.
        self.properties = {
            "bootstrap.servers": ",".join(node.bootstrap for node in self.nodes),
            "session.timeout.ms": "20000",
            "heartbeat.interval.ms": "500",
        }
        self.topic = topic_of(self.layout, SOURCE)
        self.logs = contextlib.ExitStack()
        self._create()
        apply(self.properties, self.layout)

    def _create(self):
        (as_laid_out,) = (topic for topic in self.layout.topics() if topic.name == TOPIC_OF[SOURCE])
        loose = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
        configs = {**as_laid_out.configs, **loose}
        copies = [[self.leader.id, self.follower.id]] * SHARDS
        new = NewTopic(self.topic, num_partitions=SHARDS, replica_assignment=copies, config=configs)
        admin = Admin(self.properties)
        admin.client.create_topics([new])[self.topic].result(10)

    def owner(self, name):
        settings = LogSettings(self.properties, name, uuid.uuid4().hex[:8], self.layout.prefix, shards=SHARDS)
        seen = Seen(KafkaLog(settings))
        self.logs.callback(seen.log.close)
        return seen.until(lambda: len(seen.owned) == SHARDS)

    def write(self, tag, count):
        """Append through the brokers that are there now."""
        produce(self.properties, self.topic, 0, [b"%s-%d" % (tag, n) for n in range(count)])

    def until(self, leader, copies):
        """Wait until this node leads, and so many copies are in step."""
        admin = Admin(self.properties)
        deadline = time.monotonic() + DEADLINE_S
        while True:
            here = admin.client.list_topics(self.topic, timeout=10).topics[self.topic].partitions[0]
            if here.leader == leader.id and len(here.isrs) == copies:
                return
            assert time.monotonic() < deadline, (here.leader, here.isrs)
            admin.client.poll(0.1)

    def cut(self):
        """Let the follower miss 100 records, and then lead: they are gone, and it writes on where it stood."""
        self.follower.stop()
        self.until(self.leader, 1)
        self.write(b"missed", 100)

    def lead_uncleanly(self):
        self.leader.kill()
        self.follower.start()
        self.until(self.follower, 1)
        self.write(b"other", 300)


@pytest.fixture
def scene(brokers):
    made = Scene(brokers)
    with made.logs:
        yield made


def refused(seen):
    with pytest.raises(PositionLost) as lost:
        seen.until(lambda: False)
    return lost.value


@pytest.mark.timeout(180)
@pytest.mark.parametrize("knows_the_leader", [False, True], ids=["new to the topic", "reads it already"])
def test_a_log_that_was_cut_and_has_grown_again_is_held(scene, knows_the_leader):
    first = scene.owner("first")
    scene.write(b"kept", 30)
    scene.cut()
    first.log.follow(0, at(0))
    first.until(lambda: len(first.keys(SOURCE)) == 130)
    position = {SOURCE: 130}
    epochs = first.log.leader_epochs(0, position)
    assert epochs.keys() == {SOURCE}

    scene.lead_uncleanly()
    told = (
        f"{TOPIC_OF[SOURCE]}/0: the log was truncated to 30, and what was read from there to 130 is gone; "
        "the log holds 0 to 330"
    )
    try:
        assert str(refused(first)) == told  # whoever goes on
        assert first.log.leader_epochs(0, position) == epochs
        first.log.close()

        second = scene.owner("second")  # and whoever takes over
        if knows_the_leader:
            second.log.follow(1, at(0))
            second.until(lambda: (1, SOURCE) in second.ended)
        second.log.follow(0, {**at(0), **position}, epochs)
        lost = refused(second)
        assert str(lost) == told
        assert (lost.wanted, lost.cut, lost.low, lost.high) == (130, 30, 0, 330)
        produce(scene.properties, topic_of(scene.layout, Input.SUBMIT_BULK), 0, [b"probe"])
        second.until(lambda: second.keys(Input.SUBMIT_BULK) == [b"probe"])
        scene.write(b"later", 1)
        produce(scene.properties, topic_of(scene.layout, Input.SUBMIT_BULK), 0, [b"again"])
        second.until(lambda: second.keys(Input.SUBMIT_BULK) == [b"probe", b"again"])
        assert first.keys(SOURCE)[30:] == [b"missed-%d" % n for n in range(100)]
        assert second.keys(SOURCE) == []
        second.log.follow(0, {SOURCE: 30})  # an operator's decision
        second.until(lambda: len(second.keys(SOURCE)) == 301)
        assert second.keys(SOURCE)[0] == b"other-0"
    finally:
        scene.leader.start()


@pytest.mark.timeout(180)
def test_an_election_that_loses_nothing_is_no_alarm(scene):
    """Nor is a marker that a later leader appended, nor a prefix that is gone, with all that is known of its epochs."""
    scene.until(scene.leader, 2)
    first = scene.owner("first")
    scene.write(b"kept", 10)
    open_transaction(scene.properties, "a", scene.topic, 0, [b"t"]).commit_transaction(10)
    hanging = open_transaction(scene.properties, "b", scene.topic, 0, [b"hidden"])
    first.log.follow(0, at(0))
    first.until(lambda: len(first.keys(SOURCE)) == 11)
    position = {SOURCE: 11}  # behind it a marker, and later one more of another epoch
    before = first.log.leader_epochs(0, position)

    scene.leader.stop()
    try:
        scene.until(scene.follower, 1)
        hanging.abort_transaction(30)
        scene.write(b"more", 2)
        first.until(lambda: len(first.keys(SOURCE)) == 13)
        end = {SOURCE: first.records[-1].offset + 1}
        after = first.log.leader_epochs(0, end)
        assert after[SOURCE] > before[SOURCE]
        assert first.log.leader_epochs(0, position) == before
    finally:
        scene.leader.start()
    scene.until(scene.follower, 2)
    first.log.close()

    second = scene.owner("second")
    second.log.follow(0, position, before)
    second.until(lambda: second.keys(SOURCE) == [b"more-0", b"more-1"])
    second.log.follow(0, end, after)
    scene.write(b"last", 1)
    second.until(lambda: second.keys(SOURCE)[2:] == [b"last-0"])
    second.log.rewind({(0, SOURCE): end[SOURCE]})
    second.until(lambda: second.keys(SOURCE)[3:] == [b"last-0"])
    admin = Admin(scene.properties)
    for answer in admin.client.delete_records([TopicPartition(scene.topic, 0, end[SOURCE])]).values():
        answer.result(10)
    second.log.follow(0, end, before)  # that epoch's records are all gone
    second.until(lambda: second.keys(SOURCE)[4:] == [b"last-0"])
