"""What can go wrong before a broker runs is told in a sentence that says what to do."""

import shutil
import socket
from collections import namedtuple

import pytest

from scheduler import devkafka
from scheduler.devkafka import java, state_dir


def test_a_folder_without_kafkas_jars(own_state, monkeypatch):
    monkeypatch.setenv("JOBS_DEV_KAFKA_JARS", str(own_state))
    with pytest.raises(
        devkafka.NoJarsError, match=r"holds no kafka_2.13-4.4.0.jar; point it at the 'libs' folder"
    ):
        devkafka.start()


def test_no_network_for_the_jars(own_state, monkeypatch):
    monkeypatch.setenv("JGO_CACHE_DIR", str(own_state / "jgo"))
    monkeypatch.setenv("M2_REPO", str(own_state / "m2"))
    monkeypatch.setenv("JOBS_DEV_MAVEN_REPOSITORY", "http://127.0.0.1:1/maven2")
    with pytest.raises(
        devkafka.NoJarsError, match=r"can't be had from http://127.0.0.1:1/maven2; set JOBS_DEV_MAVEN"
    ):
        devkafka.start()


def test_a_port_that_is_taken(own_state):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(devkafka.PortTakenError, match=f"port {port} .*is taken.*choose another port"):
            devkafka.start(port=port)


def test_too_old_a_java(own_state, monkeypatch):
    old = own_state / "java"
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    old.chmod(0o755)
    monkeypatch.setattr(java, "_candidates", lambda: iter([old]))
    with pytest.raises(
        devkafka.NoJavaError, match=r"Java 17 or later, and .* is Java 11; install one with: pip"
    ):
        devkafka.start()


def test_java_8_names_its_version_another_way(own_state, monkeypatch):
    old = own_state / "java"
    old.write_text("#!/bin/sh\necho 'java version \"1.8.0_402\"' >&2\n")
    old.chmod(0o755)
    monkeypatch.setattr(java, "_candidates", lambda: iter([old]))
    with pytest.raises(devkafka.NoJavaError, match="is Java 8"):
        java.find_java()


def test_no_java_at_all(monkeypatch):
    monkeypatch.setattr(java, "_candidates", lambda: iter(()))
    with pytest.raises(devkafka.NoJavaError, match="none was found"):
        java.find_java()


def test_little_disk(own_state, monkeypatch):
    usage = namedtuple("usage", "total used free")  # noqa: PYI024
    monkeypatch.setattr(state_dir.shutil, "disk_usage", lambda _: usage(10**12, 10**12 - 2**20, 2**20))
    with pytest.raises(devkafka.LittleDiskError, match=r"only 1 MiB are free.*set JOBS_DEV_DIR"):
        devkafka.start()


def test_a_folder_with_other_things_in_it_is_left_alone(own_state):
    precious = own_state / "home" / "precious"
    precious.parent.mkdir()
    precious.write_text("mine")
    with pytest.raises(devkafka.DirectoryError, match="not a cluster of ours; give an empty folder"):
        devkafka.start(directory=precious.parent)
    assert precious.read_text() == "mine"


@pytest.mark.broker
def test_a_cluster_of_another_size(own_state):
    devkafka.start(directory=own_state / "mine").stop()
    with pytest.raises(devkafka.DirectoryError, match="holds a cluster of 1 nodes, not 3"):
        devkafka.start(nodes=3, directory=own_state / "mine")


def test_the_given_broker_does_not_answer(own_state, monkeypatch):
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    monkeypatch.setattr("scheduler.devkafka.provide.ANSWER_TIMEOUT_S", 0.2)
    with pytest.raises(devkafka.BrokerFailedError, match=r"no broker answered at 127.0.0.1:1.*unset"):
        devkafka.attach_or_start()


def test_a_broker_that_ends_while_starting_says_where_its_log_is(own_state, monkeypatch):
    broken = own_state / "libs"
    broken.mkdir()
    (broken / "kafka_2.13-4.4.0.jar").write_bytes(b"no jar")
    monkeypatch.setenv("JOBS_DEV_KAFKA_JARS", str(broken))
    monkeypatch.setenv("JOBS_DEV_DIR", str(own_state / "state"))
    with pytest.raises(
        devkafka.BrokerFailedError, match=r"could not be formatted \(exit 1\); see .*broker.log"
    ):
        devkafka.start()


def test_an_unknown_way(own_state, monkeypatch):
    monkeypatch.setenv("JOBS_DEV_KAFKA", "zookeeper")
    with pytest.raises(devkafka.DevKafkaError, match="none of any, container, java"):
        devkafka.start()


def test_jars_from_a_folder_are_enough(own_state, monkeypatch):
    from scheduler.devkafka.jars import class_path

    fetched = class_path(lambda _: None)
    libs = own_state / "libs"
    libs.mkdir()
    for jar in fetched:
        shutil.copy(jar, libs / jar.name)
    monkeypatch.setenv("JOBS_DEV_KAFKA_JARS", str(libs))
    assert {jar.name for jar in class_path(lambda _: None)} == {jar.name for jar in fetched}
