"""A topic of a user's that exists and takes nothing, on three nodes: it is told from brokers that are away."""

import time
import uuid

import pytest
from confluent_kafka.admin import NewTopic

from scheduler import devkafka
from scheduler.dispatcher.ports import Fenced, MustAbort, Outgoing, TopicStuck
from scheduler.kafka import client_settings
from scheduler.kafka.admin import Admin
from scheduler.kafka.apply import apply
from scheduler.kafka.layout import Layout
from scheduler.kafka.log import KafkaLog, LogSettings
from tests.kafka.seen import Seen, add, changelog, transact

pytestmark = [pytest.mark.broker, pytest.mark.slow]

STUCK = "stuck"


@pytest.fixture
def owner(monkeypatch):
    """A dispatcher's log on three nodes, of which the last, which alone had the users' topic, is dead."""
    monkeypatch.setattr(client_settings, "TRANSACTION_TIMEOUT_MS", 3_000)  # and so long records are tried
    with devkafka.start(nodes=3) as cluster:
        properties = {"bootstrap.servers": cluster.bootstrap, "heartbeat.interval.ms": "500"}
        layout = Layout(1, {"default": 1}, replication_factor=3, prefix=f"t{uuid.uuid4().hex[:6]}-")
        apply(properties, layout)
        admin = Admin(properties)
        admin.client.create_topics([NewTopic(STUCK, 1, replica_assignment=[[3]])])[STUCK].result(10)
        log = KafkaLog(LogSettings(properties, "a", "b", layout.prefix))
        seen = Seen(log)
        seen.until(lambda: seen.owned == {0})
        cluster.nodes[2].kill()
        until_ours_work_again(seen)
        yield seen
        log.close()


def until_ours_work_again(seen: Seen) -> None:
    deadline = time.monotonic() + 60
    while True:
        seen.poll()
        try:
            transact(seen.log, 0, 0, changelog(0, b"ours"))
        except MustAbort:
            assert time.monotonic() < deadline
            abort(seen)
        else:
            return


def abort(seen: Seen) -> None:
    try:
        seen.log.abort()
    except Fenced:
        seen.log.reopen()


def test_a_users_topic_that_takes_nothing_is_named_and_ours_go_on(owner):
    for _ in range(2):
        owner.poll()
        owner.log.begin()
        add(owner.log, [*changelog(0, b"s"), Outgoing(STUCK, -1, b"k", b"v", foreign=True)])
        with pytest.raises(TopicStuck) as stuck:
            owner.log.flush()
        assert stuck.value.topic == STUCK
        abort(owner)
    until_ours_work_again(owner)
