"""The metadata server: its answers, its limits, and its start and end as a command."""

from __future__ import annotations

import contextlib
import http.client
import signal
import socket
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from cluster import Process, free_port
from mooncake import http_metadata_server
from mooncake.http_metadata_server import KVBootstrapServer, KVPoll
from rest import HeadOnly

Answer = tuple[int, str, bytes]


def ask(port: int, method: str, path: str, body: bytes | None = None) -> Answer:
    """Status, content type and body of the response."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path, body)
        reply = connection.getresponse()
        return reply.status, reply.headers.get_content_type(), reply.read()
    finally:
        connection.close()


@pytest.fixture
def server() -> Iterator[KVBootstrapServer]:
    server = KVBootstrapServer(port=0, host="127.0.0.1")
    assert server.poll() is KVPoll.Failed
    server.run()
    assert server.poll() is KVPoll.Success
    yield server
    server.close()
    assert server.poll() is KVPoll.Failed


def json_text(status: int, text: bytes) -> Answer:
    return status, "application/json", text


def test_values_come_and_go(server: KVBootstrapServer) -> None:
    ram, meta = "/metadata?key=mooncake%2Fram%2Fa", "/metadata?key=%20mooncake/rpc_meta/a%20"
    steps: list[tuple[str, str, bytes | None, Answer]] = [
        ("GET", "/health", None, (200, "text/plain", b"OK")),
        ("GET", ram, None, json_text(404, b"metadata not found")),
        ("DELETE", ram, None, json_text(404, b"metadata not found")),
        ("PUT", ram, b'{"a": 1}', json_text(200, b"metadata updated")),
        ("PUT", ram, b'{"a": 2}', json_text(200, b"metadata updated")),
        ("GET", ram, None, json_text(200, b'{"a": 2}')),
        ("PUT", meta, b"first", json_text(200, b"metadata updated")),
        ("PUT", meta, b"first", json_text(200, b"metadata unchanged")),
        ("PUT", meta, b"other", json_text(400, b"Duplicate rpc_meta key not allowed")),
        ("GET", meta, None, json_text(200, b"first")),
        ("DELETE", meta, None, json_text(200, b"metadata deleted")),
        ("PUT", meta, b"other", json_text(200, b"metadata updated")),
        ("DELETE", ram, None, json_text(200, b"metadata deleted")),
        ("GET", ram, None, json_text(404, b"metadata not found")),
    ]
    answers = [(method, path, body, ask(server.port, method, path, body)) for method, path, body, _ in steps]
    assert answers == steps
    assert server.store == {"mooncake/rpc_meta/a": b"other"}


def test_a_server_with_a_token_serves_those_who_name_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MC_METADATA_HTTP_TOKEN", "s3cret")
    server = KVBootstrapServer(port=0, host="127.0.0.1")
    monkeypatch.delenv("MC_METADATA_HTTP_TOKEN")
    server.run()

    def status(method: str, named: str | None) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
        headers = {} if named is None else {"Authorization": named}
        connection.request(method, "/metadata?key=k", b"v", headers)
        with contextlib.closing(connection):
            return connection.getresponse().status

    for wrong in (None, "", "Bearer", "Bearer s3cre", "Basic s3cret", "Bearer s3cret2", "Bearer \xff"):
        assert [status(method, wrong) for method in ("PUT", "GET", "DELETE")] == [401] * 3, wrong
    assert server.store == {}
    for right in ("Bearer s3cret", "bearer s3cret"):
        assert [status(method, right) for method in ("PUT", "GET", "DELETE")] == [200] * 3
    assert ask(server.port, "GET", "/health")[0] == 200
    server.close()


def test_bad_requests_are_refused_and_change_nothing(server: KVBootstrapServer) -> None:
    long_key = quote("k" * 4097)
    steps: list[tuple[str, str, bytes | None, Answer]] = [
        *((method, "/metadata", b"v", json_text(400, b"metadata key is required")) for method in ("GET", "PUT")),
        ("PUT", "/metadata?key=", b"v", json_text(400, b"metadata key is required")),
        ("DELETE", "/metadata?key=%20%20", None, json_text(400, b"metadata key is required")),
        ("PUT", f"/metadata?key={long_key}", b"v", json_text(400, b"metadata key is longer than 4096 bytes")),
        ("POST", "/metadata?key=a", b"v", json_text(405, b"Method not allowed")),
    ]
    answers = [(method, path, body, ask(server.port, method, path, body)) for method, path, body, _ in steps]
    assert answers == steps
    assert ask(server.port, "GET", "/nothing")[0] == 404
    assert ask(server.port, "PUT", "/metadata?key=a", bytes((1 << 20) + 1))[0] == 413
    assert server.store == {}


def test_keys_and_bytes_are_bounded(server: KVBootstrapServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_metadata_server, "MAX_KEYS", 2)
    monkeypatch.setattr(http_metadata_server, "MAX_TOTAL_BYTES", 10)
    steps = [("a", b"12345", 200), ("b", b"123456", 507), ("b", b"12345", 200), ("c", b"", 507), ("a", b"123456", 507)]
    assert [ask(server.port, "PUT", f"/metadata?key={key}", value)[0] for key, value, _ in steps] == [
        status for _, _, status in steps
    ]
    assert ask(server.port, "DELETE", "/metadata?key=a")[0] == 200
    assert ask(server.port, "PUT", "/metadata?key=c", b"12345")[0] == 200
    assert server.store == {"b": b"12345", "c": b"12345"}


def test_a_body_that_does_not_come_or_cannot_be_unpacked_is_refused(
    server: KVBootstrapServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_metadata_server, "BODY_SECONDS", 0.2)
    with HeadOnly(server.port, "PUT", "/metadata?key=a", {"Content-Length": "10"}) as reply:
        assert (reply.status, reply.read()) == (408, b"the body did not come within 0.2 s")
    gzip = {"Content-Length": "2", "Content-Encoding": "gzip"}
    with HeadOnly(server.port, "PUT", "/metadata?key=a", gzip, b"{}") as reply:
        assert (reply.status, reply.read()) == (400, b"the body cannot be read")
    assert server.store == {}


def test_a_taken_port_is_told_by_poll() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        server = KVBootstrapServer(taken.getsockname()[1], "127.0.0.1")
        server.run()
        assert server.poll() is KVPoll.Failed
        server.close()
        server.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_listens_where_it_is_told_and_stops_on_a_signal(number: signal.Signals) -> None:
    port = free_port()
    command = Process("mooncake_http_metadata_server", "--host=127.0.0.1", f"--port={port}")

    def answers() -> bool:
        try:
            return ask(port, "GET", "/health") == (200, "text/plain", b"OK")
        except OSError:
            return False

    command.wait_ready(answers)
    with pytest.raises(OSError, match=r".*"):
        socket.create_connection(("127.0.0.2", port), timeout=5).close()
    command.process.send_signal(number)
    assert command.process.wait(10) == 0, command.output()


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--port", "http"], 2, "is not a port from 0 to 65535"),
        (["--port", "70000"], 2, "is not a port from 0 to 65535"),
        (["--log-level", "LOUD"], 2, "invalid choice: 'LOUD'"),
        (["--host", "999.1.1.1", "--port", "0"], 1, "cannot listen on 999.1.1.1:0"),
        (["--host", "a..b", "--port", "0"], 1, "cannot listen on a..b:0"),
    ],
)
def test_the_command_refuses_wrong_flags(arguments: list[str], status: int, message: str) -> None:
    command = Process("mooncake_http_metadata_server", *arguments)
    assert command.process.wait(20) == status
    assert message in command.output()
