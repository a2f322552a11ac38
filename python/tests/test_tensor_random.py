"""Random tensors return unchanged, and random splits agree with a model. Failures print how to repeat them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mooncake._values.tensor import ParallelAxis, ReadTarget, TensorParallelism, layout, manifest
from mooncake._values.tensor.dtype import NAMES
from mooncake._values.tensor.layout import HEADER_BYTES
from mooncake.store import MooncakeDistributedStore
from native_fake import FakeStore

torch: Any = pytest.importorskip("torch")
Store = MooncakeDistributedStore
SHARED = settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])


def raw_bytes(tensor: Any) -> bytes:
    packed = tensor.clone(memory_format=torch.contiguous_format).flatten()
    return bytes(packed.view(torch.uint8).tolist())


@st.composite
def tensors(draw: st.DrawFn) -> Any:
    """Tensors of any type with up to 8 dimensions, and any order of strides, steps and offset."""
    dtype = getattr(torch, draw(st.sampled_from(NAMES)))
    shape = draw(st.lists(st.integers(0, 5), min_size=1, max_size=4))
    shape += [1] * draw(st.integers(0, 8 - len(shape)))
    steps = [draw(st.integers(1, 2)) for _ in shape]
    offset = draw(st.integers(0, 7))
    room = offset
    for extent, step in zip(shape, steps, strict=True):
        room = max(room, 1) * max(extent * step, 1)
    length = (offset + room) * dtype.itemsize
    seed = draw(st.integers(0, 1 << 30))
    noise = torch.randint(0, 256, (length,), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))
    if dtype == torch.bool:
        noise = noise % 2
    flat = noise.view(dtype)[offset:]
    strides, stride = [], 1
    for extent, step in reversed(list(zip(shape, steps, strict=True))):
        strides.append(stride * step)
        stride *= max(extent * step, 1)
    tensor = torch.as_strided(flat, shape, list(reversed(strides)))
    return tensor.permute(draw(st.permutations(range(len(shape)))))


@SHARED
@given(tensor=tensors())
def test_any_tensor_survives(shared_store: Store, tensor: Any) -> None:
    shared_store.remove_all(force=True)
    assert shared_store.put_tensor("k", tensor) == 0
    got: Any = shared_store.get_tensor("k")
    assert (got.dtype, got.shape, got.is_contiguous()) == (tensor.dtype, tensor.shape, True)
    assert raw_bytes(got) == raw_bytes(tensor)


def target(mode: str, rank: int, size: int, split_dim: int, dp: bool) -> ReadTarget:
    made = ReadTarget()
    made.mode, made.parallelism = mode, parallelism(rank, size, split_dim, dp)
    return made


def parallelism(rank: int, size: int, split_dim: int, dp: bool) -> TensorParallelism:
    axis, other = ParallelAxis(), ParallelAxis()
    axis.kind, axis.rank, axis.size, axis.split_dim = "tp", rank, size, split_dim
    other.kind, other.rank, other.size = "dp", 1, 2
    made = TensorParallelism()
    made.axes = [axis, other] if dp else [axis]
    return made


@SHARED
@given(data=st.data())
def test_any_split_is_read_as_the_model_says(data: st.DataObject) -> None:
    store = FakeStore()
    shape = data.draw(st.lists(st.integers(0, 12), min_size=1, max_size=4), "shape")
    split_dim = data.draw(st.integers(0, len(shape) - 1), "split_dim")
    written, read = (data.draw(st.integers(1, 12), name) for name in ("written", "read"))
    dp = data.draw(st.booleans(), "dp")
    full = torch.arange(torch.Size(shape).numel(), dtype=torch.int16).reshape(shape)
    extent = shape[split_dim]
    for rank in range(written):
        cut = full.narrow(split_dim, rank * (extent // written), extent // written)
        given_tensor = full if dp else cut
        code = store.put_tensor_with_parallelism("k", given_tensor, parallelism(rank, written, split_dim, dp))
        if dp:
            assert code == (0 if extent % written == 0 else -600)
    if extent % written:
        return
    rank = data.draw(st.integers(0, read - 1), "rank")
    whole = store.get_tensor_with_parallelism("k", target("full", rank, read, split_dim, dp))
    part = store.get_tensor_with_parallelism("k", target("shard", rank, read, split_dim, dp))
    if extent % read:
        assert (whole, part) == (None, None)
        return
    assert torch.equal(whole, full)
    assert torch.equal(part, full.narrow(split_dim, rank * (extent // read), extent // read))


@settings(deadline=None, max_examples=500)
@given(data=st.data())
def test_no_bytes_make_a_layout_that_leaves_the_object(data: st.DataObject) -> None:
    raw = bytearray(data.draw(st.sampled_from([layout.full_layout(0, (2, 3)), layout.full_layout(14, (7,))])).pack())
    for _ in range(data.draw(st.integers(0, 4))):
        place = data.draw(st.integers(0, HEADER_BYTES - 1))
        raw[place] = data.draw(st.integers(0, 255))
    total = data.draw(st.one_of(st.integers(0, 400), st.integers(0, 1 << 64)))
    found = layout.parse(bytes(raw), total)
    if found is not None:
        assert HEADER_BYTES <= found.data_offset <= found.total_bytes == total
        assert layout.parse(found.pack(), HEADER_BYTES + found.data_bytes) is not None


@given(raw=st.binary(max_size=120))
def test_no_bytes_break_a_manifest(raw: bytes) -> None:
    padded = manifest.Manifest(0, (4,), 0, 2).pack()[:16] + raw
    for candidate in (raw, padded):
        found = manifest.parse(candidate)
        assert found is None or 0 <= found.split_dim < len(found.global_shape)
