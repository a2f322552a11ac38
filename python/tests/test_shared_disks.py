"""Objects that nodes write as files to a shared directory."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import MIB, Cluster, content, wait_until
from mooncake.store import MooncakeDistributedStore


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster("--default_kv_lease_ttl=50", f"--root_fs_dir={tmp_path}", "--quota_bytes=256MB") as cluster:
        yield cluster


def opened(cluster: Cluster, segment_bytes: int) -> MooncakeDistributedStore:
    store = MooncakeDistributedStore()
    config = {
        "local_hostname": "localhost",
        "metadata_server": "P2PHANDSHAKE",
        "master_server_addr": cluster.master_address,
        "global_segment_size": segment_bytes,
        "local_buffer_size": 64 * MIB,
    }
    assert store.setup(config) == 0
    cluster.stores.append(store)
    return store


def files(store: MooncakeDistributedStore, key: str) -> list[Path]:
    """The files of an object's replicas."""
    kept = [replica for replica in store.get_replica_desc(key) if replica.is_disk_replica()]
    for replica in kept:
        assert not replica.is_memory_replica()
        assert not replica.is_local_disk_replica()
        assert replica.get_disk_descriptor().object_size == MIB
    return [Path(replica.get_disk_descriptor().file_path) for replica in kept]


def put_all(store: MooncakeDistributedStore, keys: list[str]) -> None:
    """Puts each object and waits until its file exists."""

    def put(key: str) -> None:
        assert store.put(key, content(key, MIB)) == 0
        wait_until(lambda: len(files(store, key)) == 1, 10, f"a file holds {key}")

    for key in keys:
        put(key)
        # Longer than the lease of the lookup above.
        time.sleep(0.06)


def test_objects_are_read_from_files_once_memory_has_evicted_them(cluster: Cluster, tmp_path: Path) -> None:
    node = opened(cluster, 16 * MIB)
    keys = [f"key-{number}" for number in range(48)]
    put_all(node, keys)
    reader = opened(cluster, 0)
    for key in keys:
        assert reader.get(key) == content(key, MIB), key
    [replica] = reader.get_replica_desc(keys[0])
    assert replica.is_disk_replica()
    with pytest.raises(RuntimeError, match="shared directory"):
        replica.get_memory_descriptor()
    [path] = files(reader, keys[0])
    assert path.is_file()
    assert tmp_path in path.parents
    assert reader.remove(keys[0], force=True) == 0
    assert not path.exists()
    assert reader.get(keys[0]) == b""


def test_the_files_of_a_node_that_ended_pass_to_the_next(cluster: Cluster) -> None:
    first = opened(cluster, 16 * MIB)
    keys = [f"key-{number}" for number in range(8)]
    put_all(first, keys)
    [path] = files(first, keys[0])
    assert first.close() == 0
    second = opened(cluster, 16 * MIB)
    wait_until(lambda: second.get(keys[0]) == content(keys[0], MIB), 10, "it is read again")
    for key in keys:
        assert second.get(key) == content(key, MIB), key
    assert files(second, keys[0]) == [path]


def test_with_offload_objects_go_to_the_disks_of_their_nodes_and_not_to_the_shared_directory(tmp_path: Path) -> None:
    shared, own = tmp_path / "shared", tmp_path / "own"
    shared.mkdir()
    with Cluster("--enable_offload=true", f"--root_fs_dir={shared}") as cluster:
        assert "--root_fs_dir has no effect with --enable_offload" in cluster.master.output()
        store = MooncakeDistributedStore()
        settings = {
            "local_hostname": "localhost",
            "metadata_server": "P2PHANDSHAKE",
            "master_server_addr": cluster.master_address,
            "global_segment_size": 64 * MIB,
            "local_buffer_size": 16 * MIB,
            "enable_ssd_offload": "true",
            "ssd_offload_path": str(own),
        }
        assert store.setup(settings) == 0
        cluster.stores.append(store)
        assert store.put("k", content("k", MIB)) == 0

        def is_on_own_disk() -> bool:
            return any(replica.is_local_disk_replica() for replica in store.get_replica_desc("k"))

        wait_until(is_on_own_disk, 10, "it is on the disk")
        assert not any(replica.is_disk_replica() for replica in store.get_replica_desc("k"))
        assert list(shared.iterdir()) == []
