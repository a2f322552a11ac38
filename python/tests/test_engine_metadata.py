"""`mooncake.engine`: peers that find each other by names in etcd and in Redis, with real servers."""

from __future__ import annotations

import base64
import gc
import json
from collections.abc import Callable
from typing import Any

import pytest
from cluster import Memory, free_port
from engine_peer import Peer
from mooncake.engine import TransferEngine
from servers import Etcd, Redis

UNKNOWN_PEER, FAILED = -200, -1


def meet(metadata: str, record: Callable[[str], Any], **env: str) -> None:
    """Two processes find each other by the names that they publish there."""
    engine, memory = TransferEngine(), Memory(4096)
    assert engine.initialize("here:1", metadata, "tcp", "") == 0
    assert engine.register_memory(memory.address, 4096) == 0
    with Peer(metadata, "there:2", **env) as peer:
        assert record("mooncake/ram/here:1")["tcp_data_port"] == engine.get_rpc_port()
        far = peer.call("allocate_managed_buffer", 4096)
        assert engine.get_first_buffer_address("there:2") == far
        memory.write(0, b"hello")
        assert engine.transfer_sync_write("there:2", memory.address, far, 5) == 0
        assert peer.look(far, 5) == b"hello"
        assert peer.call("transfer_sync_read", "here:1", far + 100, memory.address, 5) == 0
        assert engine.send_probe("nobody") == UNKNOWN_PEER
    assert record("mooncake/ram/there:2") is None, "it has taken its name back"
    del engine
    gc.collect()
    assert record("mooncake/ram/here:1") is None


def of_etcd(etcd: Etcd, token: str | None = None) -> Callable[[str], Any]:
    def record(key: str) -> Any:
        found = etcd.call("/v3/kv/range", {"key": base64.b64encode(key.encode()).decode()}, token).get("kvs", [])
        return json.loads(base64.b64decode(found[0]["value"])) if found else None

    return record


def of_redis(redis: Redis, database: int = 0) -> Callable[[str], Any]:
    def record(key: str) -> Any:
        head, _, value = redis.call("GET", key, database=database).partition(b"\r\n")
        return None if head == b"$-1" else json.loads(value)

    return record


def test_etcd() -> None:
    with Etcd() as etcd:
        meet(f"etcd://127.0.0.1:{etcd.port}", of_etcd(etcd))
        # The C++ package takes an address without a scheme for that of etcd, and several members in one text.
        meet(f"127.0.0.1:{etcd.port}", of_etcd(etcd))
        meet(f"etcd://127.0.0.1:{free_port()};127.0.0.1:{etcd.port}", of_etcd(etcd))


def test_etcd_with_a_password(capfd: pytest.CaptureFixture[str]) -> None:
    with Etcd() as etcd:
        token = etcd.require_password("p@ss:word")
        meet(f"etcd://root:p@ss:word@127.0.0.1:{etcd.port}", of_etcd(etcd, token))
        for login in ("", "root:wrong@", "nobody:p@ss:word@"):
            assert TransferEngine().initialize("here", f"etcd://{login}127.0.0.1:{etcd.port}", "tcp", "") == FAILED
    logged = capfd.readouterr().err
    assert "refused the login" in logged
    assert "wrong@" not in logged
    assert "p@ss:word" not in logged


def test_redis() -> None:
    with Redis() as redis:
        meet(f"redis://127.0.0.1:{redis.port}", of_redis(redis))
        meet(f"redis://127.0.0.1:{redis.port}/5", of_redis(redis, 5))
        engine = TransferEngine()
        assert engine.initialize_ext("here", f"127.0.0.1:{redis.port}", "tcp", "", "redis") == 0


def test_redis_with_a_password(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    with Redis("p@ss:word") as redis:
        meet(f"redis://:p@ss:word@127.0.0.1:{redis.port}/2", of_redis(redis, 2))
        meet(f"redis://default:p@ss:word@127.0.0.1:{redis.port}", of_redis(redis))
        plain = f"redis://127.0.0.1:{redis.port}"
        for address in (
            plain,
            f"redis://:wrong@127.0.0.1:{redis.port}",
            f"redis://:p@ss:word@127.0.0.1:{redis.port}/99",
        ):
            assert TransferEngine().initialize("here", address, "tcp", "") == FAILED
        logged = capfd.readouterr().err
        assert "NOAUTH" in logged
        assert "wrong@" not in logged
        assert "p@ss:word" not in logged
        # As for the C++ package.
        monkeypatch.setenv("MC_REDIS_PASSWORD", "p@ss:word")
        monkeypatch.setenv("MC_REDIS_DB_INDEX", "7")
        meet(plain, of_redis(redis, 7))
        monkeypatch.setenv("MC_REDIS_DB_INDEX", "256")
        assert TransferEngine().initialize("here", plain, "tcp", "") == FAILED
        assert "MC_REDIS_DB_INDEX" in capfd.readouterr().err


def test_clusters_are_kept_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    with Redis() as redis:
        monkeypatch.setenv("MC_METADATA_CLUSTER_ID", "blue")
        engine = TransferEngine()
        assert engine.initialize("here", f"redis://127.0.0.1:{redis.port}", "tcp", "") == 0
        assert of_redis(redis)("mooncake/blue/ram/here")["name"] == "here"


@pytest.mark.parametrize("scheme", ["etcd", "redis"])
@pytest.mark.parametrize(
    "place", ["", "127.0.0.1:0", "127.0.0.1:{free}", "nowhere.invalid:1", "secret@127.0.0.1:1", ":x", "127.0.0.1/first"]
)
def test_servers_that_cannot_be_used(scheme: str, place: str, capfd: pytest.CaptureFixture[str]) -> None:
    address = f"{scheme}://{place.format(free=free_port())}"
    assert TransferEngine().initialize("here", address, "tcp", "") == FAILED
    logged = capfd.readouterr().err
    assert "the metadata server" in logged
    assert "secret" not in logged
