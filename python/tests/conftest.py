"""Fixtures. The pool of a module is shared by its tests; each test starts with it empty."""

import os
import signal
from collections.abc import Iterator

import pytest
from cluster import MIB, Cluster, Memory
from gpu import IS_REAL, DeviceMemory, reset
from mooncake.store import MooncakeDistributedStore

# What the tests start is told to end by these, also where the suite itself runs in the background or under `nohup`,
# which has its children ignore them.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Needs torch and a GPU; `make gpu` runs it.
collect_ignore = [] if IS_REAL else ["test_torch_on_gpu.py"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A master with a lease of 300 ms and two nodes of 64 MiB."""
    with Cluster("--default_kv_lease_ttl=300") as cluster:
        for _ in range(2):
            cluster.start_node(64 * MIB)
        yield cluster


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs the tests of modules that name `POOLS` on each of these, but for tests that need the cluster itself."""
    pools = getattr(metafunc.module, "POOLS", [])
    if pools and "shared_store" in metafunc.fixturenames:
        pools = ["master"] if "cluster" in metafunc.fixturenames else pools
        metafunc.parametrize("shared_store", pools, indirect=True, scope="module")


@pytest.fixture(scope="module")
def shared_store(request: pytest.FixtureRequest) -> Iterator[MooncakeDistributedStore]:
    """A store of the module's pool, or of a pool without a master."""
    if getattr(request, "param", "master") == "local":
        store = MooncakeDistributedStore()
        assert store.setup({"master_server_addr": "local://", "global_segment_size": 128 * MIB}) == 0
        yield store
        store.close()
    else:
        yield request.getfixturevalue("cluster").store()


@pytest.fixture
def store(shared_store: MooncakeDistributedStore) -> MooncakeDistributedStore:
    """A pure client of an empty pool."""
    assert shared_store.remove_all(force=True) >= 0
    return shared_store


@pytest.fixture(params=[Memory, DeviceMemory], ids=["host", "gpu"])
def memory(store: MooncakeDistributedStore, request: pytest.FixtureRequest) -> Iterator[Memory | DeviceMemory]:
    """8 MiB of registered memory, of the host and of a GPU."""
    memory: Memory | DeviceMemory = request.param(8 * MIB)
    assert store.register_buffer(memory.address, memory.size) == 0
    yield memory
    assert store.unregister_buffer(memory.address) == 0


@pytest.fixture
def host_memory(store: MooncakeDistributedStore) -> Iterator[Memory]:
    """The same, of the host alone."""
    memory = Memory(8 * MIB)
    assert store.register_buffer(memory.address, memory.size) == 0
    yield memory
    assert store.unregister_buffer(memory.address) == 0


@pytest.fixture(scope="module")
def own_store(cluster: Cluster) -> MooncakeDistributedStore:
    """A store of which the segment is its process's own."""
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
    """A store of each path, of an empty pool."""
    name = {"own": "own_store", "host": "shared_store", "tcp": "tcp_store"}[request.param]
    any_store: MooncakeDistributedStore = request.getfixturevalue(name)
    return any_store


@pytest.fixture
def gpu(any_store: MooncakeDistributedStore) -> Iterator[DeviceMemory]:
    """24 MiB of a GPU, registered with the store."""
    memory = DeviceMemory(24 * MIB)
    assert any_store.register_buffer(memory.address, memory.size) == 0
    yield memory
    reset()
    assert any_store.unregister_buffer(memory.address) == 0
