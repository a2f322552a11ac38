"""A process that is forked from one with an open store."""

from __future__ import annotations

import subprocess
import sys
import textwrap

from cluster import Cluster

SCRIPT = """
import os, sys
from mooncake.store import MooncakeDistributedStore

def opened(segment):
    store = MooncakeDistributedStore()
    assert store.setup("localhost", "P2PHANDSHAKE", segment, 1 << 20, "tcp", "", sys.argv[1]) == 0
    return store

store = opened(16 << 20)
assert store.put("key", b"value" * 1000) == 0
child = os.fork()
if child == 0:
    assert store.is_exist("key") < 0, "the parent's sockets are not the child's"
    assert store.put("other", b"x") < 0
    assert store.get("key") == b""
    assert store.alloc_from_mem_pool(64) == 0, "the parent would hand out the same memory"
    own = opened(0)
    assert own.get("key") == b"value" * 1000, "a store of its own works"
    own.close()
    del store, own
    sys.exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "the child failed"
assert store.get("key") == b"value" * 1000
reader = opened(0)
assert reader.get("key") == b"value" * 1000, "the parent still serves its segment"
assert store.is_exist("other") == 0
reader.close()
store.close()
"""


def test_a_forked_child_cannot_disturb_its_parent(cluster: Cluster) -> None:
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT), cluster.master_address]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
