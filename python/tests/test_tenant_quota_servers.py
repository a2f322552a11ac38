"""Quotas of tenants that lie in etcd and in Redis, with real servers."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from cluster import MIB, Cluster, Process, content, free_port
from mooncake.store import MooncakeDistributedStore
from servers import Etcd, Redis, Server

KEY = "mooncake-store/mooncake_cluster/tenant_quota_policy"
QUOTA_EXCEEDED, NOT_REGISTERED = -1700, -1701
RED = """
version: 1
tenants:
  - name: red
    quota: 4MB
"""


@dataclass
class Place:
    """A server that keeps quotas, and how others than the master read and write them there."""

    kind: str
    uri: str
    server: Server
    read: Callable[[], str]
    write: Callable[[str], object]


@contextmanager
def of_etcd() -> Iterator[Place]:
    with Etcd() as etcd:
        token = etcd.require_password("secret")
        key = base64.b64encode(KEY.encode()).decode()

        def read() -> str:
            found = etcd.call("/v3/kv/range", {"key": key}, token).get("kvs", [])
            return base64.b64decode(found[0]["value"]).decode() if found else ""

        def write(text: str) -> None:
            etcd.call("/v3/kv/put", {"key": key, "value": base64.b64encode(text.encode()).decode()}, token)

        yield Place("etcd", f"root:secret@127.0.0.1:{etcd.port}", etcd, read, write)


@contextmanager
def of_redis() -> Iterator[Place]:
    with Redis("secret") as redis:
        yield Place(
            "redis",
            f":secret@127.0.0.1:{redis.port}",
            redis,
            lambda: redis.call("GET", KEY).partition(b"\r\n")[2].decode(),
            lambda text: redis.call("SET", KEY, text),
        )


@pytest.fixture(params=[of_etcd, of_redis], ids=["etcd", "redis"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with request.param() as place:
        yield place


def flags(place: Place) -> list[str]:
    return [
        "--enable_multi_tenants",
        f"--tenant_quota_connector_type={place.kind}",
        f"--tenant_quota_connector_uri={place.uri}",
    ]


def put_quota(cluster: Cluster, tenant: str, quota: int) -> tuple[int, Any]:
    url = f"http://127.0.0.1:{cluster.http_port}/api/v1/tenant_quotas?tenant_id={tenant}"
    body = json.dumps({"requested_quota_bytes": quota}).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, method="PUT"), timeout=20) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def store_of(cluster: Cluster, tenant: str) -> MooncakeDistributedStore:
    return cluster.store().for_tenant(tenant)


def test_quotas_are_kept_in_the_server_and_read_from_it(place: Place) -> None:
    with Cluster(*flags(place)) as cluster:
        cluster.start_node(16 * MIB)
        blue, red = store_of(cluster, "blue"), store_of(cluster, "red")
        assert blue.put("k", b"v") == NOT_REGISTERED, "there are no quotas yet"
        assert put_quota(cluster, "blue", 2 * MIB)[0] == 200
        assert "blue" in place.read()
        assert (blue.put("k", b"v"), blue.put("l", content("l", 3 * MIB))) == (0, QUOTA_EXCEEDED)
        assert red.put("k", b"v") == NOT_REGISTERED

        # An operator replaces what lies there; the next leader reads it.
        place.write(RED)
        cluster.master.kill()
        cluster.start_master()
        assert red.put("k", b"v") == 0
        assert blue.put("m", b"v") == NOT_REGISTERED
        assert blue.get("k") == b"v", "what a tenant has stays"
        assert put_quota(cluster, "blue", MIB)[0] == 200
        assert all(name in place.read() for name in ("blue", "red"))
        assert "secret" not in cluster.master.output()


def test_a_change_that_the_server_does_not_keep_is_taken_back(place: Place) -> None:
    place.write(RED)
    with Cluster(*flags(place)) as cluster:
        cluster.start_node(16 * MIB)
        blue, red = store_of(cluster, "blue"), store_of(cluster, "red")
        place.server.process.kill()
        place.server.process.wait(10)
        status, answer = put_quota(cluster, "blue", MIB)
        assert (status, "tenant_quota_policy" in answer["error_message"]) == (500, True), answer
        assert "secret" not in answer["error_message"]
        assert (red.put("k", b"v"), blue.put("k", b"v")) == (0, NOT_REGISTERED)


def test_a_master_that_cannot_read_its_quotas_says_so(place: Place) -> None:
    place.write("version: 7")
    process = Process("mooncake_master", f"--rpc_port={free_port()}", f"--metrics_port={free_port()}", *flags(place))
    assert process.process.wait(20) != 0
    assert KEY in process.output()
    assert "secret" not in process.output()
