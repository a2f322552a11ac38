"""Segments that are mounted and unmounted while the store runs."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import MIB, Cluster, content, wait_until
from mooncake.store import MooncakeDistributedStore, ReplicateConfig

Store = MooncakeDistributedStore


@pytest.fixture
def lender(cluster: Cluster, store: Store) -> Iterator[Store]:
    """A store that lends no segment yet."""
    lender = cluster.store()
    yield lender
    lender.close()


def preferring(name: str) -> ReplicateConfig:
    config = ReplicateConfig()
    config.preferred_segment = name
    return config


def capacity(cluster: Cluster, name: str) -> int:
    detail = cluster.http(f"/query_segment?segment={name}") or ""
    return sum(int(line.partition(":")[2]) for line in detail.splitlines() if "Capacity" in line)


def test_memory_that_is_lent_and_taken_back(cluster: Cluster, lender: Store) -> None:
    name = lender.get_hostname()
    before = set(cluster.segments())
    lent = lender.allocate_and_mount_segment(20 * MIB)
    assert (lent["ret"], len(lent["segment_ids"])) == (0, 1)
    assert lent["allocated_size"] >= 20 * MIB
    assert set(cluster.segments()) - before == {name}
    assert lender.put("k", content("k", 7 * MIB), preferring(name)) == 0
    (replica,) = lender.get_replica_desc("k")
    assert replica.get_memory_descriptor().buffer_descriptor.transport_endpoint == name
    assert cluster.store().get("k") == content("k", 7 * MIB)
    assert lender.unmount_and_free_segment(lent["segment_ids"]) == 0
    assert set(cluster.segments()) == before
    assert lender.get("k") == b""
    assert lender.unmount_and_free_segment(lent["segment_ids"]) < 0


def test_a_grace_period(cluster: Cluster, lender: Store) -> None:
    name = lender.get_hostname()
    lent = lender.allocate_and_mount_segment(16 * MIB)
    assert lender.put("old", content("old", MIB), preferring(name)) == 0
    reader = cluster.store()
    assert lender.unmount_and_free_segment(lent["segment_ids"], grace_period_seconds=2) == 0
    assert lender.put("new", b"new", preferring(name)) == 0
    (replica,) = lender.get_replica_desc("new")
    assert replica.get_memory_descriptor().buffer_descriptor.transport_endpoint != name
    assert reader.get("old") == content("old", MIB)
    wait_until(lambda: capacity(cluster, name) == 0, 20, "the grace period is over")
    assert reader.get("old") == content("old", MIB), "another node has taken it over"
    (replica,) = reader.get_replica_desc("old")
    assert replica.get_memory_descriptor().buffer_descriptor.transport_endpoint != name


def test_a_file_is_mounted(cluster: Cluster, lender: Store, tmp_path: Path) -> None:
    path = tmp_path / "segment"
    path.write_bytes(bytes(8 * MIB))
    mounted = lender.mount_segment(str(path), 4 * MIB, 4 * MIB)
    assert (mounted["ret"], len(mounted["segment_ids"])) == (0, 1)
    name = lender.get_hostname()
    assert capacity(cluster, name) == 4 * MIB
    value = content("k", MIB)
    assert lender.put("k", value, preferring(name)) == 0
    assert path.read_bytes().find(value) >= 4 * MIB
    assert lender.unmount_segment(mounted["segment_ids"]) == 0
    assert (lender.is_exist("k"), capacity(cluster, name)) == (0, 0)


def test_what_cannot_be_mounted(lender: Store, tmp_path: Path) -> None:
    path = tmp_path / "segment"
    path.write_bytes(bytes(MIB))
    hollow = tmp_path / "hollow"
    hollow.touch()
    os.truncate(hollow, 8 << 40)
    for where, size, offset in [
        (tmp_path / "none", MIB, 0),
        # No disk is that large. The first put into a hole of the file would kill the process.
        (hollow, 8 << 40, 0),
        (tmp_path, MIB, 0),
        (path, MIB + 1, 0),
        (path, MIB, 4096),
        (path, 4096, 100),
        (path, 0, 0),
        (path, 1 << 63, 1 << 63),
    ]:
        refused = lender.mount_segment(str(where), size, offset)
        assert refused["ret"] < 0, (where, size, offset)
        assert refused["segment_ids"] == []
    for size in (0, 1 << 62):
        refused = lender.allocate_and_mount_segment(size)
        assert refused["ret"] < 0
        assert (refused["segment_ids"], refused["allocated_size"]) == ([], 0)
    assert lender.mount_segment(str(path), MIB, protocol="ascend")["ret"] < 0
    for ids in (["nonsense"], ["1-2"], ["", "x"]):
        assert lender.unmount_segment(ids) < 0
        assert lender.unmount_and_free_segment(ids) < 0
    assert lender.unmount_segment([]) == 0
    closed = MooncakeDistributedStore()
    assert closed.mount_segment(str(path), MIB)["ret"] < 0
    assert closed.allocate_and_mount_segment(MIB)["ret"] < 0
    assert closed.unmount_segment(["1-2"]) < 0


def test_a_segment_outlives_its_master(tmp_path: Path) -> None:
    with Cluster() as cluster:
        lender = cluster.store()
        assert lender.allocate_and_mount_segment(16 * MIB)["ret"] == 0
        cluster.master.kill()
        cluster.start_master()
        wait_until(lambda: lender.get_hostname() in cluster.segments(), 20, "the segment is mounted again")
        assert lender.put("k", b"value") == 0


def test_a_file_can_be_lent_again_at_once(lender: Store, tmp_path: Path) -> None:
    path = tmp_path / "segment"
    path.write_bytes(bytes(4 * MIB))
    for _ in range(20):
        mounted = lender.mount_segment(str(path), 4 * MIB)
        assert mounted["ret"] == 0
        assert lender.unmount_segment(mounted["segment_ids"]) == 0
