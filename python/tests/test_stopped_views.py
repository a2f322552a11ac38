"""Processes that are paused or killed while they hold views of objects.

They do not release their ranges when asked, so the bytes must stay, however long that takes. Once they continue or are
gone, the ranges must be usable again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from cluster import MIB, Cluster, Process, wait_until
from holder import Holder
from mooncake.store import MooncakeDistributedStore
from values import stamped, version_of

Store = MooncakeDistributedStore
SEGMENT_BYTES = 16 * MIB
# A quarter of a segment: the largest share of it that views may hold.
LENGTH = 4 * MIB
OLD, NEW = 1, 2
NO_ROOM = -200


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A master with short times for leases, for silent clients, and for ranges that a reader does not release."""
    timeouts = ("--put_start_discard_timeout_sec=4", "--put_start_release_timeout_sec=5")
    with Cluster("--default_kv_lease_ttl=300", "--client_ttl=1", *timeouts) as cluster:
        yield cluster


def living_clients(cluster: Cluster) -> int:
    lines = (cluster.http("/metrics") or "").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("master_active_clients "))


def stop(cluster: Cluster, holder: Holder) -> None:
    """Pauses the process until its leases have ended and the master has declared it dead."""
    living = living_clients(cluster)
    holder.pause()
    wait_until(lambda: living_clients(cluster) < living, 10, "the master missed it")


def keys(cluster: Cluster) -> set[str]:
    """The keys of the pool. Asking for them takes no lease."""
    return set((cluster.http("/get_all_keys") or "").split())


def used_bytes(cluster: Cluster) -> list[int]:
    """The used bytes of each segment."""
    answer = json.loads(cluster.http("/get_segments_detail") or '{"segments": []}')
    return [segment["allocator_used_bytes"] for segment in answer["segments"]]


def room(cluster: Cluster) -> int:
    """How many objects the pool has room for."""
    return len(used_bytes(cluster)) * SEGMENT_BYTES // LENGTH


def replace(node: Process, cluster: Cluster, how: str) -> None:
    """Ends a node and starts another."""
    getattr(node, how)()
    cluster.nodes.remove(node)
    wait_until(lambda: used_bytes(cluster) == [], 10, "the master gave its segment up")
    cluster.start_node(SEGMENT_BYTES)


def upsert(store: Store, key: str) -> None:
    """Puts the new version, as soon as leases have ended and resumed holders have released their ranges."""
    value = stamped(key, NEW, LENGTH)
    wait_until(lambda: store.upsert(key, value) == 0, 10, "there is room")


def put_as_leases_end(store: Store, key: str, value: bytes) -> None:
    """Puts as soon as an object can be evicted. No other error may occur."""
    codes: list[int] = []

    def put() -> bool:
        codes.append(store.put(key, value))
        return codes[-1] != NO_ROOM

    wait_until(put, 10, f"there is room for {key}")
    assert codes[-1] == 0, key


def crowd(cluster: Cluster, store: Store) -> int:
    """Puts far more objects than the pool has room for. Returns how many it holds."""
    for number in range(4 * room(cluster)):
        upsert(store, f"other-{number}")
    return len(keys(cluster))


def check_all(cluster: Cluster, store: Store) -> None:
    """Checks that every object is complete or missing."""
    for key in keys(cluster):
        value = store.get(key)
        assert value == b"" or version_of(key, value) is not None, f"{key}: {len(value)} wrong bytes"


def fill(cluster: Cluster, store: Store) -> None:
    """Fills the pool as soon as no view holds a range, and checks every byte."""
    assert store.remove_all(force=True) >= 0
    wait_until(lambda: crowd(cluster, store) == room(cluster), 10, "all of the pool can be used")
    check_all(cluster, store)


