"""Disks behind memory: objects sink when memory is full, are read from the disk, and return to memory."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster import MIB, Cluster, Process, content, free_port, wait_until
from mooncake.store import ExistOptions, MooncakeDistributedStore

MB = 1_000_000
SEGMENT_NOT_FOUND = -101


def offloading(*flags: str) -> Cluster:
    return Cluster("--default_kv_lease_ttl=50", "--enable_offload=true", *flags)


def opened(cluster: Cluster, disk: Path | None, segment_bytes: int, **settings: Any) -> MooncakeDistributedStore:
    """A store that lends `memory` bytes, and a disk in this folder."""
    store = MooncakeDistributedStore()
    config: dict[str, Any] = {
        "local_hostname": "localhost",
        "metadata_server": "P2PHANDSHAKE",
        "master_server_addr": cluster.master_address,
        "global_segment_size": segment_bytes,
        "local_buffer_size": 64 * MIB,
    }
    if disk is not None:
        config |= {"enable_ssd_offload": "true", "ssd_offload_path": str(disk)}
    assert store.setup(config | settings) == 0
    cluster.stores.append(store)
    return store


def tiers(store: MooncakeDistributedStore, key: str) -> set[str]:
    """The tiers of an object's replicas."""
    replicas = store.get_replica_desc(key)
    names = {True: "memory", False: "disk"}
    for replica in replicas:
        assert replica.is_memory_replica() != replica.is_local_disk_replica()
        assert not replica.is_disk_replica()
    return {names[replica.is_memory_replica()] for replica in replicas}


def settled(store: MooncakeDistributedStore, keys: list[str], wanted: set[str]) -> None:
    """Waits until all replicas of these objects lie in the wanted tiers."""
    wait_until(lambda: all(tiers(store, key) == wanted for key in keys), 10, f"all lie in {wanted}")


def metric(cluster: Cluster, name: str) -> int:
    for line in (cluster.http("/metrics") or "").splitlines():
        words = line.split()
        if words and words[0] == name:
            return int(float(words[1]))
    raise AssertionError(f"there is no metric {name}")


@pytest.fixture
def eager() -> Iterator[Cluster]:
    """A cluster that copies every object to a disk after its put."""
    with offloading() as cluster:
        yield cluster


@pytest.fixture
def on_evict() -> Iterator[Cluster]:
    """A cluster that copies objects to a disk only when memory is full."""
    with offloading("--offload_on_evict=true") as cluster:
        yield cluster


def test_what_is_put_goes_to_the_disk_and_is_read_there_once_memory_has_evicted_it(
    eager: Cluster, tmp_path: Path
) -> None:
    store = opened(eager, tmp_path, 16 * MIB)
    keys = [f"key-{number}" for number in range(48)]
    for key in keys:
        assert store.put(key, content(key, MIB)) == 0
        settled(store, [key], {"memory", "disk"})
        time.sleep(0.06)
    reader = opened(eager, None, 0)
    for key in keys:
        assert reader.get(key) == content(key, MIB), key
        assert store.get(key) == content(key, MIB), key
    assert reader.get_offload_rpc_read_count() >= 30
    assert tiers(reader, keys[0]) == {"disk"}
    assert reader.remove(keys[0], force=True) == 0
    assert reader.is_exist(keys[0]) == 0
    assert reader.get(keys[0]) == b""


@pytest.mark.parametrize(("flags", "offloaded"), [((), 50), (("--eviction_high_watermark_ratio=0.04",), 96)])
def test_fifty_megabytes_of_memory_take_a_hundred_objects_of_one(
    tmp_path: Path, flags: tuple[str, ...], offloaded: int
) -> None:
    """In the C++ pull request for offload on evict, 96 of 100 objects went to the disk, and puts were refused."""
    with offloading("--offload_on_evict=true", *flags) as cluster:
        store = opened(cluster, tmp_path, 50 * MB)
        keys = [f"key-{number}" for number in range(100)]
        values = {key: content(key, MB) for key in keys}
        begun = time.monotonic()
        for key in keys:
            assert store.put(key, values[key]) == 0, key
        print(f"100 puts took {time.monotonic() - begun:.3f} s")
        wait_until(lambda: metric(cluster, "master_offloaded_objects_total") >= offloaded, 10, "they sink")
        assert [store.get(key) for key in keys] == list(values.values())
        on_disk = sum("disk" in tiers(store, key) for key in keys)
        assert on_disk >= offloaded
        assert "Offload-on-evict mode enabled" in cluster.master.output()


