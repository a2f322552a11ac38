"""Fixtures. The pool of a module is shared by its tests; each test starts with it empty."""

from collections.abc import Iterator

import pytest
from cluster import MIB, Cluster, Memory
from mooncake.store import MooncakeDistributedStore


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A master with a lease of 300 ms and two nodes of 64 MiB."""
    with Cluster("--default_kv_lease_ttl=300") as cluster:
        for _ in range(2):
            cluster.start_node(64 * MIB)
        yield cluster


@pytest.fixture(scope="module")
def shared_store(cluster: Cluster) -> MooncakeDistributedStore:
    return cluster.store()


@pytest.fixture
def store(shared_store: MooncakeDistributedStore) -> MooncakeDistributedStore:
    """A pure client of an empty pool."""
    assert shared_store.remove_all(force=True) >= 0
    return shared_store


@pytest.fixture
def memory(store: MooncakeDistributedStore) -> Iterator[Memory]:
    """8 MiB of registered memory."""
    memory = Memory(8 * MIB)
    assert store.register_buffer(memory.address, memory.size) == 0
    yield memory
    assert store.unregister_buffer(memory.address) == 0