# The writer writes to memory of this host that it has mapped, or over TCP.
@pytest.mark.parametrize(
    ("fate", "transports"), [("removed", "shm"), ("replaced", "shm"), ("evicted", "shm"), ("evicted", "tcp")]
)
def test_a_process_that_stands_still_sees_on_what_has_gone(
    cluster: Cluster, fate: str, transports: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.start_node(SEGMENT_BYTES)
    with monkeypatch.context() as writer:
        writer.setenv("MOONCAKE_TRANSPORTS", transports)
        store = cluster.store()
    assert store.put("k", stamped("k", OLD, LENGTH)) == 0
    cluster.start_node(SEGMENT_BYTES)
    with Holder(cluster.master_address) as holder:
        assert holder.ask("look", "k") is True
        stop(cluster, holder)
        if fate == "removed":
            assert store.remove("k") == 0, "the lease is over"
            assert store.put("k", stamped("k", NEW, LENGTH)) == 0
        elif fate == "replaced":
            upsert(store, "k")
        assert crowd(cluster, store) < room(cluster), "nothing is put where it looks"
        check_all(cluster, store)
        upsert(store, "k")
        holder.go_on()
        assert (holder.ask("seen"), holder.ask("get", "k")) == ({"k": OLD}, NEW)
        fill(cluster, store)
        assert holder.ask("seen") == {"k": OLD}
        assert holder.ask("release") == 1
        fill(cluster, store)
        assert holder.end() == 0


@pytest.mark.parametrize("transports", ["shm", "tcp"])
def test_puts_and_gets_of_others_go_on_beside_a_process_that_stands_still(
    transports: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Cluster("--default_kv_lease_ttl=300", "--client_ttl=1") as cluster:
        cluster.start_node(64 * MIB)
        with monkeypatch.context() as writer:
            writer.setenv("MOONCAKE_TRANSPORTS", transports)
            store = cluster.store()
        assert store.put("k", stamped("k", OLD, MIB)) == 0
        with Holder(cluster.master_address) as holder:
            assert holder.ask("look", "k") is True
            stop(cluster, holder)
            assert store.remove("k") == 0
            for number in range(200):
                key = f"other-{number}"
                put_as_leases_end(store, key, stamped(key, NEW, MIB))
                assert version_of(key, store.get(key)) == NEW
            assert 50 < len(keys(cluster)) < 64, "all but the place where it looks is used"
            check_all(cluster, store)
            holder.go_on()
            assert holder.ask("seen") == {"k": OLD}


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_process_that_stands_still_sees_on_what_its_node_had(cluster: Cluster, how: str) -> None:
    node = cluster.start_node(SEGMENT_BYTES)
    store = cluster.store()
    assert store.put("k", stamped("k", OLD, LENGTH)) == 0
    with Holder(cluster.master_address) as holder:
        assert holder.ask("look", "k") is True
        before = holder.segments()
        stop(cluster, holder)
        replace(node, cluster, how)
        fill(cluster, store)
        upsert(store, "k")
        assert holder.segments() == before
        holder.go_on()
        assert (holder.ask("seen"), holder.ask("get", "k")) == ({"k": OLD}, NEW)
        assert holder.ask("release") == 1
        wait_until(lambda: not holder.segments() & before, 10, "the dead node's memory is given back")
        fill(cluster, store)
        assert holder.end() == 0


def test_a_node_that_stands_still_sees_on_what_it_had_itself(cluster: Cluster) -> None:
    with Holder(cluster.master_address, SEGMENT_BYTES) as holder:
        assert (holder.ask("put", "k", OLD, LENGTH), holder.ask("look", "k")) == (0, True)
        stop(cluster, holder)
        wait_until(lambda: used_bytes(cluster) == [], 10, "the master gave its segment up")
        cluster.start_node(SEGMENT_BYTES)
        store = cluster.store()
        assert store.put("k", stamped("k", NEW, LENGTH)) == 0
        holder.go_on()
        wait_until(lambda: len(cluster.segments()) == 2, 10, "its segment is back")
        assert (holder.ask("seen"), holder.ask("get", "k")) == ({"k": OLD}, NEW)
        fill(cluster, store)
        assert holder.ask("seen") == {"k": OLD}
        assert holder.ask("release") == 1
        fill(cluster, store)
        assert holder.end() == 0


@pytest.mark.parametrize("stands_still", [False, True])
def test_what_a_process_that_is_killed_looked_at_can_be_written(cluster: Cluster, stands_still: bool) -> None:
    cluster.start_node(SEGMENT_BYTES)
    store = cluster.store()
    assert store.put("k", stamped("k", OLD, LENGTH)) == 0
    with Holder(cluster.master_address) as holder:
        assert holder.ask("look", "k") is True
        if stands_still:
            stop(cluster, holder)
            assert store.remove("k") == 0, "the lease is over"
            # The put may be granted the held range, and then be refused there.
            store.put("k", stamped("k", NEW, LENGTH))
        holder.kill()
        fill(cluster, store)
