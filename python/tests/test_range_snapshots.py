"""Snapshots of replica lists, by which parts of objects are read without look-ups."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from cluster import MIB, Cluster, Memory, content, pause, wait_until
from mooncake.store import MooncakeDistributedStore, RangedReadSnapshot

Store = MooncakeDistributedStore
POOLS = ["master", "local", "fabric"]


def read(store: Store, snapshot: RangedReadSnapshot, memory: Memory, key: str, start: int, length: int) -> Any:
    """The bytes of the object, or the code."""
    ranges = ([memory.address], [[key]], [[[0]]], [[[start]]], [[[length]]])
    result: int = store.get_into_ranges_from_snapshot(snapshot, *ranges)[0][0][0]
    return memory.read(0, length) if result == length else result


def test_parts_are_read_by_a_snapshot(store: Store, memory: Memory) -> None:
    one, two = content("one", 100_000), content("two", 3 * MIB)
    assert store.put_batch(["one", "two"], [one, two]) == 0
    snapshot = store.prepare_get_into_ranges_snapshot(["one", "two", "none", "one"])
    assert isinstance(snapshot, RangedReadSnapshot)
    for _ in range(3):
        results = store.get_into_ranges_from_snapshot(
            snapshot,
            [memory.address, memory.address + 4 * MIB],
            [["one", "two"], ["none"]],
            [[[0, 500], [1000]], [[0]]],
            [[[10, 99_990], [MIB]], [[0]]],
            [[[20, 100], [7]], [[8]]],
        )
        assert results == [[[20, -600], [7]], [[-704]]]
        assert memory.read(0, 20) == one[10:30]
        assert memory.read(1000, 7) == two[MIB : MIB + 7]


def test_what_changed_since_the_snapshot_is_looked_up(store: Store, memory: Memory) -> None:
    assert store.put_batch(["replaced", "removed"], [content("a", 1000), content("b", 1000)]) == 0
    snapshot = store.prepare_get_into_ranges_snapshot(["replaced", "removed", "later"])
    assert store.upsert("replaced", content("c", 2000)) == 0
    assert store.remove("removed", force=True) == 0
    assert store.put_batch(["later", "unprepared"], [content("d", 1000), content("e", 1000)]) == 0
    for _ in range(2):
        assert read(store, snapshot, memory, "replaced", 1000, 1000) == content("c", 2000)[1000:]
        assert read(store, snapshot, memory, "removed", 0, 1000) == -704
        assert read(store, snapshot, memory, "later", 10, 20) == content("d", 1000)[10:30]
        assert read(store, snapshot, memory, "unprepared", 10, 20) == content("e", 1000)[10:30]


def test_many_keys_and_none(store: Store, host_memory: Memory) -> None:
    keys = [f"key {n}" for n in range(3000)]
    assert store.put_batch(keys, [content(key, 100) for key in keys]) == 0
    snapshot = store.prepare_get_into_ranges_snapshot(keys)
    places = [[[n * 100] for n in range(3000)]], [[[0]] * 3000], [[[100]] * 3000]
    results = store.get_into_ranges_from_snapshot(snapshot, [host_memory.address], [keys], *places)
    assert results == [[[100]] * 3000]
    assert host_memory.read(0, 300_000) == b"".join(content(key, 100) for key in keys)
    empty = store.prepare_get_into_ranges_snapshot([])
    assert store.get_into_ranges_from_snapshot(empty, [], [], [], [], []) == []


def test_arguments_that_are_wrong(store: Store, host_memory: Memory) -> None:
    snapshot = store.prepare_get_into_ranges_snapshot(["k"])
    assert store.get_into_ranges_from_snapshot(snapshot, [1], [["k"]], [[[0]]], [], [[[1]]]) == [[[-600]]]
    with pytest.raises(TypeError, match="keys"):
        store.prepare_get_into_ranges_snapshot("k")
    with pytest.raises(TypeError, match="snapshot"):
        store.get_into_ranges_from_snapshot(None, [], [], [], [], [])  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        RangedReadSnapshot()
    closed = MooncakeDistributedStore()
    with pytest.raises(RuntimeError, match="not set up"):
        closed.prepare_get_into_ranges_snapshot(["k"])
    assert closed.get_into_ranges_from_snapshot(snapshot, [1], [["k"]], [[[0]]], [[[0]]], [[[1]]]) == [[[-600]]]


def test_a_snapshot_is_that_of_its_store(cluster: Cluster, store: Store) -> None:
    snapshot = store.prepare_get_into_ranges_snapshot(["k"])
    other = cluster.store()
    with pytest.raises(ValueError, match="another store"):
        other.get_into_ranges_from_snapshot(snapshot, [], [], [], [], [])
    own = other.prepare_get_into_ranges_snapshot(["k"])
    assert (other.close(), cluster.setup(other)) == (0, 0)
    with pytest.raises(ValueError, match="another store"):
        other.get_into_ranges_from_snapshot(own, [], [], [], [], [])


@pytest.fixture
def slow() -> Iterator[Cluster]:
    """A master with a lease of two seconds, and a node."""
    with Cluster("--default_kv_lease_ttl=2000") as cluster:
        cluster.start_node(16 * MIB)
        yield cluster


def test_reads_by_a_snapshot_do_not_ask_the_master(slow: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOONCAKE_ROUTE_CACHE", "0")
    writer, reader, memory = slow.store(), slow.store(), Memory(4096)
    assert writer.put("k", content("k", 1000)) == 0
    snapshot = reader.prepare_get_into_ranges_snapshot(["k"])
    pause(slow.master.pid)
    try:
        assert [read(reader, snapshot, memory, "k", at, 10) for at in (0, 500)] == [
            content("k", 1000)[at : at + 10] for at in (0, 500)
        ]
    finally:
        os.kill(slow.master.pid, signal.SIGCONT)


def test_leases_are_renewed_once_half_of_them_is_over(slow: Cluster) -> None:
    writer, reader, memory = slow.store(), slow.store(), Memory(4096)
    assert writer.put("k", content("k", 1000)) == 0
    snapshot = reader.prepare_get_into_ranges_snapshot(["k"])

    def asked() -> float:
        """For how many keys the master was asked."""
        lines = (slow.http("/metrics") or "").splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith("master_lookup_keys_total"))

    first = asked()
    for renewals in (1, 2, 3):

        def is_renewed(wanted: float = first + renewals) -> bool:
            assert read(reader, snapshot, memory, "k", 5, 10) == content("k", 1000)[5:15]
            return asked() >= wanted

        wait_until(is_renewed, 10, "half of the lease is over")
    assert writer.remove("k") == -706, "its lease was renewed"


def test_weight_snapshots_are_refused_with_a_reason(store: Store) -> None:
    with pytest.raises(NotImplementedError, match=r"mooncake\.reshard"):
        store.begin_weight_snapshot(object(), object())
