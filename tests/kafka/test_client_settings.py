"""What an operator may set, and what nobody may."""

import pytest

from scheduler.dispatcher.ports import LogError
from scheduler.kafka import client_settings
from scheduler.kafka.troubles import Troubles

OPERATORS = {
    "bootstrap.servers": "127.0.0.1:1",
    "security.protocol": "PLAINTEXT",
    "session.timeout.ms": "9000",
    "group.instance.id": "slot-1",
    "max.poll.interval.ms": "60000",
    "compression.type": "zstd",
    "transactional.id": "mine",
    "enable.auto.commit": "true",
    "auto.offset.reset": "latest",
    "isolation.level": "read_uncommitted",
    "enable.idempotence": "false",
    "acks": "1",
    "partition.assignment.strategy": "range",
    "transaction.timeout.ms": "5000",
}

KINDS = {
    "driver": client_settings.driver(OPERATORS, "group"),
    "follower": client_settings.follower(OPERATORS, "group"),
    "restorer": client_settings.restorer(OPERATORS, "group"),
    "standby": client_settings.standby(OPERATORS, "group"),
    "transactional": client_settings.transactional(OPERATORS, "owner"),
    "plain": client_settings.plain(OPERATORS),
    "admin": client_settings.admin(OPERATORS),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_client_takes_the_settings_without_a_murmur(kind, caplog):
    make = Troubles().consumer if "group.id" in KINDS[kind] else Troubles().producer
    client = make(KINDS[kind])
    assert KINDS[kind]["security.protocol"] == "PLAINTEXT"
    assert "CONFWARN" not in caplog.text
    del client


def test_consumers_never_commit_or_jump_by_themselves():
    for kind in ("driver", "follower", "restorer", "standby"):
        assert KINDS[kind]["enable.auto.commit"] is False
        assert KINDS[kind]["auto.offset.reset"] == "error"
        assert KINDS[kind]["allow.auto.create.topics"] is False


def test_what_follows_reads_only_what_is_committed():
    assert KINDS["driver"]["isolation.level"] == "read_uncommitted"
    for kind in ("follower", "restorer", "standby"):
        assert KINDS[kind]["isolation.level"] == "read_committed"


def test_only_the_driver_is_a_member():
    assert KINDS["driver"]["group.instance.id"] == "slot-1"
    assert KINDS["driver"]["session.timeout.ms"] == "9000"
    assert KINDS["driver"]["partition.assignment.strategy"] == "cooperative-sticky"
    for kind in ("follower", "restorer", "standby"):
        assert not {"group.instance.id", "session.timeout.ms", "max.poll.interval.ms"} & KINDS[kind].keys()


def test_producers_are_idempotent_and_wait_for_all():
    for kind in ("transactional", "plain"):
        assert KINDS[kind]["enable.idempotence"] is True
        assert KINDS[kind]["acks"] == "all"
        assert KINDS[kind]["partitioner"] == "murmur2_random"
        assert KINDS[kind]["compression.type"] == "zstd"
    assert KINDS["transactional"]["transactional.id"] == "owner"
    assert KINDS["transactional"]["transaction.timeout.ms"] == "5000"
    assert "transactional.id" not in KINDS["plain"]


def test_the_new_protocol_has_its_timeouts_at_the_broker():
    new = client_settings.driver({"bootstrap.servers": "x", "group.protocol": "consumer"}, "group")
    assert not {"session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy"} & new.keys()


def test_a_misspelt_property_is_refused_by_name():
    with pytest.raises(LogError, match=r"consumer settings: .*fetch\.wait\.max\.millis"):
        Troubles().consumer(client_settings.follower({"fetch.wait.max.millis": "1"}, "group"))
