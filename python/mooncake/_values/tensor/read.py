"""Stored bytes as tensors, without a copy.

Bytes that are no tensor, or whose header contradicts their length, give None.
"""

from __future__ import annotations

import ctypes
from typing import Any

from mooncake._native import BufferHandle
from mooncake._values.tensor.argument import warn
from mooncake._values.tensor.dtype import ITEM_BYTES, Tensor, torch_dtype, torch_module
from mooncake._values.tensor.layout import HEADER_BYTES, Layout, parse
from mooncake._values.tensor.native import NativeStore, may_touch


def memory_at(address: int, size: int) -> Any:
    """A buffer over the caller's memory. The caller must keep it mapped."""
    return (ctypes.c_ubyte * size).from_address(address)


def layout_of(buffer: Any) -> Layout | None:
    """The layout in the header at the start of a buffer; None if the buffer holds no tensor."""
    memory = memoryview(buffer)
    return parse(bytes(memory[:HEADER_BYTES]), memory.nbytes)


def layout_at(store: NativeStore, address: int, size: int) -> Layout | None:
    """The layout in the header at an address; None if the store refuses that memory, or it holds no tensor."""
    if size < HEADER_BYTES or not may_touch(store, address, size):
        return None
    return parse(ctypes.string_at(address, HEADER_BYTES), size)


def view(buffer: Any, layout: Layout) -> Tensor | None:
    """A tensor of the elements, which shares the buffer's memory; None if the installed torch lacks the type."""
    torch, dtype = torch_module(), torch_dtype(layout.dtype)
    if dtype is None:
        return None
    try:
        if layout.data_bytes == 0:
            return torch.empty(layout.local_shape, dtype=dtype)
        count = layout.data_bytes // ITEM_BYTES[layout.dtype]
        flat = torch.frombuffer(buffer, dtype=dtype, count=count, offset=layout.data_offset)
        return flat.reshape(layout.local_shape)
    except (RuntimeError, ValueError) as error:
        warn("a stored tensor cannot be shown: %s", error)
        return None


def decode(buffer: Any) -> Tensor | None:
    """The tensor in a buffer, in the shape that its header names."""
    layout = layout_of(buffer)
    if layout is None:
        warn("%d bytes are no tensor", memoryview(buffer).nbytes)
        return None
    return view(buffer, layout)


def decode_handle(handle: BufferHandle | None) -> Tensor | None:
    """The tensor of a stored object. It shares the handle's memory and keeps it alive."""
    return None if handle is None else decode(handle)


def decode_at(address: int, length: int) -> Tensor | None:
    """The tensor that a read wrote to the caller's memory; None if `length` is a negative code."""
    if length < 0:
        return None
    return decode(memory_at(address, length)) if length >= HEADER_BYTES else None
