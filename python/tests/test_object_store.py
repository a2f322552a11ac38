"""Objects in an object store: an S3-compatible server that the test starts, or a folder."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cluster import MIB, Cluster, Process, content, free_port, wait_until
from mooncake.store import MooncakeDistributedStore

KEYS = [f"key-{number}" for number in range(24)]


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, str]]:
    """Starts a server with a bucket. Returns the environment variables that name it to a node."""
    port = free_port()
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "--host", "127.0.0.1", "--port", str(port)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        address = f"http://127.0.0.1:{port}"
        wait_until(lambda: answers(f"{address}/moto-api/"), 60, "the S3 server is ready")
        request = urllib.request.Request(f"{address}/bucket", method="PUT")
        with urllib.request.urlopen(request, timeout=10) as reply:
            assert reply.status == 200
        yield {
            "AWS_ENDPOINT": address,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
        }
    finally:
        server.terminate()
        server.wait(20)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError):
        return False


@pytest.fixture(params=["s3", "file"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, dict[str, str]]:
    """The URL of an object store, and the environment variables for it."""
    if request.param == "file":
        return f"file://{tmp_path}/objects", {}
    return f"s3://bucket/{tmp_path.name}", request.getfixturevalue("s3")


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster("--default_kv_lease_ttl=50", "--enable_offload") as cluster:
        yield cluster


def start_node(cluster: Cluster, place: tuple[str, dict[str, str]], *flags: str) -> Process:
    url, environment = place
    node = Process(
        "mooncake_client",
        "--host=127.0.0.1",
        f"--master_server_address={cluster.master_address}",
        "--global_segment_size=16 MB",
        "--drain_timeout_sec=0",
        f"--object_store_url={url}",
        *flags,
        env=environment,
    )
    cluster.nodes.append(node)
    node.wait_ready(lambda: "the storage node is ready" in node.output())
    return node


def lies_there(store: MooncakeDistributedStore, key: str) -> bool:
    return any(replica.is_object_store_replica() for replica in store.get_replica_desc(key))


def is_used(store: MooncakeDistributedStore, key: str) -> Callable[[], bool]:
    """A condition that reads the object, and holds once it lies in the object store."""
    return lambda: store.get(key) == content(key, MIB) and lies_there(store, key)


def is_readable(store: MooncakeDistributedStore, key: str) -> Callable[[], bool]:
    return lambda: store.get(key) == content(key, MIB)


def put_and_use(store: MooncakeDistributedStore, keys: list[str]) -> None:
    """Puts each object and reads it, until it lies in the object store."""
    for key in keys:
        assert store.put(key, content(key, MIB)) == 0
        wait_until(is_used(store, key), 20, f"{key} lies in the object store")
        # Longer than the lease of the lookup above.
        time.sleep(0.06)


def test_what_memory_evicts_is_read_from_the_object_store(cluster: Cluster, place: tuple[str, dict[str, str]]) -> None:
    start_node(cluster, place)
    store = cluster.store()
    put_and_use(store, KEYS)
    for key in KEYS:
        assert store.get(key) == content(key, MIB), key
    [replica] = store.get_replica_desc(KEYS[0])
    assert replica.is_object_store_replica()
    others = [replica.is_memory_replica(), replica.is_local_disk_replica(), replica.is_disk_replica()]
    assert others == [False, False, False]
    with pytest.raises(RuntimeError, match="in an object store"):
        replica.get_memory_descriptor()
    detail = json.loads(cluster.http("/get_segments_detail") or "")
    assert "object store" in json.dumps(detail)


def test_what_nobody_asks_for_again_never_leaves_memory(cluster: Cluster, place: tuple[str, dict[str, str]]) -> None:
    start_node(cluster, place)
    store = cluster.store()
    for key in KEYS:
        assert store.put(key, content(key, MIB)) == 0
    time.sleep(1)
    metrics = cluster.http("/metrics") or ""
    assert "master_offloaded_objects_total 0" in metrics, metrics


def test_a_killed_node_finds_its_objects_and_nothing_that_was_removed(
    cluster: Cluster, place: tuple[str, dict[str, str]]
) -> None:
    node = start_node(cluster, place)
    store = cluster.store()
    put_and_use(store, KEYS[:12])
    removed = KEYS[:4]
    for key in removed:
        assert store.remove(key, force=True) == 0
    node.kill()
    start_node(cluster, place)
    for key in KEYS[4:12]:
        wait_until(is_readable(store, key), 20, f"{key} is read again")
    for key in removed:
        assert store.get(key) == b"", key
    assert [key for key in removed if store.is_exist(key)] == []


def test_a_store_that_cannot_be_used_is_named(cluster: Cluster, s3: dict[str, str]) -> None:
    for url, environment, wanted in [
        ("ftp://host/x", {}, "is none of s3://BUCKET/PREFIX"),
        ("s3://absent-bucket/x", s3, "NoSuchBucket"),
        ("s3://bucket/x", {**s3, "AWS_ENDPOINT": "http://127.0.0.1:9"}, "s3://bucket/x"),
    ]:
        node = Process(
            "mooncake_client",
            "--host=127.0.0.1",
            f"--master_server_address={cluster.master_address}",
            "--global_segment_size=16 MB",
            f"--object_store_url={url}",
            env=environment,
        )
        assert node.process.wait(60) != 0
        assert wanted in node.output(), node.output()
