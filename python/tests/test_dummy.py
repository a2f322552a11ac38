"""Dummy clients: processes that use the store of a `mooncake_client` on their host, through shared memory."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import MIB, Cluster, Memory, Process, content, free_port, wait_until
from mooncake.store import BufferPool, MooncakeDistributedStore, MooncakeHostMemAllocator

Store = MooncakeDistributedStore


class Host:
    """A `mooncake_client` that serves dummies, and the dummies that a test opens on it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.port = cluster, free_port()
        self.dummies: list[Store] = []
        self.start()

    def start(self) -> None:
        self.process = Process(
            "mooncake_client",
            "--host=127.0.0.1",
            f"--port={self.port}",
            f"--master_server_address={self.cluster.master_address}",
            "--global_segment_size=0",
        )
        self.process.wait_ready(lambda: "is ready" in self.process.output())

    def dummy(self, pool_bytes: int = 16 * MIB, buffer_bytes: int = 16 * MIB) -> Store:
        dummy = MooncakeDistributedStore()
        assert dummy.setup_dummy(pool_bytes, buffer_bytes, f"127.0.0.1:{self.port}") == 0
        self.dummies.append(dummy)
        return dummy

    def shared_maps(self) -> int:
        """How many pieces of shared memory the host has mapped."""
        maps = Path(f"/proc/{self.process.pid}/maps").read_text()
        return sum("memfd:" in line for line in maps.splitlines())


@pytest.fixture(scope="module")
def host(cluster: Cluster) -> Iterator[Host]:
    host = Host(cluster)
    yield host
    for dummy in host.dummies:
        dummy.close()
    host.process.stop()


@pytest.fixture
def dummy(host: Host, store: Store) -> Store:
    return host.dummy()


def test_the_calls_that_copy(dummy: Store, store: Store) -> None:
    value = content("k", 3 * MIB)
    assert (dummy.put("k", value), dummy.get("k"), store.get("k")) == (0, value, value)
    assert dummy.put_parts("parts", b"one", b"two") == 0
    assert dummy.put_batch(["a", "b"], [b"1", value]) == 0
    assert dummy.get_batch(["a", "none", "b", "parts"]) == [b"1", b"", value, b"onetwo"]
    assert (dummy.upsert("a", b"2"), dummy.get("a"), dummy.put("a", b"3"), dummy.get("a")) == (0, b"2", 0, b"2")
    handle = dummy.get_buffer("k")
    assert handle is not None
    assert bytes(handle) == value
    assert (dummy.is_exist("k"), dummy.is_exist("none"), dummy.get_size("k")) == (1, 0, len(value))
    assert dummy.batch_is_exist(["k", "none", "k"]) == [1, 0, 1]
    assert dummy.batch_prefix_len(["k", "k", "none", "k"]) == 2
    assert dummy.get_replica_desc("k")[0].get_memory_descriptor().buffer_descriptor.size == len(value)
    assert dummy.remove("none") == -704
    assert dummy.batch_remove(["a", "b"], force=True) == [0, 0]
    assert dummy.remove_by_regex("^par", force=True) == 1
    assert dummy.remove_all(force=True) == 1
    assert (dummy.health_check(), dummy.get_hostname() != "") == (0, True)


def test_memory_that_is_shared_and_memory_that_is_not(dummy: Store, store: Store) -> None:
    allocator = MooncakeHostMemAllocator()
    shared = allocator.alloc(4 * MIB)
    own = Memory(4 * MIB)
    value = content("k", MIB)
    try:
        for address in (shared, own.address):
            assert dummy.register_buffer(address, 4 * MIB) == 0
        own.write(0, value)
        assert dummy.put_from("k", own.address, MIB) == 0
        assert dummy.get_into("k", shared + 100, MIB) == MIB
        assert dummy.batch_put_from_multi_buffers(["l"], [[shared + 100, own.address]], [[MIB, 10]]) == [0]
        assert store.get("l") == value + value[:10]
        assert dummy.batch_get_into(["l", "none", "k"], [shared, shared, own.address + MIB], [2 * MIB] * 3) == [
            MIB + 10,
            -704,
            MIB,
        ]
        assert own.read(MIB, MIB) == value
        results = dummy.get_into_ranges([own.address], [["k"]], [[[0, 50]]], [[[7, MIB - 5]]], [[[10, 6]]])
        assert (results, own.read(0, 10)) == ([[[10, -600]]], value[7:17])
        assert dummy.get_into("k", shared, 10) == -600
        for address in (shared, own.address):
            assert dummy.unregister_buffer(address) == 0
    finally:
        assert allocator.free(shared) == 0


def test_more_than_the_pool_holds(host: Host, store: Store) -> None:
    small = host.dummy(0, MIB)
    keys = [f"k{i}" for i in range(8)]
    values = [content(key, 700_000) for key in keys]
    assert small.put_batch(keys, values) == 0
    assert small.get_batch(keys) == values
    assert (small.put("big", bytes(2 * MIB)), store.is_exist("big")) in [(0, 1), (-600, 0), (-10, 0)]


