"""Structured objects and batches in a real pool: they return unchanged, whole and by rows."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
from cluster import Cluster
from mooncake.buffer_pool import BufferPool
from mooncake.store import MooncakeDistributedStore, ReplicateConfig
from structured import chosen, column, np, same

sos: Any = pytest.importorskip("mooncake.structured_object_store")
pytest.importorskip("msgpack")
Store = MooncakeDistributedStore
BIG = 1 << 60
DEEP: list[Any] = []
for _ in range(5000):
    DEEP = [DEEP]
POLICIES = ((1, "auto", "auto"), (4, "parallel", "auto"), (4, "batch", "auto"), (1, "auto", "copy"))
ROWS = (None, slice(0, 4), slice(1, 3), slice(0, 4, 2), slice(3, 9), slice(2, 2), (3, 0, 0), (-1,), ())

COLUMNS: dict[str, tuple[str, Any]] = {
    "text": ("utf8_ragged", column("a", None, "", "ünï 日本 \U0001f600")),
    "bytes": ("bytes_ragged", column(b"ab", None, b"", b"\x00\xff")),
    "integers": ("ndarray", column(1, None, -3, 1 << 62)),
    "floats": ("ndarray", column(0.5, float("nan"), None, -0.25)),
    "flags": ("ndarray", column(True, None, False, True)),
    "number and flag": ("json_ragged", column(True, 1, None, 0.5)),
    "large and half": ("json_ragged", column(BIG + 1, 0.5, None, 1 << 80)),
    "lists": ("typed_ragged", column([1, 2], None, [], [3])),
    "nested lists": ("typed_ragged", column([[1, 2], [3, 4]], [], None, [[5, 6]])),
    "list of large and half": ("msgpack_ragged", column([BIG + 1, 0.5], None, [1], [2.5])),
    "list of flags": ("msgpack_ragged", column([True, 1], None, [], [False])),
    "arrays": ("typed_ragged", column(np.arange(3), None, np.arange(4).reshape(2, 2), np.array(7))),
    "arrays of one shape": ("typed_ragged", column(*(np.arange(6).reshape(2, 3) + i for i in range(4)))),
    "arrays turned": ("typed_ragged", column(*(np.arange(6).reshape(2, 3).T + i for i in range(4)))),
    "empty arrays": ("typed_ragged", column(np.empty((0, 3)), np.empty((2, 0)), None, np.empty(0))),
    "arrays of flags": ("typed_ragged", column(np.array([True]), None, np.array([], bool), np.array([False, True]))),
    "dicts": ("msgpack_ragged", column({"a": [1, {"b": None}]}, None, {}, {"ü": "x", "n": 1.5})),
    "keys of all kinds": ("msgpack_ragged", column({1: "x", b"y": 2}, None, {}, {"a": 1})),
    "mixed": ("msgpack_ragged", column("x", 1, None, [1, "y"])),
    "nothing": ("json_ragged", column(None, None, None, None)),
    "media lists": ("media_list_ragged", column([b"a", b"bb"], None, [], [b"", b"c"])),
    "trees": (
        "structured_recursive",
        column(
            {"blob": b"q", "n": 1, "list": [{"x": np.arange(2)}, None], "a.b[0]": "k"},
            None,
            {"blob": None, "list": []},
            {"n": None, "list": [{"x": None}], "deep": {"a": {}}},
        ),
    ),
    "lists of arrays": ("structured_recursive", column([np.arange(2), np.arange(3)], None, [], [np.arange(1)])),
}
ARRAYS: dict[str, Callable[[], Any]] = {
    "numbers": lambda: np.arange(12, dtype=np.float32).reshape(4, 3),
    "no dimension": lambda: np.array(7, dtype=np.int16),
    "no rows": lambda: np.empty((0, 3)),
    "empty rows": lambda: np.empty((4, 0), dtype=np.int8),
    "turned": lambda: np.arange(12).reshape(3, 4).T,
    "every second": lambda: np.arange(16).reshape(8, 2)[::2],
    "backwards": lambda: np.arange(8)[::-1],
    "big-endian": lambda: np.arange(8, dtype=">u4"),
    "complex": lambda: np.array([1 + 2j, 3]),
    "flags": lambda: np.array([True, False, True]),
    "strings": lambda: np.array(["a", "日本", ""]),
    "times": lambda: np.array(["2020-01-01", "NaT"], dtype="datetime64[ns]"),
    "not numbers": lambda: np.array([np.nan, np.inf, -0.0]),
}


@pytest.fixture
def transfer(store: Store) -> Any:
    """A transfer with small chunks, so that most objects have several."""
    return sos.MooncakeBundleTransfer(store, key_prefix="structured", default_chunk_bytes=16)


def no_keys(store: Store) -> bool:
    return store.remove_all(force=True) == 0


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_comes_back(store: Store, transfer: Any, name: str) -> None:
    codec, values = COLUMNS[name]
    ref = transfer.put_dataproto({"batch": {"i": np.arange(4)}, "non_tensor_batch": {"x": values}})
    assert ref.encoded_non_tensor["x"]["codec"] == codec
    handle = json.loads(json.dumps(sos.export_dataproto_ref(ref)))
    for rows in ROWS:
        got = transfer.get_dataproto(handle, rows=list(rows) if isinstance(rows, tuple) else rows)
        assert same(got["non_tensor_batch"]["x"], chosen(values, rows)), (rows, got)
        assert same(got["batch"]["i"].copy(), chosen(np.arange(4), rows)), rows
    transfer.cleanup_dataproto(handle)
    assert no_keys(store)


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_of_no_rows_comes_back(transfer: Any, name: str) -> None:
    empty = COLUMNS[name][1][:0]
    ref = transfer.put_dataproto({"batch": {}, "non_tensor_batch": {"x": empty}})
    assert same(transfer.get_dataproto(ref)["non_tensor_batch"], {"x": empty})


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize(("inflight", "put_mode", "copy_mode"), POLICIES)
def test_an_array_comes_back(transfer: Any, name: str, inflight: int, put_mode: str, copy_mode: str) -> None:
    value = ARRAYS[name]()
    ref = transfer.put_object({"x": value}, policy=sos.BundleTransferPolicy(inflight, put_mode, copy_mode))
    got = transfer.get_object(ref)["x"]
    assert same(np.array(got), np.ascontiguousarray(value).reshape(value.shape))
    for rows in ROWS if value.ndim else ():
        if isinstance(rows, slice):
            spec = transfer.read_spec(ref).slice_member("x", 0, rows.start, rows.stop, rows.step or 1)
            assert same(np.array(transfer.materialize(spec).objects["x"]), np.array(value[rows], order="C"))


@pytest.mark.parametrize(
    ("make", "saved"),
    [
        (lambda torch: torch.arange(12.0).reshape(4, 3), False),
        (lambda torch: torch.arange(12).reshape(3, 4).T, False),
        (lambda torch: torch.zeros((0, 3), dtype=torch.bfloat16), False),
        (lambda torch: torch.tensor(1.5), False),
        (lambda torch: torch.tensor([True, False]), False),
        (lambda torch: torch.tensor([1 + 2j, 3]), True),
        (lambda torch: torch.arange(3.0, requires_grad=True), False),
    ],
)
@pytest.mark.parametrize("copy_mode", ["auto", "copy"])
def test_a_tensor_comes_back(transfer: Any, make: Any, saved: bool, copy_mode: str) -> None:
    torch = pytest.importorskip("torch")
    tensor = make(torch)
    ref = transfer.put_object({"x": tensor}, policy=sos.BundleTransferPolicy(copy_mode=copy_mode))
    is_saved = ref.manifest["buffers"]["x"].get("format") == "torch_save"
    assert is_saved == (saved or (copy_mode == "copy" and tensor.dim() == 0))
    assert same(transfer.get_object(ref)["x"].detach(), tensor.detach())
    if tensor.dim():
        spec = transfer.read_spec(ref).slice_member("x", 0, 1, 4, 2)
        assert same(transfer.materialize(spec).objects["x"].detach(), tensor.detach()[1:4:2])


def test_tensors_in_a_batch_come_back(store: Store, transfer: Any) -> None:
    torch = pytest.importorskip("torch")
    rows = [torch.arange(2), torch.arange(4), torch.arange(0), torch.arange(1)]
    data = {
        "batch": {
            "dense": torch.arange(8.0).reshape(4, 2),
            "jagged": torch.nested.as_nested_tensor(rows, layout=torch.jagged),
        },
        "non_tensor_batch": {
            "ragged": column(torch.arange(2), None, torch.arange(6).reshape(2, 3), torch.tensor(4)),
            "tree": column({"t": torch.arange(2.0)}, {}, None, {"t": None, "list": [torch.zeros(2), torch.ones(1)]}),
            "dicts": column({"a": torch.arange(2)}, None, {}, {"b": torch.arange(2.0), "a": torch.arange(1)}),
        },
    }
    schemas = {"dicts": sos.FieldSchema("ragged_tensor_dict", metadata={"section": "non_tensor_batch"})}
    ref = transfer.put_dataproto(data, field_schemas=schemas)
    for selection in ROWS:
        got = transfer.get_dataproto(ref, rows=list(selection) if isinstance(selection, tuple) else selection)
        for name, values in data["non_tensor_batch"].items():
            assert same(got["non_tensor_batch"][name], chosen(values, selection)), (name, selection)
        assert same(got["batch"]["dense"], chosen(data["batch"]["dense"], selection))
        assert same(list(got["batch"]["jagged"].unbind()), chosen(column(*rows), selection).tolist())
    transfer.cleanup_dataproto(ref)
    assert no_keys(store)


def test_leased_memory_lives_as_long_as_a_view_of_it(store: Store) -> None:
    pool = BufferPool(store)
    transfer = sos.MooncakeBundleTransfer(store, buffer_pool=pool)
    value = bytes(range(256))
    ref = transfer.put_object({"raw": value, "array": np.arange(64)})
    result = transfer.get_object(ref)
    assert result["raw"].dtype == np.uint8
    assert bytes(result["raw"]) == value
    view = np.asarray(result["array"])[10:20]
    with pytest.raises(RuntimeError, match="active leases"):
        pool.close()
    del result
    for _ in range(8):
        transfer.release_result(transfer.get_object(ref))
    with pytest.raises(RuntimeError, match="1 active leases"):
        pool.close()
    assert view.tolist() == list(range(10, 20))
    del view
    pool.close()


def test_a_pool_without_room_is_not_waited_for(store: Store) -> None:
    pool = BufferPool(store, max_regions=1, block_on_exhaustion=False)
    transfer = sos.MooncakeBundleTransfer(store, buffer_pool=pool)
    ref = transfer.put_object({"x": np.arange(9)})
    kept = [transfer.get_object(ref)["x"] for _ in range(3)]
    assert [array.tolist() for array in kept] == [list(range(9))] * 3
    assert [hasattr(array, "_mooncake_pool_owner") for array in kept] == [True, False, False]
    again = transfer.put_object({"x": np.arange(5)})
    assert transfer.get_object(again)["x"].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("pooled", [False, True])
def test_results_outlive_their_store(cluster: Cluster, pooled: bool) -> None:
    store = cluster.store()
    transfer = sos.MooncakeBundleTransfer(store, buffer_pool=BufferPool(store) if pooled else None)
    got = transfer.get_object(transfer.put_object({"x": np.arange(1 << 16), "raw": b"abc"}))
    assert store.close() == 0
    assert hasattr(got["x"], "_mooncake_pool_owner") == pooled
    assert same(got, {"x": np.arange(1 << 16), "raw": np.frombuffer(b"abc", dtype=np.uint8)})


def test_an_array_is_read_into_the_callers_memory(store: Store, transfer: Any) -> None:
    value = np.arange(24, dtype=np.int64).reshape(6, 4)
    ref = transfer.put_dataproto({"x": value})
    array = np.zeros((2, 4), dtype=np.int64)
    got = transfer.get_dataproto(ref, rows=[5, 1], destinations={"x": array})
    assert got["batch"]["x"] is array
    assert array.tolist() == value[[5, 1]].tolist()
    assert store.register_buffer(array.ctypes.data, array.nbytes) == 0
    transfer.get_dataproto(ref, rows=[0, 1], destinations={"x": array})
    assert array.tolist() == value[:2].tolist()
    assert store.unregister_buffer(array.ctypes.data) == 0
    memory = np.zeros(64, dtype=np.uint8)
    raw = sos.raw_destination(memory.ctypes.data, memory.nbytes, memory)
    assert transfer.get_dataproto(ref, rows=[0, 3], destinations={"x": raw})["batch"]["x"].tolist() == [
        [0, 1, 2, 3],
        [12, 13, 14, 15],
    ]
    assert memory.view(np.int64).tolist() == [0, 1, 2, 3, 12, 13, 14, 15]


def test_a_tensor_is_read_into_the_callers_memory(transfer: Any) -> None:
    torch = pytest.importorskip("torch")
    value = torch.arange(24).reshape(6, 4)
    ref = transfer.put_dataproto({"x": value})
    memory = np.zeros(304 + 64, dtype=np.uint8)
    target = sos.tensor_object_buffer(memory.ctypes.data, memory.nbytes, memory, batch_size=2)
    assert transfer.get_dataproto(ref, rows=[5, 1], destinations={"x": target})["batch"]["x"] is target
    again = transfer.put_object({"x": memory.tobytes()})
    assert memory[304:].view(np.int64).tolist() == value[[5, 1]].flatten().tolist()
    assert bytes(transfer.get_object(again)["x"]) == memory.tobytes()
    small = sos.tensor_object_buffer(memory.ctypes.data, 304, memory)
    with pytest.raises(ValueError, match="expected at least"):
        transfer.get_dataproto(ref, rows=[5, 1], destinations={"x": small})


def test_stages_join_and_replace(store: Store, transfer: Any) -> None:
    ref = transfer.put_dataproto({"a": np.arange(3)}, stage="s")
    joined = transfer.append_dataproto_fields(ref, {"b": np.arange(3) * 2}, stage="s")
    other = transfer.append_dataproto_fields(joined, {"meta_info": {"k": 1}, "batch": {"c": np.ones(3)}}, stage="t")
    got = transfer.get(other, type="dict")
    assert same({name: np.array(value) for name, value in got.items() if name != "k"}, {
        "a": np.arange(3), "b": np.arange(3) * 2, "c": np.ones(3)
    })  # fmt: skip
    assert got["k"] == 1
    assert transfer.get_dataproto(ref)["batch"]["a"].tolist() == [0, 1, 2]
    replaced = transfer.append_dataproto_fields(other, {"c": np.zeros(3)}, stage="t", overwrite=True)
    assert transfer.get_dataproto(replaced, fields=["c"])["batch"]["c"].tolist() == [0, 0, 0]
    transfer.cleanup_dataproto(replaced)
    assert no_keys(store)


class Refusing:
    """A store whose `batch_put_from` fails at the call with this number, and whose `get_into_ranges` always fails."""

    def __init__(self, store: Store, refused: int) -> None:
        self._store, self._refused, self._calls = store, refused, itertools.count(1)
        self.registered: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def batch_put_from(self, keys: list[str], pointers: list[int], sizes: list[int]) -> list[int]:
        if next(self._calls) == self._refused:
            return [-200]
        return self._store.batch_put_from(keys, pointers, sizes)

    def get_into_ranges(self, *_: object) -> list[list[list[int]]]:
        return [[[-1]]]

    def register_buffer(self, address: int, size: int) -> int:
        self.registered.append(address)
        return self._store.register_buffer(address, size)

    def unregister_buffer(self, address: int) -> int:
        self.registered.remove(address)
        return self._store.unregister_buffer(address)


def test_memory_is_unregistered_after_a_read_that_fails(store: Store) -> None:
    refusing = Refusing(store, 0)
    transfer = sos.MooncakeBundleTransfer(refusing)
    ref = transfer.put_object({"x": np.arange(8)})
    with pytest.raises(RuntimeError, match="get_into_ranges failed"):
        transfer.materialize(transfer.read_spec(ref).slice_member("x", 0, 1, 3))
    assert refusing.registered == []


@pytest.mark.parametrize("put_mode", ["batch", "parallel"])
@pytest.mark.parametrize("refused", [1, 3, 8])
def test_a_chunk_that_is_refused_takes_the_others_with_it(store: Store, put_mode: str, refused: int) -> None:
    pool = BufferPool(store)
    transfer = sos.MooncakeBundleTransfer(Refusing(store, refused), default_chunk_bytes=8, buffer_pool=pool)
    policy = sos.BundleTransferPolicy(4, put_mode)
    with pytest.raises(RuntimeError, match=r"batch_put_from failed for .*: -200"):
        transfer.put_object({"x": np.arange(8)}, policy=policy)
    assert no_keys(store)
    reader = sos.MooncakeBundleTransfer(store)
    assert reader.get_object(transfer.put_object({"x": np.arange(8)}, policy=policy))["x"].tolist() == list(range(8))


def test_all_keys_of_an_object_join_its_group(store: Store, transfer: Any) -> None:
    config = ReplicateConfig()
    config.group_ids, config.with_soft_pin = ["g"], True
    ref = transfer.put_dataproto({"a": np.arange(64)}, config=config)
    assert sos.export_dataproto_ref(ref)["storage_group_id"] == "g"
    expanded = sos._config_for_grouped_keys(config, 3)
    assert (list(expanded.group_ids), expanded.with_soft_pin) == (["g"] * 3, True)
    assert transfer.get_dataproto(ref)["batch"]["a"].tolist() == list(range(64))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.zeros(2, dtype=[("a", "i4")]), "cannot be stored as an ndarray"),
        (np.array([{}, 1], dtype=object), "cannot be stored as an ndarray"),
    ],
)
def test_an_array_that_would_lose_its_type_is_refused(store: Store, transfer: Any, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        transfer.put_object({"x": value})
    assert no_keys(store)


@pytest.mark.parametrize(
    ("values", "schema"),
    [
        (column([1.5], None), sos.FieldSchema("typed_ragged", metadata={"dtype": "int32"})),
        (column([1 << 40], None), sos.FieldSchema("typed_ragged", metadata={"dtype": "int32"})),
        (column(1.5, None), sos.FieldSchema("ndarray", metadata={"dtype": "int64"})),
        (column(BIG + 1, 1.0), sos.FieldSchema("ndarray", metadata={"dtype": "int64"})),
        (column([BIG + 1, 1.0], None), sos.FieldSchema("typed_ragged", metadata={"dtype": "int64"})),
        (column([-1], None), sos.FieldSchema("typed_ragged", metadata={"dtype": "uint64"})),
        (column({1: 2}, None), sos.FieldSchema("json_ragged")),
        (column({"a": object()}, None), sos.FieldSchema("msgpack_ragged")),
        (column(5, None), sos.FieldSchema("bytes_ragged")),
        (column("\ud800", None), sos.FieldSchema("utf8_ragged")),
        (column("a", None), sos.FieldSchema("no such codec")),
        (column("a", None), sos.FieldSchema("utf8_ragged", nullable=False)),
        (column(np.array([1 << 60 | 1]), np.array([0.5])), None),
        (column({"a": object()}, None), None),
        (column({"a": [1, np.arange(2)], "t": b"x"}, None), None),
        (column(DEEP, None), None),
    ],
)
def test_values_that_would_change_are_refused(store: Store, transfer: Any, values: Any, schema: Any) -> None:
    schemas = None if schema is None else {"x": schema}
    with pytest.raises((ValueError, TypeError)):
        transfer.put_dataproto({"batch": {}, "non_tensor_batch": {"x": values}}, field_schemas=schemas)
    assert no_keys(store)


def test_images_come_back(transfer: Any) -> None:
    image: Any = import_module("PIL.Image")
    picture = image.frombytes("RGB", (2, 1), b"abcdef")
    for values in (column(picture, None, picture), column([picture, b"x"], [], None)):
        ref = transfer.put_dataproto({"batch": {}, "non_tensor_batch": {"x": values}})
        got = transfer.get_dataproto(ref, rows=[0])["non_tensor_batch"]["x"][0]
        found = got[0] if isinstance(got, list) else got
        assert (found.mode, found.size, found.tobytes()) == ("RGB", (2, 1), b"abcdef")
    with pytest.raises(ValueError, match="palette"):
        transfer.put_dataproto({"batch": {}, "non_tensor_batch": {"x": column(image.new("P", (1, 1)))}})
