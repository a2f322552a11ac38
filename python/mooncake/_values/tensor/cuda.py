"""Tensors in GPU memory: registers their memory with the store, and reads into it."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from mooncake._values.tensor.argument import refuse
from mooncake._values.tensor.dtype import Tensor, code_of, torch_module
from mooncake._values.tensor.layout import HEADER_BYTES, Layout, parse
from mooncake._values.tensor.native import NativeStore, is_in_gpu

_lock = threading.Lock()
# How many running calls use a registration of this module: by the store's id, and the memory's address and length.
_uses: dict[tuple[int, int, int], int] = {}


def _begin_anew() -> None:
    """Resets the state in a forked child: a thread of the parent may have held the lock."""
    global _lock
    _lock = threading.Lock()
    _uses.clear()


os.register_at_fork(after_in_child=_begin_anew)


def is_cuda(tensor: object) -> bool:
    """Whether the value is a tensor on a GPU."""
    return bool(getattr(tensor, "is_cuda", False))


@contextmanager
def registered(store: NativeStore, tensor: Tensor) -> Iterator[bool]:
    """Registers the memory of a GPU tensor during the block, unless it is registered. Yields whether it is."""
    with _lock:
        use = _our_use(store, tensor)
        if use is not None:
            _uses[use] = _uses.get(use, 0) + 1
    try:
        yield use is not None or is_in_gpu(store, int(tensor.data_ptr()), int(tensor.nbytes))
    finally:
        if use is not None:
            _end_use(store, use)


def _our_use(store: NativeStore, tensor: Tensor) -> tuple[int, int, int] | None:
    """The registration of this module for a tensor: an existing or a new one. None if the caller has registered the
    memory, or it cannot be registered.
    """
    # Tries the whole storage first, so that calls with other tensors on it share the registration. If the caller has
    # registered a part of the storage, that fails, and only the tensor's own memory is registered.
    storage = tensor.untyped_storage()
    ranges = [(int(storage.data_ptr()), int(storage.nbytes())), (int(tensor.data_ptr()), int(tensor.nbytes))]
    uses = [(id(store), *memory) for memory in ranges]
    ours = next((use for use in uses if use in _uses), None)
    if ours is not None or is_in_gpu(store, *ranges[1]):
        return ours
    return next((use for use in uses if store.register_buffer(*use[1:]) == 0), None)


def _end_use(store: NativeStore, use: tuple[int, int, int]) -> None:
    with _lock:
        _uses[use] -= 1
        if _uses[use] == 0:
            del _uses[use]
            store.unregister_buffer(use[1])


def await_stream(tensor: Tensor) -> None:
    """Waits until the GPU has finished the work that was queued on the tensor's stream."""
    torch = torch_module()
    if torch.cuda.is_available():
        torch.cuda.current_stream(tensor.device).synchronize()


def read_into_cuda(store: NativeStore, function: str, keys: Sequence[str], tensors: Sequence[Tensor]) -> list[int]:
    """Reads stored elements into GPU tensors of the same types and shapes. Returns a list with 0 or a negative code
    per key.
    """
    if len(keys) != len(tensors):
        return [refuse(function, "the lists differ in length")] * len(keys)
    return [_read_one(store, function, key, tensor) for key, tensor in zip(keys, tensors, strict=True)]


def _read_one(store: NativeStore, function: str, key: str, tensor: Tensor) -> int:
    if not is_cuda(tensor) or not tensor.is_contiguous() or tensor.nbytes == 0:
        return refuse(function, f"the tensor for {key!r} is not a contiguous one with elements in a GPU")
    with registered(store, tensor) as is_registered:
        if not is_registered:
            return refuse(function, f"the memory of the tensor for {key!r} cannot be registered")
        return _read_elements(store, function, key, tensor)


def _read_elements(store: NativeStore, function: str, key: str, tensor: Tensor) -> int:
    await_stream(tensor)
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
