"""The schema registry as it answers, fails and lies."""

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from scheduler.codec.errors import RegistryUnavailable
from scheduler.kafka.registry import DOWN_S, UNKNOWN_S, HttpRegistry, RegistrySettings


class Clock:
    now_s = 100.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def server():
    """A registry whose answers are set by the test: path -> (status, body)."""
    answers, asked = {}, []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append((self.path, self.headers.get("Authorization")))
            status, body = answers.get(self.path, (404, {"error_code": 40403}))
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_):
            pass

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=running.serve_forever)
    thread.start()
    running.answers, running.asked = answers, asked
    running.url = f"http://127.0.0.1:{running.server_address[1]}"
    yield running
    running.shutdown()
    thread.join()
    running.server_close()


def known(server, schema_id, schema, subjects, **more):
    server.answers[f"/schemas/ids/{schema_id}"] = (200, {"schema": schema, **more})
    server.answers[f"/schemas/ids/{schema_id}/subjects"] = (200, subjects)


def test_an_id_has_a_schema_and_subjects(server):
    known(server, 7, '{"type": "record"}', ["jobs.submit.default-value"])
    found = HttpRegistry(RegistrySettings(server.url, "me:secret")).resolve(7)
    assert found.text == '{"type": "record"}'
    assert found.subjects == {"jobs.submit.default-value"}
    assert server.asked[0] == ("/schemas/ids/7", "Basic " + base64.b64encode(b"me:secret").decode())


def test_an_unknown_id_is_remembered_for_a_while(server):
    clock = Clock()
    registry = HttpRegistry(RegistrySettings(server.url), clock)
    assert registry.resolve(7) is None
    known(server, 7, "{}", [])
    assert registry.resolve(7) is None
    assert len(server.asked) == 1
    clock.now_s += UNKNOWN_S
    assert registry.resolve(7) is not None


def test_a_registry_that_fails_is_left_alone_for_a_moment(server):
    clock = Clock()
    server.answers["/schemas/ids/7"] = (500, {})
    registry = HttpRegistry(RegistrySettings(server.url), clock)
    for _ in range(2):
        with pytest.raises(RegistryUnavailable, match=r"schema 7: .*answered 500"):
            registry.resolve(7)
    assert len(server.asked) == 1
    known(server, 7, "{}", [])
    clock.now_s += DOWN_S
    assert registry.resolve(7).text == "{}"


@pytest.mark.parametrize("body", [b"<html>", b"[1]", b"x" * (2 << 20)])
def test_what_is_no_answer_is_unavailable(server, body):
    server.answers["/schemas/ids/7"] = (200, body)
    with pytest.raises(RegistryUnavailable):
        HttpRegistry(RegistrySettings(server.url)).resolve(7)


def test_other_kinds_of_schema_are_known_but_of_no_use(server):
    known(server, 7, "message X {}", ["jobs.submit.default-value"], schemaType="PROTOBUF")
    known(server, 8, "{}", ["jobs.submit.default-value"], references=[{"name": "x"}])
    for schema_id in (7, 8):
        assert HttpRegistry(RegistrySettings(server.url)).resolve(schema_id).subjects == frozenset()


def test_nobody_listening_is_unavailable():
    with pytest.raises(RegistryUnavailable, match="refused"):
        HttpRegistry(RegistrySettings("http://127.0.0.1:1")).resolve(7)


@pytest.mark.parametrize("url", ["ftp://x", "127.0.0.1:8081", "http://"])
def test_an_address_must_be_http(url):
    with pytest.raises(ValueError, match="no http:// or https:// address"):
        RegistrySettings(url)
