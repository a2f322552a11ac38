"""Random rows of all kinds return unchanged, whole and by random rows. Failures print how to repeat them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mooncake.store import MooncakeDistributedStore
from structured import column, np, same

sos: Any = pytest.importorskip("mooncake.structured_object_store")
pytest.importorskip("msgpack")
SHARED = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
DTYPES = ("int8", "<u2", ">i4", "float16", "float64", "complex64", "bool", "<U3")


@st.composite
def arrays(draw: st.DrawFn) -> Any:
    """Arrays of any type, shape and strides."""
    shape = draw(st.lists(st.integers(0, 4), min_size=1, max_size=3))
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    raw = draw(st.binary(min_size=64, max_size=64))
    numbers = np.resize(np.frombuffer(raw, dtype=np.int8), shape)
    array = (numbers % 2 if dtype.kind == "b" else numbers).astype(dtype)
    return array.transpose(draw(st.permutations(range(len(shape)))))[:: draw(st.sampled_from((1, 2, -1)))]


TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
WHOLE = st.integers(-(1 << 63), (1 << 64) - 1)
FLOAT = st.floats(width=64)
PLAIN = st.recursive(
    st.none() | st.booleans() | WHOLE | FLOAT | TEXT | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
BLOBS = st.dictionaries(TEXT, st.none() | st.binary(max_size=6), max_size=3)
KINDS = (TEXT, st.binary(max_size=8), WHOLE, FLOAT, st.booleans(), BLOBS, st.lists(st.binary(max_size=4), max_size=3))


def rows_of(kind: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(st.none() | kind, min_size=1, max_size=5).map(lambda rows: column(*rows))


@SHARED
@given(
    values=st.one_of(*(rows_of(kind) for kind in KINDS), rows_of(st.dictionaries(TEXT, PLAIN, max_size=3))),
    chunk_bytes=st.integers(1, 64),
    data=st.data(),
)
def test_any_column_survives(
    shared_store: MooncakeDistributedStore, values: Any, chunk_bytes: int, data: st.DataObject
) -> None:
    shared_store.remove_all(force=True)
    transfer = sos.MooncakeBundleTransfer(shared_store, default_chunk_bytes=chunk_bytes)
    try:
        ref = transfer.put_dataproto({"batch": {}, "non_tensor_batch": {"x": values}})
    except ValueError as error:
        # Columns under one key become leaves of a tree, which must all be of one kind.
        if "unsupported structured non-tensor field" not in str(error):
            raise
        return
    got = transfer.get_dataproto(ref)["non_tensor_batch"]["x"]
    assert same(got, values), got
    rows = data.draw(st.lists(st.integers(0, len(values) - 1), max_size=6))
    assert same(transfer.get_dataproto(ref, rows=rows)["non_tensor_batch"]["x"], values[rows])


@SHARED
@given(array=arrays(), chunk_bytes=st.integers(1, 64), data=st.data())
def test_any_array_survives(
    shared_store: MooncakeDistributedStore, array: Any, chunk_bytes: int, data: st.DataObject
) -> None:
    shared_store.remove_all(force=True)
    transfer = sos.MooncakeBundleTransfer(shared_store, default_chunk_bytes=chunk_bytes)
    ref = transfer.put_dataproto({"x": array})
    assert same(np.array(transfer.get_dataproto(ref)["batch"]["x"]), np.array(array, order="C"))
    rows = data.draw(st.lists(st.integers(0, len(array) - 1), max_size=6) if len(array) else st.just([]))
    got = transfer.get_dataproto(ref, rows=rows)["batch"]["x"]
    assert same(np.array(got), np.array(array[rows], order="C"))
