"""Pools whose connections between hosts are encrypted."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
import trustme
from certificates import VARIABLES, Files, issue
from cluster import COMMANDS, MIB, Cluster, Memory, Process, content, free_port, wait_until
from engine_peer import Peer
from mooncake.engine import TransferEngine
from mooncake.store import MooncakeDistributedStore


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return issue(trustme.CA(), tmp_path_factory.mktemp("certificates"))


class EncryptedCluster(Cluster):
    """A cluster whose members all have this certificate. The tests' own process has it in the environment, too."""

    def __init__(self, files: Files, *master_flags: str) -> None:
        self.context = ssl.create_default_context(cafile=files.ca)
        self.context.load_cert_chain(files.cert, files.key)
        super().__init__(*master_flags)

    def http(self, path: str) -> str | None:
        url = f"https://127.0.0.1:{self.http_port}{path}"
        try:
            with urllib.request.urlopen(url, timeout=5, context=self.context) as reply:
                text: str = reply.read().decode()
                return text
        except OSError:
            return None


@pytest.fixture
def cluster(files: Files, monkeypatch: pytest.MonkeyPatch) -> Iterator[EncryptedCluster]:
    for name, value in files.variables().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MOONCAKE_TLS_VERIFY_CLIENTS", "1")
    # Shared memory would move the bytes otherwise.
    monkeypatch.setenv("MOONCAKE_TRANSPORTS", "tcp")
    with EncryptedCluster(files) as cluster:
        yield cluster


def test_objects_of_all_lengths_go_through_an_encrypted_pool(cluster: EncryptedCluster) -> None:
    cluster.start_node(128 * MIB)
    writer, reader = cluster.store(), cluster.store()
    for length in (1, 4096, MIB, 17 * MIB + 3):
        key = f"object-{length}"
        assert writer.put(key, content(key, length)) == 0
        assert reader.get(key) == content(key, length)
    keys = [f"small-{number}" for number in range(1000)]
    assert writer.put_batch(keys, [content(key, 100) for key in keys]) == 0
    assert reader.get_batch(keys) == [content(key, 100) for key in keys]
    assert writer.remove_all(force=True) == len(keys) + 4


def test_no_port_of_an_encrypted_pool_talks_in_the_clear(cluster: EncryptedCluster) -> None:
    node = cluster.start_node(64 * MIB)
    assert cluster.store().put("key", b"value that must not be seen") == 0
    assert node.process.poll() is None
    ports = [cluster.rpc_port, cluster.http_port, *(int(name.rsplit(":", 1)[1]) for name in cluster.segments())]
    for port in ports:
        with socket.create_connection(("127.0.0.1", port), timeout=20) as stream:
            stream.sendall(b"GET /get_all_keys HTTP/1.1\r\nHost: x\r\n\r\n")
            told = b""
            while more := stream.recv(4096):
                told += more
        assert len(told) < 10, f"port {port} says more than an alert: {told!r}"


def test_who_is_no_member_is_refused_with_the_reason(
    cluster: EncryptedCluster, files: Files, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MC_RPC_CONNECT_TIMEOUT_MS", "1000")
    stranger = issue(trustme.CA(), tmp_path)
    for variables in (
        {},
        {"MOONCAKE_TLS_CA": files.ca},
        stranger.variables(),
        {**stranger.variables(), "MOONCAKE_TLS_CA": files.ca},
    ):
        for name in VARIABLES.values():
            monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv("MOONCAKE_TLS_VERIFY_CLIENTS", raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        assert cluster.setup(MooncakeDistributedStore()) != 0, f"{variables} is enough"


def test_setup_takes_the_certificates_in_its_dict(
    cluster: EncryptedCluster, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.start_node(64 * MIB)
    for name in (*VARIABLES.values(), "MOONCAKE_TLS_VERIFY_CLIENTS"):
        monkeypatch.delenv(name)
    store = MooncakeDistributedStore()
    config = {
        "local_hostname": "127.0.0.1",
        "metadata_server": "P2PHANDSHAKE",
        "master_server_addr": cluster.master_address,
        "global_segment_size": "0",
        **files.arguments(),
    }
    assert store.setup(config) == 0
    assert store.put("key", b"value") == 0
    store.close()
    wrong = {**config, "tls_key": "/nowhere/key.pem"}
    assert MooncakeDistributedStore().setup(wrong) == -600


def test_the_commands_and_grpc_reach_an_encrypted_master(cluster: EncryptedCluster, files: Files) -> None:
    cluster.start_node(64 * MIB)
    admin = f"127.0.0.1:{cluster.http_port}"
    status = subprocess.run(
        [COMMANDS / "mooncake", "status", "--master-http", admin], capture_output=True, text=True, timeout=60
    )
    assert status.returncode == 0, status.stdout + status.stderr
    of_client: list[bytes] = [Path(path).read_bytes() for path in (files.ca, files.key, files.cert)]
    credentials = grpc.ssl_channel_credentials(*of_client)
    with grpc.secure_channel(cluster.master_address, credentials) as channel:
        answer = channel.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=20, wait_for_ready=True)
    assert answer == b"\x08\x01", "it serves"


def test_an_encrypted_pool_survives_its_master(cluster: EncryptedCluster) -> None:
    cluster.start_node(64 * MIB)
    store = cluster.store()
    assert store.put("key", content("key", MIB)) == 0
    cluster.master.kill()
    cluster.start_master()
    wait_until(lambda: store.get("key") == content("key", MIB), 60, "the object is back")


def test_the_rest_service_and_the_metadata_server_speak_https(cluster: EncryptedCluster, tmp_path: Path) -> None:
    rest, metadata = free_port(), free_port()
    config = tmp_path / "mooncake.json"
    config.write_text(
        json.dumps(
            {
                "local_hostname": "127.0.0.1",
                "metadata_server": "P2PHANDSHAKE",
                "master_server_address": cluster.master_address,
                "global_segment_size": "64mb",
                "local_buffer_size": "16mb",
            }
        )
    )
    service = Process("mc_store_rest_server", f"--config={config}", f"--port={rest}", "--host=127.0.0.1")
    server = Process("mooncake_http_metadata_server", f"--port={metadata}", "--host=127.0.0.1")
    cluster.nodes += [service, server]

    def answers(port: int) -> bool:
        url = f"https://127.0.0.1:{port}/health"
        try:
            with urllib.request.urlopen(url, timeout=5, context=cluster.context) as reply:
                return bool(reply.status == 200)
        except OSError:
            return False

    service.wait_ready(lambda: answers(rest))
    server.wait_ready(lambda: answers(metadata))


def test_engines_find_each_other_and_transfer_over_tls(cluster: EncryptedCluster) -> None:
    port = free_port()
    server = Process("mooncake_http_metadata_server", f"--port={port}", "--host=127.0.0.1")
    cluster.nodes.append(server)

    def listens() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    server.wait_ready(listens)
    metadata = f"https://127.0.0.1:{port}/metadata"
    engine, memory = TransferEngine(), Memory(4096)
    assert engine.initialize("here:1", metadata, "tcp", "") == 0
    assert engine.register_memory(memory.address, 4096) == 0
    with Peer(metadata, "there:2") as peer:
        far = peer.call("allocate_managed_buffer", 4096)
        memory.write(0, b"hello")
        assert engine.transfer_sync_write("there:2", memory.address, far, 5) == 0
        assert peer.look(far, 5) == b"hello"
        assert peer.call("transfer_sync_read", "here:1", far + 100, memory.address, 5) == 0
        assert peer.look(far + 100, 5) == b"hello"
