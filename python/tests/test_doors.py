"""All doors of a pool that speak HTTP, gRPC or ZeroMQ, from outsiders and with each token, in the clear and over TLS.

The frames of RPC, data ports and engines are walked in Rust: `doors.rs` in the tests of the crates `master` and
`transfer`, `strangers.rs` in those of `engine`.
"""

from __future__ import annotations

import contextlib
import importlib
import re
import ssl
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
import trustme
import zmq
from certificates import Files, issue
from cluster import MIB, free_port, wait_until
from grpc_tools import protoc
from guarded import ADMIN, ROLES, TOKEN, GuardedCluster, status_of, token_of, write_roles
from mooncake.http_metadata_server import KVBootstrapServer
from reference import http_paths

ROOT = Path(__file__).parents[2]
DENIED = -1900
OUTSIDERS = ("", "nonsense")
METADATA_TOKEN = "token-of-metadata"
SECONDS = 20.0

# Metadata servers have a token of their own, and none of the others opens them.
METADATA = {
    "GET /metadata?key=k": "own",
    "PUT /metadata?key=k": "own",
    "DELETE /metadata?key=k": "own",
    "GET /health": "",
}
# Counters of one process, without keys and addresses.
OF_NODE = {"GET /health": "", "GET /version": "", "GET /metrics": "", "GET /metrics/summary": ""}
# The rights of which one is enough for a method, and what it is asked. Whoever has begun or mounted nothing ends and
# unmounts nothing.
MEMBER = "read write"
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "GetReplicaList": ("read", {"key": "key"}),
    "GetReplicaListByRegex": ("read", {"key_regex": "key"}),
    "PutStart": ("write", {"key": "key", "value_length": 8, "config": {}}),
    "PutEnd": (MEMBER, {"key": "key"}),
    "Remove": ("write", {"key": "key"}),
    "RemoveByRegex": ("write", {"key_regex": "key"}),
    "MountSegment": ("all", {"segment_name": "127.0.0.1:1", "buffer": 0, "size": 1 << 20}),
    "UnmountSegment": (MEMBER, {"segment_name": "127.0.0.1:1"}),
}
# Open to everybody: whether the master serves, and the schema.
OPEN_SERVICES = {"grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection"}


@dataclass
class Pool:
    cluster: GuardedCluster
    metadata: str
    node: str
    events: tuple[int, int]
    files: Files | None

    @property
    def context(self) -> ssl.SSLContext | None:
        return self.cluster.context


