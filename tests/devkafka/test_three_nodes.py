"""Three nodes: what is acknowledged by all in-sync replicas survives the loss of one."""

import pytest

from scheduler import devkafka
from tests.devkafka.records import create_topic, read, write

pytestmark = [pytest.mark.broker, pytest.mark.slow]


def test_writing_goes_on_without_one_node_and_nothing_acknowledged_is_lost(own_state):
    with devkafka.start(nodes=3) as cluster:
        create_topic(cluster.bootstrap, "safe", replicas=3)
        write(cluster.bootstrap, "safe", [b"before"])
        cluster.nodes[0].kill()
        write(cluster.bootstrap, "safe", [b"without"])
        cluster.nodes[0].start()
        cluster.nodes[1].stop()
        write(cluster.bootstrap, "safe", [b"with"])
        assert read(cluster.bootstrap, "safe", 3) == [b"before", b"without", b"with"]
