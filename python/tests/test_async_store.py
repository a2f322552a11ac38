"""The store for asyncio: a twin for every method, cancellation, and the end of its threads."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Iterator

import pytest
from cluster import MIB, Cluster, content
from mooncake.async_store import MooncakeDistributedStoreAsync
from mooncake.store import MooncakeDistributedStore

WAIT_SECONDS = 30.0


class Slow(MooncakeDistributedStoreAsync):
    """A store with another method, which waits for `may_end` and records its ends."""

    def __init__(self, max_workers: int | None = None) -> None:
        super().__init__(max_workers)
        self.begun, self.may_end = threading.Event(), threading.Event()
        self.ended: list[str] = []

    def slow(self, name: str) -> str:
        self.begun.set()
        assert self.may_end.wait(WAIT_SECONDS)
        self.ended.append(name)
        return name

    def broken(self) -> None:
        raise KeyError("broken")


@pytest.fixture
def pool(cluster: Cluster) -> Iterator[MooncakeDistributedStoreAsync]:
    store = MooncakeDistributedStoreAsync()
    assert cluster.setup(store) == 0
    assert store.remove_all(force=True) >= 0
    yield store
    assert store.close() == 0


async def until(event: threading.Event) -> None:
    await asyncio.wait_for(asyncio.to_thread(event.wait, WAIT_SECONDS), WAIT_SECONDS)


def test_every_public_method_has_a_twin() -> None:
    store = MooncakeDistributedStoreAsync()
    public = [
        name
        for name in dir(MooncakeDistributedStore)
        if not name.startswith("_") and callable(getattr(MooncakeDistributedStore, name))
    ]
    assert {"put", "get", "batch_is_exist", "remove_all", "close"} <= set(public)
    assert [name for name in public if not inspect.iscoroutinefunction(getattr(store, f"async_{name}"))] == []
    assert {f"async_{name}" for name in public} <= set(dir(store))


def test_objects_are_put_and_got(pool: MooncakeDistributedStoreAsync) -> None:
    async def run() -> None:
        keys = [f"object-{n}" for n in range(50)]
        codes = await asyncio.gather(*(pool.async_put(key, content(key, 10_000)) for key in keys))
        assert codes == [0] * len(keys)
        values = await asyncio.gather(*(pool.async_get(key=key) for key in keys))
        assert values == [content(key, 10_000) for key in keys]
        assert await pool.async_batch_is_exist([*keys[:2], "missing"]) == [1, 1, 0]
        assert await pool.async_remove_all(force=True) == len(keys)
        assert await pool.async_get(keys[0]) == b""

    asyncio.run(run())


def test_a_method_that_is_added_later_has_a_twin_and_its_errors_pass() -> None:
    async def run() -> None:
        store = Slow()
        store.may_end.set()
        assert await store.async_slow(name="a") == "a"
        with pytest.raises(KeyError, match="broken"):
            await store.async_broken()
        with pytest.raises(TypeError):
            await store.async_put(1)
        assert await store.async_close() == 0

    asyncio.run(run())


@pytest.mark.parametrize(
    "name", ["asynchronous", "async_nothing", "async__guard", "async_async_get", "async_", "nothing"]
)
def test_what_is_no_method_has_no_twin(name: str) -> None:
    with pytest.raises(AttributeError, match=f"'MooncakeDistributedStoreAsync' object has no attribute '{name}'"):
        getattr(MooncakeDistributedStoreAsync(), name)


def test_a_cancelled_call_that_runs_is_waited_for() -> None:
    async def run() -> None:
        store = Slow()
        task = asyncio.create_task(store.async_slow("a"))
        await until(store.begun)
        for _ in range(2):
            task.cancel()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert not task.done()
        store.may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert store.ended == ["a"]

    asyncio.run(run())


def test_a_cancelled_call_that_waits_for_a_thread_does_nothing() -> None:
    async def run() -> None:
        store = Slow(max_workers=1)
        first, second = (asyncio.create_task(store.async_slow(name)) for name in ("a", "b"))
        await until(store.begun)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        store.may_end.set()
        assert await first == "a"
        assert await store.async_close() == 0
        assert store.ended == ["a"]

    asyncio.run(run())


def test_close_waits_for_calls_that_run_and_gives_up_those_that_wait() -> None:
    async def run() -> None:
        store = Slow(max_workers=1)
        first, second = (asyncio.create_task(store.async_slow(name)) for name in ("a", "b"))
        await until(store.begun)
        closing = asyncio.create_task(store.async_close())
        with pytest.raises(RuntimeError, match="the store was closed before async_slow began"):
            await second
        assert not closing.done()
        store.may_end.set()
        assert (await first, await closing, store.ended) == ("a", 0, ["a"])

    asyncio.run(run())


def test_close_ends_the_threads_and_the_store_may_be_set_up_again(cluster: Cluster) -> None:
    store = MooncakeDistributedStoreAsync()

    async def round_trip(key: str) -> bytes:
        assert await store.async_put(key, content(key, 1000)) == 0
        return bytes(await store.async_get(key))

    for key in ("first", "second"):
        assert cluster.setup(store, buffer_bytes=16 * MIB) == 0
        assert asyncio.run(round_trip(key)) == content(key, 1000)
        assert [t for t in threading.enumerate() if t.name.startswith("mooncake-async")] != []
        assert store.close() == 0
        assert store.close() == 0
        assert [t for t in threading.enumerate() if t.name.startswith("mooncake-async")] == []


def test_the_number_of_threads_must_be_positive() -> None:
    for wrong in (0, -1):
        with pytest.raises(ValueError, match="max_workers must be positive"):
            MooncakeDistributedStoreAsync(max_workers=wrong)
