"""The upsert family: the new value replaces the old one at once, and never in part."""

import threading

import pytest
from cluster import MIB, Cluster, Memory, content, in_other_process, wait_until
from mooncake.store import MooncakeDistributedStore, ReplicateConfig, SoftPinAction
from values import stamped, version_of

Store = MooncakeDistributedStore
POOLS = ["master", "local", "fabric"]


@pytest.mark.parametrize("lengths", [(1, 1), (4096, 4096), (4096, 5 * MIB), (5 * MIB, 7)])
def test_the_new_value_takes_the_place_of_the_old(store: Store, lengths: tuple[int, int]) -> None:
    first, second = content("first", lengths[0]), content("second", lengths[1])
    assert (store.upsert("k", first), store.get("k")) == (0, first)
    assert (store.upsert("k", second), store.get("k")) == (0, second)
    assert (store.get_size("k"), store.put("k", b"third"), store.get("k")) == (len(second), 0, second)


def test_every_form(store: Store, memory: Memory) -> None:
    old, new = content("old", 3000), content("new", 4000)
    for key in "abcdef":
        assert store.put(key, old) == 0
    address = memory.write(0, new)
    assert store.upsert_parts("a", new[:1], memoryview(new)[1:]) == 0
    assert store.upsert_batch(["b", "c"], [new, bytearray(new)]) == 0
    assert store.upsert_from("d", address, len(new)) == 0
    assert store.batch_upsert_from(["e", "free"], [address, address], [len(new), 10]) == [0, 0]
    assert store.batch_upsert_from_multi_buffers(["f"], [[address, address + 7]], [[7, len(new) - 7]]) == [0]
    assert store.get_batch(list("abcdef")) == [new] * 6
    assert store.get("free") == new[:10]


def test_of_a_key_that_stands_twice_the_last_value_stays(store: Store) -> None:
    assert store.upsert_batch(["k", "other", "k"], [b"first", b"x", b"last"]) == 0
    assert (store.get("k"), store.get("other")) == (b"last", b"x")


def test_what_is_refused_leaves_the_old_value(store: Store, memory: Memory) -> None:
    assert store.put("k", b"old") == 0
    config = ReplicateConfig()
    config.soft_pin_ttl_ms = 1000
    assert store.upsert("k", b"new", config) == -600
    config.soft_pin_action = SoftPinAction.DISABLE
    assert store.upsert("k", b"new", config) == -600
    assert store.upsert("k", b"") == -600
    assert store.upsert_parts("k") == 0
    assert store.upsert_batch(["k"], []) == -600
    assert store.batch_upsert_from(["k", "l"], [memory.address], [1]) == [-600, -600]
    assert store.upsert_from("k", 0, 4) == -600
    assert store.upsert("", b"new") == -400
    assert store.upsert("k", bytes(200 * MIB)) == -200
    assert store.get("k") == b"old"


def test_pins_are_kept_or_changed(store: Store) -> None:
    pinned = ReplicateConfig()
    pinned.with_hard_pin = True
    assert store.put("hard", content("hard", MIB), pinned) == 0
    assert store.upsert("hard", content("newer", MIB)) == 0
    for i in range(300):
        assert store.put(f"filler {i}", content("filler", MIB)) == 0
    assert store.get("hard") == content("newer", MIB)


def test_a_group_is_for_good(store: Store) -> None:
    config = ReplicateConfig()
    config.group_ids = ["one"]
    assert store.put("k", b"old", config) == 0
    config.group_ids = ["two"]
    assert store.upsert("k", b"new", config) == -600
    config.group_ids = None
    assert (store.upsert("k", b"newer", config), store.get("k")) == (0, b"newer")


def test_a_reader_sees_the_old_value_or_the_new(cluster: Cluster, store: Store) -> None:
    """Two writers and two readers on few keys: every value is complete, and no reader sees an older version again."""
    keys = [f"k{i}" for i in range(4)]
    length = 256 << 10
    for key in keys:
        assert store.upsert(key, stamped(key, 0, length)) == 0
    stop = threading.Event()
    faults: list[str] = []
    newest = dict.fromkeys(keys, 0)
    reads = [0, 0]

    def write(own: list[str]) -> None:
        writer = cluster.store()
        version = 0
        while not stop.is_set():
            version += 1
            for key in own:
                if (code := writer.upsert(key, stamped(key, version, length))) != 0:
                    faults.append(f"upsert: {code}")
                newest[key] = version

    def read(number: int) -> None:
        reader = cluster.store()
        seen = dict.fromkeys(keys, 0)
        while not stop.is_set():
            for key, value in zip(keys, reader.get_batch(keys), strict=True):
                version = version_of(key, value)
                if version is None or version < seen[key]:
                    faults.append(f"{key}: {len(value)} bytes of version {version} after {seen[key]}")
                else:
                    seen[key] = version
                    reads[number] += 1

    threads = [threading.Thread(target=write, args=(keys[i::2],)) for i in range(2)]
    threads += [threading.Thread(target=read, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: min(newest.values()) > 30 or bool(faults), 60, "30 versions of each key")
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert faults == []
    assert min(reads) > 0
    assert [version_of(key, store.get(key)) for key in keys] == [newest[key] for key in keys]


DYING_WRITER = """
import json, os, sys, threading
from mooncake.store import MooncakeDistributedStore
store = MooncakeDistributedStore()
assert store.setup("localhost", "P2PHANDSHAKE", 0, 1 << 24, "tcp", "", sys.argv[1]) == 0
print(json.dumps("started"), flush=True)
threading.Timer(float(sys.argv[2]), os._exit, (0,)).start()
while True:
    store.upsert("k", bytes(8 << 20))
"""


@pytest.mark.parametrize("seconds", [0.0, 0.01, 0.05])
def test_a_writer_that_dies_leaves_a_whole_value(cluster: Cluster, store: Store, seconds: float) -> None:
    old = content("k", 8 << 20)
    assert store.put("k", old) == 0
    assert in_other_process(DYING_WRITER, cluster.master_address, str(seconds)) == "started"
    assert store.get("k") in (old, bytes(8 << 20))
