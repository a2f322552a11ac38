"""Tensors as members: a header and the elements, or the parts of a nested tensor one after the other."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from mooncake._values.structured.array import Array, memory_at, np
from mooncake._values.structured.source import MultiBufferPayload
from mooncake._values.structured.torch_tensor import Tensor, loaded, saved, torch_dtype, torch_module
from mooncake._values.tensor.dtype import code_of
from mooncake._values.tensor.layout import Layout, full_layout, parse
from mooncake._values.tensor.serialize import deserialize_tensor, serialize_tensor


@dataclass(frozen=True)
class Parts:
    """The header and the elements of a tensor, without a copy. `owner` keeps the elements in place."""

    header: bytes
    elements: memoryview
    owner: Tensor

    @property
    def buffers(self) -> tuple[memoryview, ...]:
        """The buffers to store, one after the other."""
        return (memoryview(self.header), self.elements)


def parts_of(tensor: Tensor) -> Parts | None:
    """The header and the elements of a tensor; None for tensors that cannot have a header."""
    try:
        header, address, size, owner = serialize_tensor(tensor)
    except ValueError:
        return None
    return Parts(header, memoryview(memory_at(address, size, owner)), owner)


def as_described(tensor: Tensor, spec: Mapping[str, Any]) -> Tensor:
    """The tensor. Raises ValueError unless it has the type and shape of the metadata."""
    shape, dtype = spec.get("shape"), spec.get("dtype")
    if shape is None and dtype is None:
        return tensor
    found = [int(dim) for dim in tensor.shape]
    if str(tensor.dtype) != dtype or found != shape:
        raise ValueError(f"structured tensor payload is a {tensor.dtype} of {found}, not a {dtype} of {shape}")
    return tensor


def header_for(header: bytes, total_bytes: int, spec: Mapping[str, Any], rows: int) -> bytes:
    """The header for `rows` rows of a tensor.

    Raises ValueError unless `header` is that of an object of `total_bytes` bytes, with the type and shape in `spec`.
    """
    shape, dtype = spec.get("shape"), code_of(spec.get("dtype"))
    layout = parse(header, total_bytes)
    if layout is None or dtype is None or not isinstance(shape, list) or layout != full_layout(dtype, tuple(shape)):
        raise ValueError("structured tensor payload does not match its manifest")
    return Layout(dtype, (rows, *shape[1:]), (rows, *shape[1:])).pack()


def empty_rows(spec: Mapping[str, Any], rows: int) -> tuple[Tensor, Array]:
    """A new tensor of `rows` rows, and its bytes to read into. Raises ValueError if the type is unknown."""
    tensor = torch_module().empty((rows, *spec["shape"][1:]), dtype=torch_dtype(spec.get("dtype")))
    return tensor, memory_at(int(tensor.data_ptr()), int(tensor.nbytes), tensor)


def write_at(address: int, content: bytes) -> None:
    """Copies the bytes to the address."""
    ctypes.memmove(address, content, len(content))


def encode_nested(tensor: Tensor, *, has_codec: bool) -> tuple[dict[str, Any], MultiBufferPayload]:
    """Encodes a jagged tensor: its values, its offsets and, if it has them, its lengths. Without `has_codec`, as
    `torch.save` writes it.

    Raises ValueError for other nested tensors.
    """
    if tensor.layout != torch_module().jagged:
        raise ValueError("structured nested tensor fields require torch.jagged layout")
    spec: dict[str, Any] = {"encoding": "torch_tensor", "dtype": str(tensor.dtype), "nested": True}
    lengths = tensor.lengths()
    tensors = [tensor.values(), tensor.offsets(), *([] if lengths is None else [lengths])]
    on_host = has_codec and all(part.device.type == "cpu" for part in tensors)
    parts = [part for part in map(parts_of, tensors) if part is not None] if on_host else []
    if len(parts) < len(tensors):
        return {**spec, "format": "torch_save"}, MultiBufferPayload((memoryview(saved(tensor)),))
    spec |= {
        "format": "tensor_parts",
        "part_bytes": [len(part.header) + len(part.elements) for part in parts],
        "has_lengths": lengths is not None,
        "ragged_idx": int(getattr(tensor, "_ragged_idx", 1)),
    }
    return spec, MultiBufferPayload(tuple(buffer for part in parts for buffer in part.buffers), tuple(parts))


def decode_nested(payload: bytes, spec: Mapping[str, Any]) -> Tensor:
    """Decodes the bytes of `encode_nested`. Raises ValueError if they are damaged."""
    kind = spec.get("format", "torch_save")
    if kind == "torch_save":
        return loaded(payload)
    if kind != "tensor_parts":
        raise ValueError(f"unsupported nested tensor payload format: {kind}")
    sizes, expected = spec.get("part_bytes"), 3 if spec.get("has_lengths") else 2
    if not isinstance(sizes, list) or len(sizes) != expected or not all(type(size) is int for size in sizes):
        raise ValueError("nested tensor payload has invalid part metadata")
    if min(sizes) <= 0 or sum(sizes) != len(payload):
        raise ValueError("nested tensor payload is truncated, or longer than its parts")
    bounds = np.cumsum([0, *sizes]).tolist()
    parts = [deserialize_tensor(payload[begin:end]) for begin, end in pairwise(bounds)]
    _check_offsets(parts)
    return torch_module().nested.nested_tensor_from_jagged(
        parts[0],
        offsets=parts[1],
        lengths=parts[2] if expected == 3 else None,
        jagged_dim=int(spec.get("ragged_idx", 1)),
    )


def select_nested(tensor: Tensor, rows: Sequence[int]) -> Tensor:
    """A jagged tensor of these rows, in this order."""
    torch = torch_module()
    parts = tensor.unbind()
    chosen = [parts[row] for row in rows]
    if chosen:
        result = torch.nested.as_nested_tensor(chosen, layout=tensor.layout)
    else:
        offsets = torch.zeros(1, dtype=tensor.offsets().dtype, device=tensor.offsets().device)
        result = torch.nested.nested_tensor_from_jagged(tensor.values()[:0], offsets=offsets)
    if hasattr(tensor, "_ragged_idx"):
        result._ragged_idx = tensor._ragged_idx
    return result


def _check_offsets(parts: Sequence[Tensor]) -> None:
    """Raises ValueError unless the offsets of a jagged tensor are not negative and never decrease. torch does not
    check that.
    """
    offsets = parts[1]
    if offsets.dim() != 1 or len(offsets) == 0 or int(offsets[0]) < 0 or bool((offsets.diff() < 0).any()):
        raise ValueError("nested tensor payload has invalid offsets")