@pytest.fixture(scope="module", params=["clear", "tls"])
def pool(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    folder = tmp_path_factory.mktemp("pool")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MOONCAKE_AUTH_TOKEN", TOKEN)
        patch.setenv("MOONCAKE_AUTH_ROLES_FILE", str(write_roles(folder / "roles")))
        patch.setenv("MC_METADATA_HTTP_TOKEN", METADATA_TOKEN)
        files, context = None, None
        if request.param == "tls":
            files = issue(trustme.CA(), folder)
            for name, value in files.variables().items():
                patch.setenv(name, value)
            context = ssl.create_default_context(cafile=files.ca)
        ports, metadata, node = (free_port(), free_port()), free_port(), free_port()
        flags = (
            "--enable_kv_events",
            "--kv_events_backend_id=pool",
            f"--kv_events_bind_endpoint=tcp://127.0.0.1:{ports[0]}",
            f"--kv_events_replay_endpoint=tcp://127.0.0.1:{ports[1]}",
            "--enable_http_metadata_server",
            f"--http_metadata_server_port={metadata}",
            "--http_metadata_server_host=127.0.0.1",
        )
        with GuardedCluster(*flags, context=context) as cluster:
            cluster.start_node(64 * MIB, "--enable_http_server", "--http_host=127.0.0.1", f"--http_port={node}")
            yield Pool(cluster, f"127.0.0.1:{metadata}", f"127.0.0.1:{node}", ports, files)


def served(source: str) -> set[str]:
    """What a router in Rust serves, as `METHOD /PATH`."""
    return {it.request.split("?")[0] for it in http_paths.of_router(ROOT / source)}


def paths(table: dict[str, str]) -> set[str]:
    return {request.split("?")[0] for request in table}


def test_the_tables_name_all_that_is_served() -> None:
    assert paths(ADMIN) == served("crates/master/src/admin/server.rs")
    assert paths(METADATA) == served("crates/master/src/metadata_server/routes.rs")
    assert paths(OF_NODE) == served("crates/client/src/http.rs")
    in_python = {(route.method, route.path) for route in KVBootstrapServer(0)._routes()}
    # One handler takes all methods, and refuses those that are not in the table.
    assert in_python == {("*", "/metadata"), ("GET", "/health")}


def walk(address: str, table: dict[str, str], context: ssl.SSLContext | None, own: str = "") -> None:
    """Asks for everything in a table as everybody. With `own`, the server has this token, and not those of the pool."""
    for request, rights in table.items():
        for token in OUTSIDERS:
            status, _ = status_of(address, request, token, context)
            assert (status == 401) is bool(rights), (request, token, status)
        for role in (*ROLES, "all"):
            status, _ = status_of(address, request, token_of(role), context)
            if own:
                assert (status == 401) is bool(rights), (request, role, status)
                continue
            is_allowed = not rights or role == "all" or any(right in rights.split() for right in role.split(","))
            assert (status == 403) is not is_allowed, (request, role, status)
            assert status != 401, (request, role)
        if own:
            assert status_of(address, request, own, context)[0] not in (401, 403), request


def test_each_path_of_the_admin_server_asks_for_its_right(pool: Pool) -> None:
    walk(f"127.0.0.1:{pool.cluster.http_port}", ADMIN, pool.context)


def test_the_metadata_server_of_the_master_asks_for_its_own_token(pool: Pool) -> None:
    walk(pool.metadata, METADATA, pool.context, METADATA_TOKEN)


def test_a_node_shows_its_counters_to_everybody(pool: Pool) -> None:
    walk(pool.node, OF_NODE, pool.context)


def test_the_metadata_server_in_python_asks_for_its_own_token(pool: Pool) -> None:
    server = KVBootstrapServer(0, "127.0.0.1")
    server.run()
    try:
        walk(f"127.0.0.1:{server.port}", METADATA, pool.context, METADATA_TOKEN)
    finally:
        server.close()


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("schema")
    proto = ROOT / "proto"
    assert protoc.main(["protoc", f"-I{proto}", f"--python_out={folder}", str(proto / "master_service.proto")]) == 0
    sys.path.insert(0, str(folder))
    yield importlib.import_module("master_service_pb2")
    sys.path.remove(str(folder))


class Channel:
    """A gRPC connection of its own."""

    def __init__(self, pool: Pool, token: str = "") -> None:
        address, options = pool.cluster.master_address, [("grpc.use_local_subchannel_pool", 1)]
        if pool.files is None:
            self.channel = grpc.insecure_channel(address, options=options)
        else:
            credentials = grpc.ssl_channel_credentials(Path(pool.files.ca).read_bytes())
            self.channel = grpc.secure_channel(address, credentials, options=options)
        self.metadata = [("authorization", f"Bearer {token}")] if token else []

    def __enter__(self) -> Channel:
        return self

    def __exit__(self, *_: object) -> None:
        self.channel.close()

    def call(self, method: str, request: bytes = b"") -> bytes:
        answer: bytes = self.channel.unary_unary(method)(
            request, timeout=SECONDS, metadata=self.metadata, wait_for_ready=True
        )
        return answer

    def error(self, method: str) -> grpc.StatusCode:
        with pytest.raises(grpc.RpcError) as refused:
            self.call(method)
        code: grpc.StatusCode = refused.value.code()
        return code


def test_each_method_of_grpc_asks_for_its_right(pool: Pool, schema: Any) -> None:
    service = schema.DESCRIPTOR.services_by_name["MasterService"]
    assert METHODS.keys() == {method.name for method in service.methods}
    for method, (rights, fields) in METHODS.items():
        path, request = f"/MasterService/{method}", getattr(schema, f"{method}Request")(**fields).SerializeToString()
        for token in OUTSIDERS:
            with Channel(pool, token) as channel:
                assert channel.error(path) == grpc.StatusCode.UNAUTHENTICATED, (method, token)
        for role in (*ROLES, "all"):
            with Channel(pool, token_of(role)) as channel:
                if role in ("metrics", "admin"):
                    assert channel.error(path) == grpc.StatusCode.PERMISSION_DENIED, (method, role)
                    continue
                answer = getattr(schema, f"{method}Response").FromString(channel.call(path, request))
                is_allowed = role == "all" or any(right in rights.split() for right in role.split(","))
                assert (answer.status_code == DENIED) is not is_allowed, (method, role, answer)


def test_grpc_has_no_other_service(pool: Pool) -> None:
    with Channel(pool) as channel:
        assert channel.call("/grpc.health.v1.Health/Check") == b"\x08\x01", "it serves"
        ask = channel.channel.stream_stream("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")
        # Field 7 asks for the names of all services, which are the only long words of the answer.
        [answer] = ask(iter([b"\x3a\x00"]), timeout=SECONDS, wait_for_ready=True)
    assert {name.decode() for name in re.findall(rb"[A-Za-z][\w.]{7,}", answer)} == {"MasterService", *OPEN_SERVICES}


class Listener:
    """A consumer of KV events with this token: of the stream, and of snapshots."""

    def __init__(self, context: zmq.Context[Any], ports: tuple[int, int], token: str) -> None:
        self.stream, self.asking = context.socket(zmq.SUB), context.socket(zmq.DEALER)
        for socket, port in zip((self.stream, self.asking), ports, strict=True):
            if token:
                socket.plain_username, socket.plain_password = b"mooncake", token.encode()
            socket.connect(f"tcp://127.0.0.1:{port}")
        self.stream.subscribe(b"")

    def ask(self, request: bytes) -> None:
        # Who was refused has nobody to send to.
        with contextlib.suppress(zmq.Again):
            self.asking.send_multipart([b"", request], flags=zmq.NOBLOCK)

    def hears(self) -> list[bool]:
        return [bool(socket.poll(0)) for socket in (self.stream, self.asking)]


def test_kv_events_are_told_to_those_alone_who_may_read(pool: Pool) -> None:
    context: zmq.Context[Any] = zmq.Context()
    callers = [*OUTSIDERS, *(token_of(role) for role in (*ROLES, "all"))]
    listeners = {token: Listener(context, pool.events, token) for token in callers}
    allowed = {token_of(role) for role in ("read", "read,write", "admin", "all")}
    try:
        for request in (b"snapshot", b"\x00" * 8):
            for listener in listeners.values():
                listener.ask(request)
            store = pool.cluster.store()
            numbers = iter(range(1 << 20))

            def told(store: Any = store, numbers: Iterator[int] = numbers) -> bool:
                assert store.upsert(f"probe-{next(numbers)}", b"x") == 0
                return all(listeners[token].hears() == [True, True] for token in allowed)

            wait_until(told, SECONDS, "those hear who may")
            for token in callers:
                if token not in allowed:
                    # A moment more than those had who may.
                    assert not listeners[token].asking.poll(50), token
                    assert listeners[token].hears() == [False, False], token
                    continue
                while listeners[token].asking.poll(0):
                    listeners[token].asking.recv_multipart()
    finally:
        context.destroy(linger=0)
