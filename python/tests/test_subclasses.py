"""Callers extend the classes: subclasses with their own constructors, and objects that wrap a store."""

import inspect
import weakref
from typing import Any

import pytest
from cluster import MIB, Cluster
from mooncake.async_store import MooncakeDistributedStoreAsync
from mooncake.store import (
    BufferPool,
    EngramStore,
    EngramStoreConfig,
    MooncakeDistributedStore,
    ReplicaStatus,
    ReplicateConfig,
    TaskStatus,
    TaskType,
)


class NamedStore(MooncakeDistributedStore):
    def __init__(self, name: str, *, shouts: bool = False) -> None:
        super().__init__()
        self.name = name.upper() if shouts else name

    def put(self, key: Any, value: Any, config: Any = None) -> int:
        return super().put(f"{self.name}/{key}", value, config)


class Pinned(ReplicateConfig):
    def __init__(self, replicas: int) -> None:
        super().__init__()
        self.replica_num = replicas
        self.with_hard_pin = True
        self.label = "pinned"


class Around:
    """An object that wraps a store, and returns it from the method that a store has for that."""

    def __init__(self, store: MooncakeDistributedStore) -> None:
        self.store = store

    def _get_pyclient_capsule(self) -> object:
        return self.store._get_pyclient_capsule()


def test_a_store_with_a_constructor_and_a_method_of_its_own(cluster: Cluster) -> None:
    store = NamedStore("mine", shouts=True)
    assert cluster.setup(store) == 0
    assert (store.put("k", b"value"), store.get("MINE/k"), store.remove("MINE/k", force=True)) == (0, b"value", 0)
    assert store.close() == 0


def test_a_config_with_a_constructor_of_its_own(store: MooncakeDistributedStore) -> None:
    config = Pinned(1)
    assert (config.replica_num, config.with_hard_pin, config.label) == (1, True, "pinned")
    assert weakref.ref(config)() is config
    assert store.put("k", b"value", config) == 0
    assert store.remove("k", force=True) == 0


@pytest.mark.parametrize("kind", [MooncakeDistributedStore, ReplicateConfig, type("Plain", (ReplicateConfig,), {})])
def test_arguments_that_nobody_takes_are_refused(kind: type) -> None:
    for arguments, keywords in [((1,), {}), ((), {"replica_num": 2})]:
        with pytest.raises(TypeError):
            kind(*arguments, **keywords)


@pytest.mark.parametrize("kind", [MooncakeDistributedStore, ReplicateConfig])
def test_constructors_show_that_they_take_nothing(kind: type) -> None:
    assert str(inspect.signature(kind)) == "()"


def test_the_store_for_asyncio_takes_its_workers_either_way() -> None:
    assert [store._max_workers for store in (MooncakeDistributedStoreAsync(3), MooncakeDistributedStoreAsync())] == [
        3,
        None,
    ]


def test_a_pool_takes_an_object_around_a_store(cluster: Cluster) -> None:
    pool = BufferPool(Around(cluster.store(buffer_bytes=MIB)))  # type: ignore[arg-type]
    with pool.acquire(1000) as lease:
        assert lease.size == 1000
    pool.close()


def test_tables_take_an_object_around_a_store(cluster: Cluster) -> None:
    numpy: Any = pytest.importorskip("numpy")
    around = Around(cluster.store())
    config = EngramStoreConfig()
    config.table_vocab_sizes, config.embedding_dim = [3], 2
    tables = EngramStore(7, config, around)
    rows = numpy.arange(6, dtype=numpy.float32).reshape(3, 2)
    tables.populate([rows])
    assert tables.lookup([[[2]]]).tolist() == [[[[4.0, 5.0]]]]
    assert tables.remove_from_store(force=True) == 1


def test_members_of_different_enumerations_are_not_equal() -> None:
    assert ReplicaStatus.PROCESSING.value == TaskStatus.FAILED.value == 2
    assert ReplicaStatus.PROCESSING != TaskStatus.FAILED
    assert TaskType.REPLICA_COPY not in list(TaskStatus)
    assert {TaskStatus.FAILED: "a", ReplicaStatus.PROCESSING: "b"}[TaskStatus.FAILED] == "a"
    assert (TaskStatus.FAILED == 2, TaskStatus.FAILED == 1, TaskStatus.FAILED != 2) == (True, False, False)
    assert {2: "two"}[TaskStatus.FAILED] == "two"
