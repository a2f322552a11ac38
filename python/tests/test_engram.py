"""Embedding tables: stored by heads, and read by rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from mooncake._values.engram import EngramStore, EngramStoreConfig
from mooncake.store import MooncakeDistributedStore

np: Any = pytest.importorskip("numpy")
Store = MooncakeDistributedStore
SIZES, DIM = [5, 7, 3], 4


def config(sizes: Sequence[int] = SIZES, dim: int = DIM) -> EngramStoreConfig:
    made = EngramStoreConfig()
    made.table_vocab_sizes, made.embedding_dim = list(sizes), dim
    return made


def tables() -> list[Any]:
    return [
        1000.0 * head + np.arange(rows * DIM, dtype=np.float32).reshape(rows, DIM) for head, rows in enumerate(SIZES)
    ]


def expected(ids: Any) -> Any:
    picked = [table[ids[..., head]] for head, table in enumerate(tables())]
    return np.stack(picked, axis=2)


@pytest.fixture
def engram(store: Store) -> EngramStore:
    return EngramStore(9, config(), store)


def test_what_a_layer_says_of_itself() -> None:
    made = EngramStore(layer_id=3, config=config())
    assert made.get_store_keys() == ["engram:l3:h0", "engram:l3:h1", "engram:l3:h2"]
    assert (made.get_table_vocab_sizes(), made.get_num_heads(), made.get_embedding_dim()) == (SIZES, 3, DIM)
    default = EngramStoreConfig()
    assert (default.table_vocab_sizes, default.embedding_dim) == ([1024], 64)


def test_rows_are_read(store: Store, engram: EngramStore) -> None:
    engram.populate(tables())
    assert [store.get_size(key) for key in engram.get_store_keys()] == [rows * DIM * 4 for rows in SIZES]
    ids = np.random.default_rng(7).integers(0, 3, (4, 6, 3))
    found = engram.lookup(ids)
    assert (found.dtype, found.shape) == (np.float32, (4, 6, 3, DIM))
    assert np.array_equal(found, expected(ids))
    for same in (ids.tolist(), ids.astype(np.int32), ids.astype(np.float64), np.asfortranarray(ids)):
        assert np.array_equal(engram.lookup(same), found)
    last = np.array([[[4, 6, 2]]])
    assert np.array_equal(engram.lookup(last), expected(last))


def test_tables_in_any_memory_and_of_any_numbers(engram: EngramStore) -> None:
    first, second, third = tables()
    engram.populate([np.asfortranarray(first), second.astype(np.float64)[:], np.repeat(third, 2, axis=0)[::2]])
    ids = np.array([[[4, 6, 2], [0, 0, 0]]])
    assert np.array_equal(engram.lookup(ids), expected(ids))


def test_one_array_for_several_heads_and_memory_that_is_registered(store: Store) -> None:
    table = np.arange(20, dtype=np.float32).reshape(5, 4)
    assert store.register_buffer(table.ctypes.data, table.nbytes) == 0
    made = EngramStore(1, config([5, 5]), store)
    made.populate([table, table])
    assert np.array_equal(made.lookup([[[1, 4]]])[0, 0], table[[1, 4]])
    assert store.unregister_buffer(table.ctypes.data) == 0, "it is still registered"


def test_a_layer_is_stored_once_and_removed(store: Store, engram: EngramStore) -> None:
    engram.populate(tables())
    with pytest.raises(RuntimeError, match="populate failed"):
        engram.populate(tables())
    assert np.array_equal(engram.lookup([[[0, 0, 0]]]), expected(np.zeros((1, 1, 3), dtype=int)))
    assert (engram.remove_from_store(force=True), engram.remove_from_store()) == (3, 0)
    assert store.batch_is_exist(engram.get_store_keys()) == [0, 0, 0]
    with pytest.raises(RuntimeError, match="lookup failed"):
        engram.lookup([[[0, 0, 0]]])


def test_a_table_that_is_leased_stays(store: Store, engram: EngramStore) -> None:
    engram.populate(tables())
    assert store.get("engram:l9:h1") != b""
    with pytest.raises(RuntimeError, match=r"remove_from_store failed, rc=-706"):
        engram.remove_from_store()
    assert engram.remove_from_store(force=True) >= 1


class Failing:
    """A store that fails to store the second table."""

    def __init__(self) -> None:
        self.removed: list[tuple[str, bool]] = []
        self.registered: list[int] = []

    def batch_is_exist(self, keys: Sequence[str]) -> list[int]:
        return [0] * len(keys)

    def batch_put_from(self, keys: Sequence[str], pointers: Sequence[int], sizes: Sequence[int]) -> list[int]:
        return [0, -200, 0]

    def get_into_ranges(self, *arguments: Any) -> list[list[list[int]]]:
        return [[[16], [15], [16]]]

    def register_buffer(self, buffer_ptr: int, size: int) -> int:
        self.registered.append(buffer_ptr)
        return 0

    def unregister_buffer(self, buffer_ptr: int) -> int:
        self.registered.remove(buffer_ptr)
        return 0

    def remove(self, key: str, force: bool = False) -> int:
        self.removed.append((key, force))
        return 0


def test_all_tables_or_none() -> None:
    store = Failing()
    made = EngramStore(2, config(), store)
    with pytest.raises(RuntimeError, match=r"\[0, -200, 0\]"):
        made.populate(tables())
    assert store.removed == [("engram:l2:h0", True), ("engram:l2:h2", True)]
    assert store.registered == []


def test_a_row_that_is_short_fails_the_lookup() -> None:
    store = Failing()
    with pytest.raises(RuntimeError, match="lookup failed"):
        EngramStore(2, config(), store).lookup([[[0, 0, 0]]])
    assert store.registered == []


@pytest.mark.parametrize(
    "ids",
    [
        [],
        [[]],
        [[[]]],
        [[[0, 0]]],
        [[[0, 0, 0]], []],
        [[[0, 0, 0], [0, 0]]],
        [[[5, 0, 0]]],
        [[[0, -1, 0]]],
        [[["a", 0, 0]]],
        [[[1.5, 0, 0]]],
        [[[1 << 70, 0, 0]]],
        np.zeros((1, 3), dtype=int),
        np.zeros((0, 1, 3), dtype=int),
        np.zeros((1, 1, 2), dtype=int),
        np.full((1, 1, 3), 3),
        np.full((1, 1, 3), 0.5),
        np.full((1, 1, 3), np.nan),
        np.full((1, 1, 3), "a"),
        np.full((1, 1, 3), -1),
        np.full((1, 1, 3), (1 << 64) - 1, dtype=np.uint64),
    ],
)
def test_rows_that_are_none(engram: EngramStore, ids: Any) -> None:
    engram.populate(tables())
    with pytest.raises(RuntimeError):
        engram.lookup(ids)


def test_what_is_no_list_of_rows(engram: EngramStore) -> None:
    with pytest.raises(TypeError):
        engram.lookup(5)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda given: given[:2], "must match num_heads"),
        (lambda given: [*given[:2], [[1.0]]], "must be NumPy arrays"),
        (lambda given: [*given[:2], np.full((3, 4), "a")], "must be float32 arrays"),
        (lambda given: [*given[:2], np.zeros(12)], "must be 2D"),
        (lambda given: [*given[:2], np.zeros((3, 5))], "shape does not match"),
        (lambda given: [*given[:2], np.zeros((2, 4))], "shape does not match"),
    ],
)
def test_tables_that_do_not_fit(store: Store, engram: EngramStore, change: Any, text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        engram.populate(change(tables()))
    assert store.batch_is_exist(engram.get_store_keys()) == [0, 0, 0]


@pytest.mark.parametrize(
    ("sizes", "dim", "text"),
    [
        ([], 4, "must not be empty"),
        ([3, 0], 4, "only positive"),
        ([-1], 4, "only positive"),
        ([3], 0, "must be positive"),
        ([1 << 60], 1 << 30, "fit into memory"),
    ],
)
def test_configurations_that_make_no_tables(sizes: list[int], dim: int, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        EngramStore(1, config(sizes, dim))


def test_arguments_of_a_wrong_type() -> None:
    with pytest.raises(TypeError, match="'config'"):
        EngramStore(1, None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="'layer_id'"):
        EngramStore("1", config())  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="store parameter"):
        EngramStore(1, config(), object())
    with pytest.raises(TypeError, match="'embedding_buffers'"):
        EngramStore(1, config()).populate(tuple(tables()))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="'table_vocab_sizes'"):
        EngramStoreConfig().table_vocab_sizes = ["3"]  # type: ignore[list-item]
    with pytest.raises(TypeError, match="'embedding_dim'"):
        EngramStoreConfig().embedding_dim = 1.5  # type: ignore[assignment]


def test_without_a_store_only_descriptions_work() -> None:
    made = EngramStore(1, config())
    for call in (lambda: made.populate(tables()), lambda: made.lookup([[[0, 0, 0]]]), made.remove_from_store):
        with pytest.raises(RuntimeError):
            call()
