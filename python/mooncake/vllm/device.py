"""The tensors of vLLM's KV cache: their addresses, strides and registration."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from mooncake.vllm.layout import BlockLayout, Layer

logger = logging.getLogger(__name__)


def first_tensor(cache: Any) -> Any:
    """The tensor of a layer. If it has several tensors, the first."""
    return cache[0] if isinstance(cache, (list, tuple)) else cache


def block_layout(kv_caches: Mapping[str, Any], blocks: int) -> BlockLayout:
    """The layout of a KV cache with `blocks` blocks. Raises ValueError if the pool cannot move it."""
    layers = {}
    for name, cache in kv_caches.items():
        if isinstance(cache, (list, tuple)) and len(cache) != 1:
            raise ValueError(f"{name}: a KV cache in {len(cache)} tensors is not supported")
        tensor = first_tensor(cache)
        if tensor.device.type not in ("cpu", "cuda"):
            raise ValueError(f"{name}: the KV cache lies on {tensor.device}, which the store does not know")
        layers[name] = Layer.of(tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.element_size(), blocks)
    return BlockLayout(layers)


def block_shape(kv_caches: Mapping[str, Any], layout: BlockLayout) -> list[object]:
    """The values that determine the layout of a block's bytes: types, inner strides and sizes, without repetitions."""
    shapes = {
        (str(first_tensor(cache).dtype), layer.block_bytes, first_tensor(cache).stride()[1:], layer.pieces)
        for name, cache in kv_caches.items()
        for layer in [layout.layers[layout.index[name]]]
    }
    return [repr(shape) for shape in sorted(shapes, key=repr)]


def register(store: Any, kv_caches: Mapping[str, Any]) -> None:
    """Registers each storage of the KV cache with the store.

    Raises ValueError if the store refuses memory of a device. If it refuses memory of the host, only logs an error:
    transfers of that memory may fail.
    """
    seen = set()
    for cache in kv_caches.values():
        device = first_tensor(cache).device
        storage = first_tensor(cache).untyped_storage()
        address, length = storage.data_ptr(), storage.nbytes()
        if address in seen:
            continue
        seen.add(address)
        code = store.register_buffer(address, length)
        if code != 0 and device.type != "cpu":
            raise ValueError(f"the store refuses the KV cache on {device}, {length} bytes at {address:#x}: {code}")
        if code != 0:
            logger.error("register_buffer of %d bytes at %#x: %d", length, address, code)