def test_nothing_is_written_to_the_disk_while_memory_has_room(on_evict: Cluster, tmp_path: Path) -> None:
    store = opened(on_evict, tmp_path, 64 * MIB)
    before = sorted((path, path.stat().st_size) for path in tmp_path.rglob("*"))
    keys = [f"key-{number}" for number in range(32)]
    for key in keys:
        assert store.put(key, content(key, MIB)) == 0
    time.sleep(0.5)
    assert all(tiers(store, key) == {"memory"} for key in keys)
    assert sorted((path, path.stat().st_size) for path in tmp_path.rglob("*")) == before


def test_a_pool_behind_a_small_memory_loses_nothing(on_evict: Cluster, tmp_path: Path) -> None:
    store = opened(on_evict, tmp_path, 32 * MIB)
    keys = [f"key-{number}" for number in range(512)]
    for first in range(0, len(keys), 8):
        batch = keys[first : first + 8]
        assert store.put_batch(batch, [content(key, MIB) for key in batch]) == 0
    for first in range(0, len(keys), 8):
        batch = keys[first : first + 8]
        assert store.get_batch(batch) == [content(key, MIB) for key in batch], batch


def test_objects_on_the_disk_are_there_when_the_node_is_started_again(eager: Cluster, tmp_path: Path) -> None:
    keys = [f"key-{number}" for number in range(8)]
    first = opened(eager, tmp_path, 64 * MIB)
    for key in keys:
        assert first.put(key, content(key, MIB)) == 0
    settled(first, keys, {"memory", "disk"})
    assert first.remove(keys[0], force=True) == 0
    first.close()
    second = opened(eager, tmp_path, 64 * MIB)
    wait_until(lambda: second.is_exist(keys[1]) == 1, 10, "the disk is back")
    assert [second.get(key) for key in keys] == [b"", *(content(key, MIB) for key in keys[1:])]
    assert tiers(second, keys[1]) == {"disk"}


def test_objects_on_disks_outlive_the_master(eager: Cluster, tmp_path: Path) -> None:
    store = opened(eager, tmp_path, 16 * MIB)
    keys = [f"key-{number}" for number in range(32)]
    for key in keys:
        assert store.put(key, content(key, MIB)) == 0
        settled(store, [key], {"memory", "disk"})
        time.sleep(0.06)
    eager.master.kill()
    eager.start_master()
    wait_until(lambda: store.batch_is_exist(keys) == [1] * len(keys), 20, "all are known again")
    assert [store.get(key) for key in keys] == [content(key, MIB) for key in keys]


