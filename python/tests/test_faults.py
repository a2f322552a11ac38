"""Processes that die: every call ends in bounded time, and no wrong byte is ever returned."""

import threading
import time

import pytest
from cluster import MIB, Cluster, Memory, content, wait_until
from mooncake.store import ReplicateConfig

SLOWEST_CALL_SECONDS = 10.0


@pytest.fixture(autouse=True)
def _short_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MC_RPC_TIMEOUT_MS", "2000")
    monkeypatch.setenv("MC_RPC_CONNECT_TIMEOUT_MS", "2000")
    monkeypatch.setenv("MC_TRANSFER_TIMEOUT", "3")


class Timed:
    """Remembers how long the slowest call took."""

    def __init__(self) -> None:
        self.slowest = 0.0

    def __enter__(self) -> None:
        self.begin = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self.slowest = max(self.slowest, time.monotonic() - self.begin)


def test_a_node_is_killed_during_puts() -> None:
    with Cluster() as cluster:
        nodes = [cluster.start_node(64 * MIB) for _ in range(2)]
        store, timed, codes = cluster.store(), Timed(), {}
        killer = threading.Timer(0.2, nodes[0].kill)
        killer.start()
        for i in range(150):
            key = f"k{i}"
            with timed:
                codes[key] = store.put(key, content(key, 512 << 10))
        killer.join()
        assert timed.slowest < SLOWEST_CALL_SECONDS
        for key, code in codes.items():
            with timed:
                value = store.get(key)
            assert value in (b"", content(key, 512 << 10)), f"{key} was put with {code}"
        assert timed.slowest < SLOWEST_CALL_SECONDS
        assert store.put("after", b"value") == 0
        assert store.get("after") == b"value"


def test_a_node_is_killed_during_gets() -> None:
    with Cluster() as cluster:
        nodes = [cluster.start_node(64 * MIB) for _ in range(2)]
        store, timed, memory = cluster.store(), Timed(), Memory(2 * MIB)
        keys = [f"k{i}" for i in range(40)]
        rules = ReplicateConfig()
        rules.replica_num = 2
        for i, key in enumerate(keys):
            assert store.put(key, content(key, MIB), rules if i % 2 else ReplicateConfig()) == 0
        killer = threading.Timer(0.1, nodes[0].kill)
        killer.start()
        for round_ in range(5):
            for i, key in enumerate(keys):
                with timed:
                    got = store.get_into(key, memory.address, memory.size)
                assert got == MIB or got < 0, (round_, key)
                if got >= 0:
                    assert memory.read(0, MIB) == content(key, MIB)
                elif killer.finished.is_set():
                    assert i % 2 == 0, f"{key} has a replica on the node that lives, and yet {got}"
        killer.join()
        assert timed.slowest < SLOWEST_CALL_SECONDS


def test_a_dead_nodes_keys_are_missed_and_can_be_put_again() -> None:
    with Cluster("--client_ttl=2") as cluster:
        dying, _ = cluster.start_node(32 * MIB), cluster.start_node(32 * MIB)
        store = cluster.store()
        keys = [f"k{i}" for i in range(20)]
        assert store.put_batch(keys, [content(key, 1000) for key in keys]) == 0
        dying.kill()
        wait_until(lambda: len(cluster.segments()) == 1, 10, "the master noticed")
        left = store.batch_is_exist(keys)
        assert [store.get(key) for key in keys] == [
            content(key, 1000) if here == 1 else b"" for key, here in zip(keys, left, strict=True)
        ]
        assert 0 < sum(left) < 20
        assert store.put_batch(keys, [content(key, 1000) for key in keys]) == 0
        assert store.get_batch(keys) == [content(key, 1000) for key in keys]


def test_the_master_goes_and_comes_back() -> None:
    with Cluster() as cluster:
        store = cluster.store(segment_bytes=16 * MIB)
        assert store.put("before", b"value") == 0
        cluster.master.kill()
        timed = Timed()
        with timed:
            code = store.put("during", b"value")
        with timed:
            found = store.is_exist("before")
        with timed:
            value = store.get("during")
        assert (code in (-900, -901), found in (-900, -901), value) == (True, True, b"")
        assert timed.slowest < SLOWEST_CALL_SECONDS
        wait_until(lambda: store.health_check() == 2, 10, "a ping failed")
        cluster.start_master()
        wait_until(lambda: store.health_check() == 0, 15, "the store found the master again")
        wait_until(lambda: len(cluster.segments()) == 1, 15, "the segment is mounted again")
        assert (store.put("after", b"value"), store.get("after")) == (0, b"value")
        assert store.get("before") in (b"", b"value")


def test_a_store_closes_in_bounded_time_without_its_master() -> None:
    with Cluster() as cluster:
        store = cluster.store(segment_bytes=16 * MIB)
        cluster.master.kill()
        begin = time.monotonic()
        assert store.close() == 0
        assert time.monotonic() - begin < SLOWEST_CALL_SECONDS
        cluster.start_master()


def test_a_pool_without_a_segment_is_full() -> None:
    with Cluster() as cluster:
        store = cluster.store()
        assert store.put("k", b"value") == -200
        assert (store.get("k"), store.is_exist("k")) == (b"", 0)


def test_a_full_pool_evicts_and_goes_on() -> None:
    with Cluster("--default_kv_lease_ttl=100") as cluster:
        cluster.start_node(16 * MIB)
        store = cluster.store()
        keys = [f"k{i}" for i in range(100)]
        for key in keys:
            assert store.put(key, content(key, MIB)) == 0
        kept = [key for key in keys if store.get(key)]
        assert 5 <= len(kept) <= 16
        assert [store.get(key) for key in kept] == [content(key, MIB) for key in kept]