def test_a_pool_of_buffers(dummy: Store) -> None:
    with BufferPool(dummy).acquire(MIB) as lease:
        lease.buffer[:] = content("k", MIB)
        assert dummy.put_from("k", lease.ptr, MIB) == 0
    assert dummy.get("k") == content("k", MIB)


def test_what_needs_a_store_of_its_own_is_refused(dummy: Store, tmp_path: Path) -> None:
    assert dummy.batch_put_session_start(["k"], [10]) == [-600]
    assert dummy.batch_get_session_start(["k"]) == [-600]
    assert dummy.create_copy_task("k", ["x"]) == ((0, 0), -600)
    assert dummy.allocate_and_mount_segment(MIB)["ret"] == -600
    assert dummy.setup_dummy(MIB, MIB, "127.0.0.1:1") == -600, "it is set up already"


def test_setups_that_fail(host: Host) -> None:
    for address in ("127.0.0.1", "127.0.0.1:none", "", f"127.0.0.1:{free_port()}"):
        assert MooncakeDistributedStore().setup_dummy(MIB, MIB, address) < 0
    assert MooncakeDistributedStore().setup_dummy(1 << 62, MIB, f"127.0.0.1:{host.port}") == -600
    for wrong in [("a", 1, "h:1"), (1, None, "h:1"), (1, 1, 1), (-1, 1, "h:1")]:
        with pytest.raises(TypeError, match="setup_dummy"):
            MooncakeDistributedStore().setup_dummy(*wrong)  # type: ignore[arg-type]


OTHER = """
import hashlib, os, sys
from mooncake.store import MooncakeDistributedStore
name, address = sys.argv[1:3]
store = MooncakeDistributedStore()
assert store.setup_dummy(8 << 20, 8 << 20, address) == 0
if name == "dies":
    print("started", flush=True)
    while True:
        store.upsert("dying", bytes(4 << 20))
for i in range(50):
    key = f"{name} {i}"
    value = hashlib.shake_128(key.encode()).digest(100_000)
    assert store.put(key, value) == 0
    assert store.get(key) == value
print("done")
"""


def start_other(name: str, host: Host) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-c", OTHER, name, f"127.0.0.1:{host.port}"]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)


def test_several_dummies_at_once(host: Host, store: Store) -> None:
    others = [start_other(name, host) for name in ("one", "two", "three")]
    assert [other.communicate(timeout=120)[0] for other in others] == ["done\n"] * 3
    assert store.batch_is_exist([f"{name} 49" for name in ("one", "two", "three")]) == [1, 1, 1]


def test_many_threads_of_one_dummy(dummy: Store) -> None:
    faults: list[str] = []

    def work(number: int) -> None:
        for i in range(30):
            key = f"{number} {i}"
            value = content(key, 50_000 + number)
            if dummy.put(key, value) != 0 or dummy.get(key) != value:
                faults.append(key)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []


def test_a_dummy_that_dies_leaves_nothing_behind(host: Host, store: Store) -> None:
    before = host.shared_maps()
    other = start_other("dies", host)
    assert other.stdout is not None
    assert other.stdout.readline() == "started\n"
    wait_until(lambda: host.shared_maps() > before, 20, "its memory is mapped")
    other.kill()
    other.communicate()
    wait_until(lambda: host.shared_maps() <= before, 20, "its memory is let go")
    assert host.dummy().put("k", b"value") == 0
    assert store.get("dying") in (b"", bytes(4 << 20))


def test_a_host_that_dies_and_comes_back(cluster: Cluster, store: Store) -> None:
    host = Host(cluster)
    dummy = host.dummy()
    assert dummy.put("k", b"value") == 0
    host.process.kill()
    assert (dummy.put("l", b"value") < 0, dummy.get("k"), dummy.is_exist("k") < 0) == (True, b"", True)
    assert dummy.health_check() == 2
    host.start()
    wait_until(lambda: dummy.put("l", b"value") == 0, 20, "the dummy is connected again")
    assert (dummy.get("k"), dummy.health_check()) == (b"value", 0)
    dummy.close()
    assert (dummy.close(), dummy.put("k", b"v"), dummy.health_check()) == (0, -600, 1)
    host.process.stop()


def test_a_fork_of_a_dummy_cannot_use_it(dummy: Store) -> None:
    child = os.fork()
    if child == 0:
        code = dummy.put("k", b"value")
        os._exit(0 if code < 0 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert dummy.put("k", b"value") == 0


def test_a_dummy_probes_and_leases_what_it_asks_for(dummy: Store) -> None:
    assert [dummy.put(key, b"value") for key in "abcd"] == [0] * 4
    assert [dummy.probe_key("a"), dummy.probe_key("none")] == [1, 0]
    assert dummy.batch_probe_key(list("abcd"), "LastHitOnly", 2) == [1] * 4
    assert [dummy.remove(key) for key in "bcd"] == [0, -706, -706]
    assert dummy.put("b", b"value") == 0
    assert dummy.batch_prefix_len(list("ab"), 1) == 2
    assert [dummy.remove(key) for key in "ab"] == [0, -706]
