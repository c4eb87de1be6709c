"""One node: what it keeps, what it removes, and that neighbours don't meet."""

import threading

import pytest
from confluent_kafka import KafkaException, Producer

from scheduler import devkafka
from scheduler.kafka.readiness import answers
from tests.devkafka.records import create_topic, read, write

pytestmark = pytest.mark.broker


def test_killed_and_started_again_it_still_has_every_acknowledged_record(own_state):
    with devkafka.start() as cluster:
        create_topic(cluster.bootstrap, "kept")
        write(cluster.bootstrap, "kept", [b"1", b"2"])
        cluster.nodes[0].kill()
        assert not answers({"bootstrap.servers": cluster.bootstrap}, 0.2)
        cluster.nodes[0].start()
        assert read(cluster.bootstrap, "kept", 2) == [b"1", b"2"]


def test_what_a_killed_broker_unpacked_lies_in_its_own_folder_and_goes_at_the_next_start(own_state):
    with devkafka.start(directory=own_state / "mine") as cluster:
        create_topic(cluster.bootstrap, "packed")
        write(cluster.bootstrap, "packed", [b"1" * 1_000], "lz4")
        cluster.nodes[0].kill()
        scratch = own_state / "mine" / "node-1" / "tmp"
        unpacked = list(scratch.glob("liblz4*.so"))
        assert len(unpacked) == 1
        cluster.nodes[0].start()
        assert not unpacked[0].exists()


def test_stopped_with_a_directory_it_comes_back_with_its_data_on_the_same_port(own_state):
    directory = own_state / "mine"
    with devkafka.start(directory=directory) as first:
        create_topic(first.bootstrap, "kept")
        write(first.bootstrap, "kept", [b"1"])
    with devkafka.start(directory=directory) as second:
        assert second.bootstrap == first.bootstrap
        assert read(second.bootstrap, "kept", 1) == [b"1"]


def test_stopped_without_a_directory_it_leaves_no_process_and_no_data(own_state):
    cluster = devkafka.start()
    (node,) = cluster.nodes
    assert node.pid is not None
    cluster.stop()
    cluster.stop()
    assert node.pid is None
    assert list((own_state / "throwaway").glob("cluster-*")) == []


def test_two_clusters_side_by_side_do_not_see_each_others_topics(own_state):
    with devkafka.start() as one, devkafka.start() as two:
        create_topic(one.bootstrap, "here")
        create_topic(two.bootstrap, "here")
        write(one.bootstrap, "here", [b"one"])
        write(two.bootstrap, "here", [b"two"])
        assert read(one.bootstrap, "here", 1) == [b"one"]
        assert read(two.bootstrap, "here", 1) == [b"two"]


def test_while_it_is_suspended_nothing_is_acknowledged_and_afterwards_it_is(own_state):
    acknowledged = threading.Event()
    with devkafka.start() as cluster:
        create_topic(cluster.bootstrap, "later")
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        cluster.nodes[0].suspend()
        producer.produce("later", b"1", on_delivery=lambda error, _: error is None and acknowledged.set())
        assert producer.flush(0.5) == 1
        assert not acknowledged.is_set()
        cluster.nodes[0].resume()
        producer.flush(30)
        assert acknowledged.is_set()


def test_a_topic_with_a_mistyped_name_is_not_created(own_state):
    with devkafka.start() as cluster, pytest.raises(KafkaException, match=r"(?i)unknown topic"):
        write(cluster.bootstrap, "mistyped", [b"1"])


def test_the_first_transaction_does_not_wait_for_the_brokers_own_topics(own_state):
    with devkafka.start() as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "first"})
        topics = producer.list_topics(timeout=10).topics
        assert len(topics["__transaction_state"].partitions) == 4
        assert len(topics["__consumer_offsets"].partitions) == 4
        producer.init_transactions(30)
