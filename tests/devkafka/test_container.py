"""The container way; its real run needs an engine."""

import pytest

from scheduler import devkafka
from scheduler.devkafka.container import container_environment, engine_answers
from scheduler.kafka.readiness import answers


def test_the_image_is_told_to_advertise_the_port_that_it_is_reached_at():
    environment = container_environment(19092)
    assert environment["KAFKA_ADVERTISED_LISTENERS"] == "PLAINTEXT://127.0.0.1:19092"
    assert environment["KAFKA_LISTENERS"].startswith("PLAINTEXT://0.0.0.0:19092,")
    assert environment["KAFKA_CONTROLLER_QUORUM_VOTERS"] == "1@127.0.0.1:19093"
    assert environment["KAFKA_GROUP_MIN_SESSION_TIMEOUT_MS"] == "1000"


def test_an_engine_on_another_machine_does_not_count(monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "tcp://192.0.2.1:2375")
    assert not engine_answers()


def test_a_container_can_be_killed_and_started_again(own_state, monkeypatch):
    if not engine_answers():
        pytest.skip("no container engine answers here")
    monkeypatch.setenv("JOBS_DEV_KAFKA", "container")
    with devkafka.start() as cluster:
        cluster.nodes[0].kill()
        cluster.nodes[0].start()
        assert answers({"bootstrap.servers": cluster.bootstrap}, 10)