def test_a_node_whose_calls_are_short_offloads_too(
    eager: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MC_RPC_TIMEOUT_MS", "200")
    store = opened(eager, tmp_path, 16 * MIB)
    time.sleep(0.5)
    assert store.put("key", content("key", MIB)) == 0
    settled(store, ["key"], {"memory", "disk"})


def test_two_stores_share_a_folder_and_each_has_a_disk_of_its_own(eager: Cluster, tmp_path: Path) -> None:
    stores = [opened(eager, tmp_path, 16 * MIB) for _ in range(2)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["disk-0", "disk-1"]
    assert stores[0].put("key", b"value") == 0
    assert stores[1].get("key") == b"value"


def test_a_disk_is_taken_back(eager: Cluster, tmp_path: Path) -> None:
    store = opened(eager, tmp_path, 16 * MIB)
    assert store.put("key", b"value") == 0
    settled(store, ["key"], {"memory", "disk"})
    assert store.unmount_local_disk_segment(0) == 0
    assert store.unmount_local_disk_segment(0) == SEGMENT_NOT_FOUND
    assert tiers(store, "key") == {"memory"}
    assert store.get("key") == b"value"


def test_what_is_read_often_comes_back_to_memory(tmp_path: Path) -> None:
    flags = ("--offload_on_evict=true", "--promotion_on_hit=true", "--promotion_admission_threshold=2")
    with offloading(*flags) as cluster:
        store = opened(cluster, tmp_path, 16 * MIB)
        keys = [f"key-{number}" for number in range(40)]
        for key in keys:
            assert store.put(key, content(key, MIB)) == 0
        cold = next(key for key in keys if tiers(store, key) == {"disk"})
        for _ in range(3):
            assert store.get(cold) == content(cold, MIB)
        wait_until(lambda: "memory" in tiers(store, cold), 10, "the object is in memory")
        before = store.get_offload_rpc_read_count()
        assert store.get(cold) == content(cold, MIB)
        assert store.get_offload_rpc_read_count() == before


@pytest.mark.parametrize("contents", ["a file", "not writable"])
def test_a_folder_that_cannot_be_a_disk_is_refused(eager: Cluster, tmp_path: Path, contents: str) -> None:
    folder = tmp_path / "folder"
    if contents == "a file":
        folder.write_text("somebody's")
    else:
        (folder / "disk-0").mkdir(parents=True)
        (folder / "disk-0" / "note.txt").write_text("somebody's")
    store = MooncakeDistributedStore()
    config = {
        "local_hostname": "localhost",
        "metadata_server": "P2PHANDSHAKE",
        "master_server_addr": eager.master_address,
        "global_segment_size": 16 * MIB,
        "enable_ssd_offload": True,
        "ssd_offload_path": str(folder),
    }
    assert store.setup(config) < 0
    assert folder.read_text() == "somebody's" if contents == "a file" else (folder / "disk-0" / "note.txt").exists()


def test_a_node_lends_a_disk(eager: Cluster, tmp_path: Path) -> None:
    before = len(eager.segments())
    node = Process(
        "mooncake_client",
        "--host=127.0.0.1",
        f"--port={free_port()}",
        f"--master_server_address={eager.master_address}",
        f"--global_segment_size={16 * MIB}",
        "--enable_offload",
        f"--ssd_offload_path={tmp_path}",
        "--ssd_offload_size=256MB",
    )
    eager.nodes.append(node)
    node.wait_ready(lambda: len(eager.segments()) >= before + 1)
    store = opened(eager, None, 0)
    assert store.put("key", content("key", MIB)) == 0
    settled(store, ["key"], {"memory", "disk"})
    assert "a disk is lent" in node.output()


def test_what_is_prefetched_comes_back_to_memory(on_evict: Cluster, tmp_path: Path) -> None:
    store = opened(on_evict, tmp_path, 16 * MIB)
    assert store.prefetch(["missing"]) == [-704]
    keys = [f"key-{number}" for number in range(40)]
    for key in keys:
        assert store.put(key, content(key, MIB)) == 0
    cold = next(key for key in keys if tiers(store, key) == {"disk"})
    assert store.prefetch([keys[-1], cold]) == [1, 0]
    settled(store, [cold], {"memory", "disk"})
    assert store.get(cold) == content(cold, MIB)
    assert store.get_offload_rpc_read_count() == 0


def test_what_lies_on_the_disk_is_in_memory_when_the_load_comes_if_the_look_up_says_so(
    eager: Cluster, tmp_path: Path
) -> None:
    store = opened(eager, tmp_path, 16 * MIB, enable_ssd_prefetch="true", ssd_prefetch_dedup_ttl_sec="0")
    plain = opened(eager, None, 0)
    keys = [f"key-{number}" for number in range(32)]
    for key in keys:
        assert store.put(key, content(key, MIB)) == 0
        settled(store, [key], {"memory", "disk"})
        time.sleep(0.06)
    assert tiers(store, keys[0]) == {"disk"}
    options = ExistOptions()
    assert options.prefetch_to_memory is False
    assert store.is_exist(keys[0], options) == 1
    options.prefetch_to_memory = True
    assert plain.is_exist(keys[0], options) == 1, "this one's setup did not enable it"
    time.sleep(0.3)
    assert tiers(store, keys[0]) == {"disk"}
    assert store.batch_is_exist([*keys[:4], "none"], options) == [1, 1, 1, 1, 0]
    settled(store, keys[:4], {"memory", "disk"})
    assert store.is_exist(key=keys[4], options=options) == 1
    settled(store, keys[4:5], {"memory", "disk"})
    assert [store.get(key) for key in keys[:5]] == [content(key, MIB) for key in keys[:5]]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("enable_ssd_prefetch", "maybe"),
        ("ssd_prefetch_cooldown_sec", "-1"),
        ("ssd_prefetch_dedup_ttl_sec", "soon"),
    ],
)
def test_a_wrong_setting_of_the_prefetch_is_refused(eager: Cluster, key: str, value: str) -> None:
    config = {"local_hostname": "localhost", "metadata_server": "P2PHANDSHAKE", "enable_ssd_prefetch": "true"}
    config |= {"master_server_addr": eager.master_address, key: value}
    assert MooncakeDistributedStore().setup(config) == -600
