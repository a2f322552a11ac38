"""BufferPool: what it lends, when it blocks, and what it refuses."""

import gc
import threading

import pytest
from cluster import MIB, Cluster, content
from mooncake import BufferPool as FromPackage
from mooncake.store import (
    BufferLease,
    BufferPool,
    MooncakeDistributedStore,
    MooncakeHostMemAllocator,
    RegisteredBufferPool,
)

Store = MooncakeDistributedStore


@pytest.fixture
def small(cluster: Cluster, store: Store) -> Store:
    """A store with a local buffer of 1 MiB."""
    return cluster.store(buffer_bytes=MIB)


def test_a_lease_is_memory_of_the_store(small: Store) -> None:
    with BufferPool(small).acquire(5000) as lease:
        lease.buffer[:] = content("k", 5000)
        assert small.put_from("k", lease.ptr, lease.size) == 0
        lease.buffer[:] = bytes(5000)
        assert small.get_into("k", lease.ptr, lease.size) == 5000
        assert bytes(lease.buffer) == content("k", 5000)
    with pytest.raises(RuntimeError, match="closed"):
        _ = lease.ptr


def test_what_does_not_fit_the_local_buffer_comes_from_the_system(small: Store) -> None:
    pool = BufferPool(small)
    first, second = pool.acquire(MIB), pool.acquire(MIB, block=False)
    second.buffer[:] = content("k", MIB)
    assert small.put_from("k", second.ptr, MIB) == 0
    assert small.get("k") == content("k", MIB)
    with pytest.raises(RuntimeError, match="exhausted"):
        pool.acquire(1, block=False)
    first.release()
    second.release()
    again = [pool.acquire(MIB // 2) for _ in range(4)]
    assert len({lease.ptr for lease in again}) == 4
    for lease in again:
        lease.release()
    pool.close()


def test_a_view_keeps_its_lease(small: Store) -> None:
    pool = BufferPool(small, max_regions=1)
    view = pool.acquire(64).buffer[8:16]
    gc.collect()
    with pytest.raises(RuntimeError, match="exhausted"):
        pool.acquire(1, block=False)
    view[:] = b"12345678"
    del view
    gc.collect()
    lease = pool.acquire(64, block=False)
    view = lease.buffer
    with pytest.raises(RuntimeError, match="exported views"):
        lease.release()
    del view
    lease.release()
    lease.release()
    pool.close()


def test_a_lease_outlives_the_store(cluster: Cluster) -> None:
    store = cluster.store(buffer_bytes=MIB)
    pool = BufferPool(store)
    leases = [pool.acquire(MIB), pool.acquire(MIB)]
    views = [lease.buffer for lease in leases]
    assert store.close() == 0
    for view in views:
        view[:] = content("late", MIB)
    assert [bytes(view) for view in views] == [content("late", MIB)] * 2
    # After a new setup the store has another buffer. Returned leases of the old one do not affect it.
    assert cluster.setup(store, buffer_bytes=MIB) == 0
    mine = store.alloc_from_mem_pool(MIB)
    assert mine not in [0, *(lease.ptr for lease in leases)]
    del view, views
    for lease in leases:
        lease.release()
    assert store.alloc_from_mem_pool(1) == 0
    pool.close()


def test_an_exception_is_not_hidden_by_views_that_it_holds(small: Store) -> None:
    pool = BufferPool(small)
    views = []

    def fail() -> None:
        with pool.acquire(8) as lease:
            views.append(lease.buffer)
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine") as raised:
        fail()
    with pytest.raises(RuntimeError, match="active leases"):
        pool.close()
    del raised, views[:]
    gc.collect()
    pool.close()


def test_endless_waits_are_possible(small: Store) -> None:
    pool = BufferPool(small, max_regions=1, default_timeout=float("inf"))
    for limit in (None, 1e300):
        lease = pool.acquire(1)
        threading.Timer(0.05, lease.release).start()
        pool.acquire(1, timeout=limit).release()
    pool.close()


def test_waiting(small: Store) -> None:
    pool = BufferPool(small, max_regions=1, default_timeout=0.05)
    lease = pool.acquire(1)
    with pytest.raises(RuntimeError, match="timed out"):
        pool.acquire(1)
    threading.Timer(0.1, lease.release).start()
    pool.acquire(1, timeout=20).release()
    held = pool.acquire(1)
    with pytest.raises(RuntimeError, match="active leases"):
        pool.close()
    held.release()
    pool.close()
    pool.close()
    with pytest.raises(RuntimeError, match="closed"):
        pool.acquire(1)


def test_many_threads(small: Store) -> None:
    pool = BufferPool(small, max_bytes=2 * MIB)
    faults: list[str] = []

    def work(number: int) -> None:
        for i in range(200):
            with pool.acquire(1 + (number * 7919 + i * 104_729) % 300_000) as lease:
                mark = bytes([number]) * lease.size
                lease.buffer[:] = mark
                if bytes(lease.buffer) != mark:
                    faults.append(f"{number} {i}")

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    pool.close()


def test_what_is_refused(small: Store, cluster: Cluster) -> None:
    for wrong in (12345, 4, 0):
        with pytest.raises(RuntimeError, match="alignment"):
            BufferPool(small, alignment=wrong)
    with pytest.raises(RuntimeError, match="min_size_class"):
        BufferPool(small, min_size_class=0)
    with pytest.raises(RuntimeError, match="local buffer"):
        BufferPool(cluster.store(buffer_bytes=0))
    with pytest.raises(RuntimeError, match="local buffer"):
        BufferPool(MooncakeDistributedStore())
    with pytest.raises(RuntimeError, match="default_timeout"):
        BufferPool(small, default_timeout=-1)
    for wrong_store in (None, object(), "store"):
        with pytest.raises(TypeError, match="'store' must be a MooncakeDistributedStore"):
            BufferPool(wrong_store)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="max_bytes"):
        BufferPool(small, max_bytes="much")  # type: ignore[arg-type]
    pool = BufferPool(small)
    with pytest.raises(RuntimeError, match="capacity"):
        pool.acquire((1 << 64) - 1)
    for size in (-1, 1 << 64, 1.5, None):
        with pytest.raises(TypeError, match="size"):
            pool.acquire(size)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        BufferLease()
    assert (FromPackage, RegisteredBufferPool) == (BufferPool, BufferPool)


def test_host_memory_and_the_local_buffer(small: Store) -> None:
    allocator = MooncakeHostMemAllocator()
    assert (allocator.alloc(0), allocator.alloc(1 << 62), allocator.free(4096)) == (0, 0, -1)
    address = allocator.alloc(MIB)
    assert address % 4096 == 0
    assert small.register_buffer(address, MIB) == 0
    assert small.unregister_buffer(address) == 0
    assert (allocator.free(address), allocator.free(address)) == (0, -1)
    address = small.alloc_from_mem_pool(1 << 19)
    assert address != 0
    assert small.alloc_from_mem_pool(MIB) == 0
    assert small.put("k", content("k", 1000)) == 0
    assert small.get_into("k", address, 1000) == 1000
    assert MooncakeDistributedStore().alloc_from_mem_pool(10) == 0
