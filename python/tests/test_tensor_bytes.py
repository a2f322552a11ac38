"""The bytes equal those of the C++ package: headers, shards, manifests and their keys."""

from __future__ import annotations

import ctypes
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mooncake._values.tensor import (
    ParallelAxis,
    TensorParallelism,
    deserialize_tensor,
    serialize_tensor,
    tensor_metadata_size,
)
from native_fake import FakeStore

torch: Any = pytest.importorskip("torch")
GOLDEN = json.loads(Path(__file__).with_name("tensor_golden.json").read_text())
HEADER_BYTES = 304


def header_id(entry: dict[str, Any]) -> str:
    return f"{entry['dtype']}-{'x'.join(map(str, entry['shape'])) or 'scalar'}"


@pytest.mark.parametrize("entry", GOLDEN["headers"], ids=header_id)
def test_a_header(entry: dict[str, Any]) -> None:
    tensor = torch.zeros(entry["shape"], dtype=getattr(torch, entry["dtype"]))
    header, address, length, owner = serialize_tensor(tensor)
    expected = bytes.fromhex(entry["header"]).ljust(HEADER_BYTES, b"\0")
    assert (header, length, tensor_metadata_size()) == (expected, entry["data_bytes"], HEADER_BYTES)
    assert address == (tensor.data_ptr() if length else owner.data_ptr())
    back = deserialize_tensor(header + ctypes.string_at(address, length))
    assert (back.dtype, list(back.shape)) == (tensor.dtype, entry["shape"])


def axes(*given: tuple[str, int, int, dict[str, int]]) -> TensorParallelism:
    made = []
    for kind, rank, size, others in given:
        axis = ParallelAxis()
        axis.kind, axis.rank, axis.size = kind, rank, size
        for name, value in others.items():
            setattr(axis, name, value)
        made.append(axis)
    parallelism = TensorParallelism()
    parallelism.axes = made
    return parallelism


def partition(rank: int, size: int, split_dim: int) -> SimpleNamespace:
    return SimpleNamespace(rank=rank, size=size, split_dim=split_dim)


def write_tensors(store: FakeStore, tensor: Any) -> list[int]:
    put = store.put_tensor_with_parallelism
    tp = ("tp", 1, 2, {"split_dim": 0})
    return [
        store.put_tensor("plain", tensor),
        store.put_tensor("scalar", torch.tensor(7, dtype=torch.int16)),
        store.put_tensor_with_tp("split", tensor, tp_size=2, split_dim=1),
        put("tp", tensor[:, :3].contiguous(), axes(("tp", 0, 2, {"split_dim": 1}))),
        put("dptp", tensor, axes(tp, ("dp", 1, 3, {}))),
        put("pptp", tensor, axes(("pp", 0, 2, {"stage_id": 7}), ("tp", 1, 3, {"split_dim": 1}))),
        put("ep", tensor, axes(("EP", 1, 2, {"expert_id": 11}))),
        put("dp", tensor, axes(("dp", 1, 2, {}))),
        put("writer", tensor, writer_partition=partition(1, 2, 0)),
    ]


def write_from_memory(store: FakeStore, value: bytes) -> list[int]:
    memory = ctypes.create_string_buffer(value, len(value))
    at = (ctypes.addressof(memory), len(value))
    put = store.put_tensor_with_parallelism_from
    return [
        store.put_tensor_with_tp_from("splitfrom", *at, tp_size=2, split_dim=1),
        put("tpfrom", *at, axes(("tp", 0, 2, {"split_dim": 1}))),
        put("dptpfrom", *at, axes(("dp", 0, 2, {}), ("tp", 0, 2, {"split_dim": 0}))),
        put("epfrom", *at, axes(("ep", 1, 2, {"expert_id": 11}))),
        put("writerfrom", *at, writer_partition=partition(0, 3, 1)),
    ]


def test_all_objects_and_no_others() -> None:
    store = FakeStore()
    tensor = torch.arange(24, dtype=torch.int16).reshape(4, 6)
    assert write_tensors(store, tensor) + write_from_memory(store, store.objects["plain"]) == [0] * 14
    assert {key: value.hex() for key, value in store.objects.items()} == GOLDEN["objects"]


@pytest.mark.parametrize("payload", [b"", b"x" * 303, bytes(304), b"x" * 400])
def test_bytes_that_are_no_tensor(payload: bytes) -> None:
    with pytest.raises(ValueError, match="invalid serialized Mooncake tensor payload"):
        deserialize_tensor(payload)


@pytest.mark.parametrize("value", [None, 3, "text", [1.0]])
def test_what_is_no_tensor(value: object) -> None:
    with pytest.raises(ValueError, match=re.escape("unsupported tensor for Mooncake tensor serialization")):
        serialize_tensor(value)


def test_only_bytes_are_deserialized() -> None:
    with pytest.raises(TypeError, match="'payload'"):
        deserialize_tensor(bytearray(400))  # type: ignore[arg-type]
