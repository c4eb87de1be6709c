"""The proxy, between a client that names itself as Kafka's do and a server that answers what it hears."""

import socket
import socketserver
import struct
import threading

import pytest

from scheduler.devkafka.ports import LOOPBACK, free_ports
from tests.chaos.proxy import Direction, Proxy, Trouble, client_of

SILENCE_S = 0.5
ANSWER_S = 10


class Echo(socketserver.BaseRequestHandler):
    """Answers each line by itself, and notes it."""

    heard: list[bytes]

    def handle(self) -> None:
        while data := self.request.recv(1_000):
            self.heard.append(data)
            self.request.sendall(data)


@pytest.fixture
def heard():
    return []


@pytest.fixture
def port(heard):
    """The port of a proxy before a server that answers."""
    handler = type("Handler", (Echo,), {"heard": heard})
    proxy, (front,) = Proxy(), free_ports(1)
    with socketserver.ThreadingTCPServer((LOOPBACK, 0), handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        proxy.forward(1, front, server.server_address[1])
        yield proxy, front
        proxy.close()
        server.shutdown()


def hello(name: bytes) -> bytes:
    """The beginning of a request, as each Kafka client sends it first."""
    return struct.pack(">ihhih", 10 + len(name), 18, 3, 1, len(name)) + name


def connected(front: int, name: bytes = b"ann") -> socket.socket:
    client = socket.create_connection((LOOPBACK, front), ANSWER_S)
    client.sendall(hello(name))
    assert client.recv(1_000) == hello(name)
    return client


def is_silent(client: socket.socket) -> bool:
    client.settimeout(SILENCE_S)
    try:
        client.recv(1_000)
    except TimeoutError:
        return True
    finally:
        client.settimeout(ANSWER_S)
    return False


def test_the_first_request_names_the_client():
    assert client_of(hello(b"worker-1") + b"more") == "worker-1"
    assert client_of(struct.pack(">ihhih", 10, 18, 3, 1, -1)) == ""
    assert client_of(b"") == ""


def test_a_cut_holds_back_and_what_was_sent_arrives_after_it(port):
    proxy, front = port
    with connected(front) as client:
        with proxy.troubled(Trouble("ann", cut=True)):
            client.sendall(b"held")
            assert is_silent(client)
        assert client.recv(1_000) == b"held"


def test_a_cut_of_one_client_leaves_others_alone(port):
    proxy, front = port
    with connected(front, b"bob") as client, proxy.troubled(Trouble("ann", cut=True)):
        client.sendall(b"through")
        assert client.recv(1_000) == b"through"


def test_with_answers_cut_the_server_hears_and_the_client_does_not(port, heard):
    proxy, front = port
    with connected(front) as client:
        with proxy.troubled(Trouble("ann", None, frozenset({Direction.ANSWERS}), cut=True, loses=True)):
            client.sendall(b"done?")
            assert is_silent(client)
            assert heard[-1] == b"done?"
        with pytest.raises(ConnectionError):
            assert client.recv(1_000) == b""
            raise ConnectionError


def test_with_requests_cut_the_server_hears_nothing(port, heard):
    proxy, front = port
    with (
        connected(front) as client,
        proxy.troubled(Trouble("ann", None, frozenset({Direction.REQUESTS}), cut=True)),
    ):
        client.sendall(b"do!")
        assert is_silent(client)
        assert heard == [hello(b"ann")]


def test_a_broker_that_is_cut_off_is_so_for_everybody(port):
    proxy, front = port
    with connected(front) as client:
        with proxy.troubled(Trouble(broker=1, cut=True)):
            client.sendall(b"held")
            assert is_silent(client)
        assert client.recv(1_000) == b"held"
        with proxy.troubled(Trouble(broker=2, cut=True)):
            client.sendall(b"through")
            assert client.recv(1_000) == b"through"
