"""The HTTP server of a store: its configuration, its answers, and its end."""

from __future__ import annotations

import http.client
import json
import socket
from importlib import metadata
from typing import Any

import mooncake
import pytest
from cluster import MIB, Cluster, free_port, wait_until
from mooncake.store import MooncakeDistributedStore

INVALID = -600
VERSIONS = {"version": mooncake.__version__, "protocol_version": mooncake.__protocol_version__}
HEALTHY = (200, {"status": "healthy", "code": 0, **VERSIONS})
MASTER_LOST = (503, {"status": "master_unreachable", "code": 2, **VERSIONS})


def ask(port: int, path: str, method: str = "GET") -> tuple[int, str, str]:
    """Status, content type and body of the response."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path)
        reply = connection.getresponse()
        return reply.status, reply.headers["content-type"] or "", reply.read().decode()
    finally:
        connection.close()


def health(port: int) -> tuple[int, Any]:
    status, content_type, text = ask(port, "/health")
    assert content_type == "application/json"
    return status, json.loads(text)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def setup(store: MooncakeDistributedStore, cluster: Cluster, **options: Any) -> int:
    """Sets the store up with a segment of 16 MiB, with the first seven arguments by position."""
    first = ("localhost", "P2PHANDSHAKE", 16 * MIB, 16 * MIB, "tcp", "", cluster.master_address)
    return store.setup(*first, **options)


def as_dict(cluster: Cluster) -> dict[str, Any]:
    return {
        "local_hostname": "localhost",
        "metadata_server": "P2PHANDSHAKE",
        "global_segment_size": 0,
        "local_buffer_size": MIB,
        "master_server_addr": cluster.master_address,
    }


def test_a_store_serves_its_health_and_its_metrics(cluster: Cluster) -> None:
    store, port = MooncakeDistributedStore(), free_port()
    assert setup(store, cluster, enable_client_http_server=True, client_http_port=port) == 0
    assert health(port) == HEALTHY
    # After the get, the store has a route to "k", so the batch asks the master only for the other two.
    assert (store.put("k", b"x" * 4096), store.get("k"), store.get_batch(["k", "none", "nothing"])) == (
        0,
        b"x" * 4096,
        [b"x" * 4096, b"", b""],
    )
    status, content_type, text = ask(port, "/metrics")
    assert (status, content_type) == (200, "text/plain; version=0.0.4; charset=utf-8")
    samples = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    wanted = {
        "mooncake_transfer_read_bytes": "8192",
        "mooncake_transfer_write_bytes": "4096",
        "mooncake_transfer_get_latency_count": "2",
        "mooncake_transfer_put_latency_count": "1",
        "mooncake_transfer_batch_get_latency_count": "0",
        "mooncake_transfer_batch_put_latency_count": "0",
        'mooncake_client_rpc_count{rpc_name="PutStart"}': "1",
        'mooncake_client_rpc_count{rpc_name="BatchGetReplicaList"}': "1",
        'mooncake_client_rpc_latency_count{rpc_name="GetReplicaList"}': "1",
    }
    assert {name: samples.get(name) for name in wanted} == wanted
    status, _, summary = ask(port, "/metrics/summary")
    assert status == 200
    assert summary.startswith("=== Transfer Metrics Summary ===\nTotal Read: 8.00 KB\nTotal Write: 4.00 KB\n")
    assert store.remove("k", True) == 0
    assert store.close() == 0
    assert not listens(port)


@pytest.mark.parametrize(
    ("path", "method", "status"), [("/", "GET", 404), ("/health", "POST", 405), ("/metrics", "PUT", 405)]
)
def test_what_is_not_served_is_refused(cluster: Cluster, path: str, method: str, status: int) -> None:
    store, port = MooncakeDistributedStore(), free_port()
    assert store.setup(as_dict(cluster) | {"enable_client_http_server": "true", "client_http_port": str(port)}) == 0
    assert ask(port, path, method)[0] == status
    assert health(port) == HEALTHY
    store.close()


def test_there_is_no_server_unless_it_is_asked_for(cluster: Cluster) -> None:
    port = free_port()
    for options in ({"client_http_port": port}, {"enable_client_http_server": False, "client_http_port": port}):
        store = MooncakeDistributedStore()
        assert store.setup(as_dict(cluster) | options) == 0
        assert not listens(port)
        store.close()


def test_a_taken_port_is_an_error_and_the_next_setup_may_use_it(cluster: Cluster) -> None:
    store, before = MooncakeDistributedStore(), cluster.segments()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        options = {"enable_client_http_server": True, "client_http_port": port}
        assert setup(store, cluster, **options) == -1
        assert (store.health_check(), cluster.segments()) == (1, before)
    assert setup(store, cluster, **options) == 0
    assert health(port) == HEALTHY
    store.close()


def test_each_part_says_its_version(cluster: Cluster) -> None:
    expected = {"version": mooncake.__version__, "protocol_version": mooncake.__protocol_version__}
    assert mooncake.__version__ == metadata.version("mooncake-pool")
    with pytest.raises(AttributeError, match="__versoin__"):
        mooncake.__versoin__  # noqa: B018
    store = MooncakeDistributedStore()
    assert setup(store, cluster, enable_client_http_server=True, client_http_port=0) == 0
    status, kind, text = ask(store.get_client_http_port(), "/version")
    assert (status, kind, json.loads(text)) == (200, "application/json", expected)
    store.close()
    assert json.loads(cluster.http("/version") or "null") == expected
    health = json.loads(cluster.http("/health") or "null")
    assert {key: health[key] for key in expected} == expected
    lines = (cluster.http("/metrics") or "").splitlines()
    assert f'mooncake_build_info{{version="{mooncake.__version__}"}} 1' in lines
    starts = f'mooncake_master starts version="{mooncake.__version__}" protocol={mooncake.__protocol_version__}'
    assert starts in cluster.master.output().splitlines()[0]


def test_port_0_is_a_free_port_as_in_the_commands(cluster: Cluster) -> None:
    store = MooncakeDistributedStore()
    assert store.get_client_http_port() == 0
    options = {"enable_client_http_server": True, "client_http_port": 0}
    assert setup(store, cluster, **options) == 0
    port = store.get_client_http_port()
    assert (port > 0, health(port)) == (True, HEALTHY)
    store.close()
    assert (store.get_client_http_port(), store.setup(as_dict(cluster) | options)) == (0, 0)
    assert health(store.get_client_http_port()) == HEALTHY
    store.close()


@pytest.mark.parametrize("port", [65_536, 1 << 32], ids=str)
def test_ports_that_are_none_are_refused(cluster: Cluster, port: int) -> None:
    store = MooncakeDistributedStore()
    assert setup(store, cluster, enable_client_http_server=True, client_http_port=port) == INVALID
    assert store.setup(as_dict(cluster) | {"enable_client_http_server": True, "client_http_port": port}) == INVALID
    assert store.health_check() == 1


@pytest.mark.parametrize("port", ["http", "-1", "9300.5", ""])
def test_texts_that_are_no_ports_are_refused(cluster: Cluster, port: str) -> None:
    store = MooncakeDistributedStore()
    assert store.setup(as_dict(cluster) | {"client_http_port": port}) == INVALID
    assert store.health_check() == 1


@pytest.mark.parametrize(
    "options", [{"client_http_port": "9300"}, {"client_http_port": -1}, {"enable_client_http_server": "yes"}], ids=str
)
def test_wrong_types_raise(cluster: Cluster, options: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=next(iter(options))):
        setup(MooncakeDistributedStore(), cluster, **options)


def test_a_lost_master_shows() -> None:
    with Cluster() as cluster:
        store, port = MooncakeDistributedStore(), free_port()
        assert setup(store, cluster, enable_client_http_server=True, client_http_port=port) == 0
        cluster.master.kill()
        wait_until(lambda: health(port) == MASTER_LOST, 15, "the store notices that its master is gone")
        cluster.start_master()
        wait_until(lambda: health(port) == HEALTHY, 15, "the store is back in the pool")
        store.close()


def test_a_store_that_is_collected_frees_the_port(cluster: Cluster) -> None:
    store, port = MooncakeDistributedStore(), free_port()
    assert setup(store, cluster, enable_client_http_server=True, client_http_port=port) == 0
    assert listens(port)
    del store
    assert not listens(port)


def test_the_metadata_server_of_the_master() -> None:
    port = free_port()
    flags = ("--enable_http_metadata_server=true", "--http_metadata_server_host=127.0.0.1")
    with Cluster(*flags, f"--http_metadata_server_port={port}"):
        assert ask(port, "/health")[::2] == (200, "OK")
        key = "/metadata?key=mooncake/rpc_meta/a"
        assert ask(port, key)[::2] == (404, "metadata not found")
        assert ask(port, key, "PUT")[::2] == (200, "metadata updated")
        assert ask(port, key)[::2] == (200, "")
        assert ask(port, key, "DELETE")[::2] == (200, "metadata deleted")
    assert not listens(port)
