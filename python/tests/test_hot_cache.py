"""Cached copies of objects on other hosts. All stores run on one host, and use only TCP as if they did not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from cluster import MIB, Cluster, content, wait_until
from mooncake.store import MooncakeDistributedStore

LENGTH = 300_000
READER = """
import os, sys
os.environ["MOONCAKE_TRANSPORTS"] = "tcp"
from mooncake.store import MooncakeDistributedStore
store = MooncakeDistributedStore()
config = {"local_hostname": "localhost", "metadata_server": "P2PHANDSHAKE", "global_segment_size": 0,
          "local_buffer_size": 1 << 24, "master_server_addr": sys.argv[1], "local_hot_cache_size": "64mb"}
assert store.setup(config) == 0
print("ready", flush=True)
while True:
    for key in sys.argv[2:]:
        store.get(key)
"""


@pytest.fixture
def reader(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[MooncakeDistributedStore]:
    monkeypatch.setenv("MOONCAKE_TRANSPORTS", "tcp")
    reader = MooncakeDistributedStore()
    config = {
        "local_hostname": "localhost",
        "metadata_server": "P2PHANDSHAKE",
        "global_segment_size": 0,
        "local_buffer_size": 16 * MIB,
        "master_server_addr": cluster.master_address,
        "local_hot_cache_size": "64mb",
    }
    assert reader.setup(config) == 0
    yield reader
    reader.close()


def test_what_is_read_often_is_right_whatever_becomes_of_it(
    store: MooncakeDistributedStore, reader: MooncakeDistributedStore
) -> None:
    keys = [f"hot {i}" for i in range(5)]
    for turn in range(6):
        values = [content(f"{key} {turn}", LENGTH + turn) for key in keys]
        assert [store.upsert(key, value) for key, value in zip(keys, values, strict=True)] == [0] * 5
        for _ in range(20):
            assert reader.get_batch(keys) == values
            assert reader.get(keys[turn % 5]) == values[turn % 5]
    assert store.batch_remove(keys, force=True) == [0] * 5
    assert reader.get_batch(keys) == [b""] * 5


def test_processes_that_are_killed_do_no_harm(
    cluster: Cluster, store: MooncakeDistributedStore, reader: MooncakeDistributedStore
) -> None:
    """Each process is killed while it fills the cache or reads from it."""
    keys = [f"shared {i}" for i in range(40)]
    values = [content(key, LENGTH) for key in keys]
    assert store.put_batch(keys, values) == 0
    for _ in range(5):
        command = [sys.executable, "-c", READER, cluster.master_address, *keys]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ)) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == "ready\n"
            for _ in range(10):
                assert reader.get_batch(keys) == values
            other.send_signal(signal.SIGKILL)
        assert reader.get_batch(keys) == values
    wait_until(lambda: reader.get_batch(keys) == values, 10, "it goes on")
