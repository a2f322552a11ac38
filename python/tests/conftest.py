"""Fixtures. The tests of a module share a pool, which is empty when a test starts."""

import os
import signal
from collections.abc import Iterator
from unittest.mock import patch

import pytest
from cluster import FABRIC, MIB, Cluster, Memory
from gpu import IS_REAL, DeviceMemory, reset
from mooncake.store import MooncakeDistributedStore

# Processes that the tests start must react to these signals. A shell ignores them for what it runs in the background
# or under `nohup`, and child processes inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# These tests need torch and a GPU; `make gpu` runs them.
collect_ignore = [] if IS_REAL else ["test_torch_on_gpu.py"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A master with a lease of 300 ms and two nodes of 64 MiB."""
    with Cluster("--default_kv_lease_ttl=300") as cluster:
        for _ in range(2):
            cluster.start_node(64 * MIB)
        yield cluster


@pytest.fixture(scope="module")
def one_sided_cluster() -> Iterator[Cluster]:
    """As `cluster`, of nodes whose memory is read and written one-sided."""
    with Cluster("--default_kv_lease_ttl=300") as cluster:
        with patch.dict(os.environ, FABRIC):
            for _ in range(2):
                cluster.start_node(64 * MIB)
        yield cluster


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs the tests of modules that name `POOLS` on each of these pools, except tests that use the cluster itself."""
    pools = getattr(metafunc.module, "POOLS", [])
    if pools and "shared_store" in metafunc.fixturenames:
        pools = ["master"] if "cluster" in metafunc.fixturenames else pools
        metafunc.parametrize("shared_store", pools, indirect=True, scope="module")


@pytest.fixture(scope="module")
def shared_store(request: pytest.FixtureRequest) -> Iterator[MooncakeDistributedStore]:
    """A store of the module's pool, of a pool without a master, or of one whose bytes move one-sided."""
    if getattr(request, "param", "master") == "local":
        store = MooncakeDistributedStore()
        assert store.setup({"master_server_addr": "local://", "global_segment_size": 128 * MIB}) == 0
        yield store
        store.close()
    elif getattr(request, "param", "master") == "fabric":
        cluster = request.getfixturevalue("one_sided_cluster")
        with patch.dict(os.environ, FABRIC):
            store = cluster.store()
        yield store
    else:
        yield request.getfixturevalue("cluster").store()


@pytest.fixture
def store(shared_store: MooncakeDistributedStore) -> MooncakeDistributedStore:
    """A store that lends no memory, of an empty pool."""
    assert shared_store.remove_all(force=True) >= 0
    return shared_store


@pytest.fixture(params=[Memory, DeviceMemory], ids=["host", "gpu"])
def memory(store: MooncakeDistributedStore, request: pytest.FixtureRequest) -> Iterator[Memory | DeviceMemory]:
    """8 MiB of registered memory, first of the host and then of a GPU."""
    memory: Memory | DeviceMemory = request.param(8 * MIB)
    assert store.register_buffer(memory.address, memory.size) == 0
    yield memory
    assert store.unregister_buffer(memory.address) == 0


@pytest.fixture
def host_memory(store: MooncakeDistributedStore) -> Iterator[Memory]:
    """8 MiB of registered memory of the host."""
    memory = Memory(8 * MIB)
    assert store.register_buffer(memory.address, memory.size) == 0
    yield memory
    assert store.unregister_buffer(memory.address) == 0


@pytest.fixture(scope="module")
def own_store(cluster: Cluster) -> MooncakeDistributedStore:
    """A store whose own process lends the segment."""
    return cluster.store(64 * MIB)


@pytest.fixture(scope="module")
def tcp_store(cluster: Cluster) -> MooncakeDistributedStore:
    """A store that reaches all segments by TCP."""
    os.environ["MOONCAKE_TRANSPORTS"] = "tcp"
    try:
        return cluster.store()
    finally:
        del os.environ["MOONCAKE_TRANSPORTS"]


@pytest.fixture(params=["own", "host", "tcp"])
def any_store(store: MooncakeDistributedStore, request: pytest.FixtureRequest) -> MooncakeDistributedStore:
    """A store for each way to the bytes: own process, same host, TCP. The pool is empty."""
    name = {"own": "own_store", "host": "shared_store", "tcp": "tcp_store"}[request.param]
    any_store: MooncakeDistributedStore = request.getfixturevalue(name)
    return any_store


@pytest.fixture
def gpu(any_store: MooncakeDistributedStore) -> Iterator[DeviceMemory]:
    """24 MiB of registered GPU memory."""
    memory = DeviceMemory(24 * MIB)
    assert any_store.register_buffer(memory.address, memory.size) == 0
    yield memory
    reset()
    assert any_store.unregister_buffer(memory.address) == 0
