"""Proxies before the brokers: who begins at one is told to go on through them."""

from pathlib import Path

from scheduler.devkafka.settings import NodePorts, server_properties


def listeners(node: NodePorts) -> dict[str, str]:
    properties = server_properties(node, (node,), Path("/data"))
    return {name: properties[name] for name in ("listeners", "advertised.listeners")}


def test_a_node_behind_a_proxy_listens_beside_it_and_advertises_it():
    assert listeners(NodePorts(1, client=10, controller=11, front=20, behind=21)) == {
        "listeners": "PLAINTEXT://127.0.0.1:10,CONTROLLER://127.0.0.1:11,FRONT://127.0.0.1:21",
        "advertised.listeners": "PLAINTEXT://127.0.0.1:10,FRONT://127.0.0.1:20",
    }


def test_a_node_without_one_is_as_ever():
    assert listeners(NodePorts(1, client=10, controller=11)) == {
        "listeners": "PLAINTEXT://127.0.0.1:10,CONTROLLER://127.0.0.1:11",
        "advertised.listeners": "PLAINTEXT://127.0.0.1:10",
    }
