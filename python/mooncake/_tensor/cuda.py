"""Tensors that are read straight into the memory of a GPU."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from mooncake._tensor.argument import refuse
from mooncake._tensor.dtype import Tensor, code_of, torch_module
from mooncake._tensor.layout import HEADER_BYTES, Layout, parse
from mooncake._tensor.native import RegisteringStore, is_in_gpu


def read_into_cuda(store: RegisteringStore, function: str, keys: Sequence[str], tensors: Sequence[Tensor]) -> list[int]:
    """Reads the elements of stored tensors into tensors of the same types and shapes in a GPU. 0 or a code for each."""
    if len(keys) != len(tensors):
        return [refuse(function, "the lists differ in length")] * len(keys)
    return [_read_one(store, function, key, tensor) for key, tensor in zip(keys, tensors, strict=True)]


def _read_one(store: RegisteringStore, function: str, key: str, tensor: Tensor) -> int:
    if not getattr(tensor, "is_cuda", False) or not tensor.is_contiguous() or tensor.nbytes == 0:
        return refuse(function, f"the tensor for {key!r} is not a contiguous one with elements in a GPU")
    address, size = int(tensor.data_ptr()), int(tensor.nbytes)
    is_registered = is_in_gpu(store, address, size)
    if not is_registered and store.register_buffer(address, size) != 0:
        return refuse(function, f"the memory of the tensor for {key!r} cannot be registered")
    try:
        return _read_elements(store, function, key, tensor)
    finally:
        if not is_registered:
            store.unregister_buffer(address)


def _read_elements(store: RegisteringStore, function: str, key: str, tensor: Tensor) -> int:
    torch = torch_module()
    if torch.cuda.is_available():
        # What was begun with the tensor before comes before.
        torch.cuda.current_stream(tensor.device).synchronize()
    header = ctypes.create_string_buffer(HEADER_BYTES)
    ranges = [[ctypes.addressof(header), int(tensor.data_ptr())]], [[HEADER_BYTES, int(tensor.nbytes)]]
    length = store.batch_get_into_multi_buffers([key], *ranges)[0]
    if length < 0:
        return length
    layout = parse(header.raw, length) if length >= HEADER_BYTES else None
    if layout is None or not _is_like(tensor, layout):
        return refuse(function, f"the object {key!r} is no tensor of the type and shape of the one to read into")
    return 0


def _is_like(tensor: Any, layout: Layout) -> bool:
    has_same_shape = tuple(layout.local_shape) == tuple(int(dim) for dim in tensor.shape)
    return has_same_shape and layout.data_offset == HEADER_BYTES and layout.dtype == code_of(tensor.dtype)
