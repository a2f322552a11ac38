"""A process that forks while it has an open store."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cluster import FABRIC, MIB, Cluster, content, wait_until
from mooncake.store import MooncakeDistributedStore

SCRIPT = """
import os, sys
from mooncake.store import MooncakeDistributedStore

def opened(segment):
    store = MooncakeDistributedStore()
    assert store.setup("localhost", "P2PHANDSHAKE", segment, 1 << 20, "tcp", "", sys.argv[1]) == 0
    return store

store = opened(16 << 20)
for n in range(8):
    assert store.put(f"key{n}", b"value" * 20_000) == 0
assert store.put("key", b"value" * 20_000) == 0
assert store.get_batch([f"key{n}" for n in range(8)]) == [b"value" * 20_000] * 8
child = os.fork()
if child == 0:
    assert store.is_exist("key") < 0, "the parent's sockets are not the child's"
    assert store.put("other", b"x") < 0
    assert store.get("key") == b""
    assert store.get_batch([f"key{n}" for n in range(8)]) == [b""] * 8
    assert store.alloc_from_mem_pool(64) == 0, "the parent would hand out the same memory"
    own = opened(0)
    assert own.get("key") == b"value" * 20_000, "a store of its own works"
    own.close()
    del store, own
    sys.exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "the child failed"
assert store.get("key") == b"value" * 20_000
assert store.get_batch([f"key{n}" for n in range(8)]) == [b"value" * 20_000] * 8
reader = opened(0)
assert reader.get("key") == b"value" * 20_000, "the parent still serves its segment"
assert store.is_exist("other") == 0
reader.close()
store.close()
"""


@pytest.mark.parametrize("variables", [{}, FABRIC], ids=["near", "one-sided"])
def test_a_forked_child_cannot_disturb_its_parent(variables: dict[str, str]) -> None:
    with Cluster("--default_kv_lease_ttl=300") as cluster:
        # Objects go to the node, whose memory is another process's.
        cluster.start_node(64 * MIB, env=variables)
        command = [sys.executable, "-c", textwrap.dedent(SCRIPT), cluster.master_address]
        run = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, timeout=60)
        assert run.returncode == 0, run.stderr


# A process that forks while another of its threads keeps registering buffers.
REGISTERS = """
import mmap, ctypes, os, sys, threading
from mooncake.store import MooncakeDistributedStore

store = MooncakeDistributedStore()
assert store.setup("localhost", "P2PHANDSHAKE", 0, 1 << 20, "tcp", "", sys.argv[1]) == 0
memory = mmap.mmap(-1, 4096)
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
stop = threading.Event()

def register():
    while not stop.is_set():
        assert store.register_buffer(address, 4096) == 0
        assert store.unregister_buffer(address) == 0

threads = [threading.Thread(target=register, daemon=True)]
[thread.start() for thread in threads]
for _ in range(50):
    child = os.fork()
    if child == 0:
        refused = store.register_buffer(address, 4096) < 0 and store.unregister_buffer(address) < 0
        os._exit(0 if refused else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "the child was let"
stop.set()
[thread.join() for thread in threads]
"""


def test_a_child_does_not_hang_where_a_thread_of_its_parent_was_registering(cluster: Cluster) -> None:
    command = [sys.executable, "-c", textwrap.dedent(REGISTERS), cluster.master_address]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr


# A process that forks and is killed. Its child does nothing.
KILLED = """
import os, signal, sys, time
from mooncake.store import MooncakeDistributedStore, ReplicateConfig

master, segment, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
store = MooncakeDistributedStore()
settings = {"local_hostname": "localhost", "metadata_server": "P2PHANDSHAKE", "global_segment_size": segment,
            "local_buffer_size": 16 << 20, "master_server_addr": master}
assert store.setup(settings | ({"segment_path": path} if path else {})) == 0
if segment:
    config = ReplicateConfig()
    config.preferred_segment = store.get_hostname()
    assert store.put("own", bytes(100_000), config) == 0
seen = [store.get_buffer("k")]
if os.fork() == 0:
    print(os.getpid(), flush=True)
    time.sleep(60)
    os._exit(0)
sys.stdin.readline()
os.kill(os.getpid(), signal.SIGKILL)
"""


@contextmanager
def orphan(cluster: Cluster, segment_bytes: int = 0, path: str = "") -> Iterator[None]:
    """Inside the `with`, the child of a killed process that had a store is alive."""
    arguments = [cluster.master_address, str(segment_bytes), path]
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        try:
            parent.stdin.close()
            assert parent.wait(20) == -signal.SIGKILL
            yield
            os.kill(child, 0)
        finally:
            os.kill(child, signal.SIGKILL)


@pytest.fixture
def pool() -> Iterator[Cluster]:
    """A pool for one test, which kills nodes."""
    with Cluster("--default_kv_lease_ttl=300") as cluster:
        cluster.start_node(64 * MIB)
        yield cluster


def test_a_child_of_a_killed_process_does_not_keep_its_segment_in_use(pool: Cluster) -> None:
    path = Path("/dev/shm") / f"mooncake-test-{uuid.uuid4().hex}"
    try:
        with orphan(pool, 16 * MIB, str(path)):
            store = MooncakeDistributedStore()
            settings = {"local_hostname": "localhost", "metadata_server": "P2PHANDSHAKE", "local_buffer_size": MIB}
            sizes = {"global_segment_size": 16 * MIB, "master_server_addr": pool.master_address}
            assert store.setup({**settings, **sizes, "segment_path": str(path)}) == 0, "nobody else has it"
            assert store.get("own") == bytes(100_000)
            store.close()
    finally:
        path.unlink(missing_ok=True)


def test_a_child_of_a_killed_process_does_not_keep_what_that_looked_at(pool: Cluster) -> None:
    store = pool.store()
    value = content("k", 4 * MIB)
    assert store.put("k", value) == 0
    with orphan(pool):
        assert store.remove("k", True) == 0
        # The objects fill nearly the whole segment, so they reuse the range of the removed object.
        assert [store.put(f"other {at}", value) for at in range(15)] == [0] * 15


def test_a_child_of_a_killed_process_does_not_keep_it_in_sight(pool: Cluster) -> None:
    store = pool.store()
    with orphan(pool, 16 * MIB):
        # The master notices the lost connection long before the node's silence would count.
        wait_until(lambda: store.is_exist("own") == 0, 3, "the node is missed")
