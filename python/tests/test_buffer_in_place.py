"""`get_buffer` gives views of large objects on this host. Their bytes stay, even if the object is removed."""

import ctypes
import gc
import os
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
from cluster import MIB, Cluster, content, in_other_process, wait_until
from holder import is_in_place
from mooncake.store import BufferHandle, MooncakeDistributedStore

np: Any = pytest.importorskip("numpy")

Store = MooncakeDistributedStore


@pytest.fixture(params=["neighbour", "own"])
def reader(request: pytest.FixtureRequest, cluster: Cluster, store: Store) -> Iterator[Store]:
    """A store whose objects lie on other nodes of this host, or one that lends the segment itself."""
    if request.param == "neighbour":
        yield store
    else:
        with Cluster("--default_kv_lease_ttl=300") as own:
            yield own.store(segment_bytes=64 * MIB)


def got(store: Store, key: str) -> BufferHandle:
    handle = store.get_buffer(key)
    assert handle is not None
    return handle


def fill(store: Store) -> None:
    """Puts more bytes than a pool of two nodes of 64 MiB holds."""
    value = content("other", 4 * MIB)
    for at in range(40):

        def put(key: str = f"other {at}") -> bool:
            return store.put(key, value) == 0

        wait_until(put, 10, "there is room")


@pytest.mark.parametrize("length", [256 << 10, MIB + 1, 5 * MIB])
def test_large_objects_are_not_copied(reader: Store, length: int) -> None:
    value = content("k", length)
    assert (reader.put("k", value), reader.put("small", b"small")) == (0, 0)
    handles = reader.batch_get_buffer(["k", "none", "small", "k"])
    assert [handle and bytes(handle) for handle in handles] == [value, None, b"small", value]
    assert [handle and is_in_place(handle) for handle in handles] == [True, None, False, True]
    assert ctypes.string_at(got(reader, "k").ptr(), length) == value
    assert pickle.loads(pickle.dumps(bytes(got(reader, "k")))) == value


def test_arrays_share_the_bytes(reader: Store) -> None:
    numbers = np.arange(MIB, dtype=np.float32)
    assert reader.put("k", numbers.tobytes()) == 0
    handle = got(reader, "k")
    array = np.frombuffer(handle, dtype=np.float32)
    assert array.ctypes.data == handle.ptr()
    del handle
    gc.collect()
    assert reader.remove("k", True) == 0
    fill(reader)
    assert np.array_equal(array, numbers)


def test_what_is_written_is_the_handles_own(reader: Store) -> None:
    value = content("k", MIB)
    assert reader.put("k", value) == 0
    mine, other = got(reader, "k"), got(reader, "k")
    memoryview(mine)[5:9] = b"mine"
    np.frombuffer(mine, dtype=np.uint8)[MIB - 1] = 7
    assert bytes(mine)[:12] == value[:5] + b"mine" + value[9:12]
    assert (bytes(other), reader.get("k")) == (value, value)


def test_bytes_stay_when_the_object_is_replaced_and_the_store_closed(cluster: Cluster, reader: Store) -> None:
    keys = [f"k{at}" for at in range(6)]
    values = {key: content(key, MIB) for key in keys}
    for key, value in values.items():
        assert reader.put(key, value) == 0
    handles = {key: got(reader, key) for key in keys}
    for key in keys[:3]:
        assert reader.upsert(key, content("new", MIB)) == 0
    assert reader.remove_all(force=True) == 6
    fill(reader)
    assert {key: bytes(handle) for key, handle in handles.items()} == values
    passing = cluster.store()
    assert passing.put("late", values["k0"]) == 0
    late = got(passing, "late")
    passing.close()
    assert bytes(late) == values["k0"]


def test_a_forked_child_finds_the_bytes(reader: Store) -> None:
    value = content("k", MIB)
    assert reader.put("k", value) == 0
    handle = got(reader, "k")
    ready, told = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(ready, 1)
        is_same = bytes(handle) == value
        del handle
        os._exit(0 if is_same else 1)
    assert reader.remove("k", True) == 0
    fill(reader)
    os.write(told, b"!")
    assert os.waitpid(child, 0)[1] == 0
    assert bytes(handle) == value


def test_bytes_of_a_node_that_is_killed_or_stopped_stay() -> None:
    with Cluster("--default_kv_lease_ttl=300") as cluster:
        for stop in ("kill", "stop"):
            node = cluster.start_node(64 * MIB)
            store = cluster.store()
            assert store.put(stop, content(stop, MIB)) == 0
            handle = got(store, stop)
            assert is_in_place(handle)
            getattr(node, stop)()
            cluster.nodes.remove(node)
            assert bytes(handle) == content(stop, MIB)
            store.close()
            assert bytes(handle) == content(stop, MIB)


KILLED = """
import json, os, sys
from mooncake.store import MooncakeDistributedStore

store = MooncakeDistributedStore()
assert store.setup("localhost", "P2PHANDSHAKE", 0, 64 << 20, "tcp", "", sys.argv[1]) == 0
handles = [store.get_buffer("k") for _ in range(5)]
print(json.dumps([len(handle) for handle in handles]), flush=True)
os._exit(0)
"""


def test_what_a_process_that_ended_looked_at_can_be_written(cluster: Cluster, store: Store) -> None:
    assert store.put("k", content("k", MIB)) == 0
    assert in_other_process(KILLED, cluster.master_address) == [MIB] * 5
    assert store.remove("k", True) == 0
    fill(store)
