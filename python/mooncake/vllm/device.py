"""The tensors of vLLM's KV cache, as addresses and strides."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from mooncake.vllm.layout import BlockLayout, Layer

logger = logging.getLogger(__name__)

# The devices whose memory the store serves.
KINDS = ("cpu", "cuda")


def first_tensor(cache: Any) -> Any:
    """The tensor of a layer; of several that share one storage, the first."""
    return cache[0] if isinstance(cache, (list, tuple)) else cache


def block_layout(kv_caches: Mapping[str, Any], blocks: int) -> BlockLayout:
    """The layout of a KV cache of `blocks` blocks. Raises ValueError where the pool could not move it."""
    layers = {}
    for name, cache in kv_caches.items():
        if isinstance(cache, (list, tuple)) and len(cache) != 1:
            raise ValueError(f"{name}: a KV cache in {len(cache)} tensors is not supported")
        tensor = first_tensor(cache)
        if tensor.device.type not in KINDS:
            raise ValueError(f"{name}: the KV cache lies on {tensor.device}; only {' and '.join(KINDS)} can be moved")
        layers[name] = Layer.of(tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.element_size(), blocks)
    return BlockLayout(layers)


def block_shape(kv_caches: Mapping[str, Any], layout: BlockLayout) -> list[object]:
    """What decides how the bytes of a block are to be read: types, inner strides and sizes, each that occurs once."""
    shapes = {
        (str(first_tensor(cache).dtype), layer.block_bytes, first_tensor(cache).stride()[1:], layer.pieces)
        for name, cache in kv_caches.items()
        for layer in [layout.layers[layout.index[name]]]
    }
    return [repr(shape) for shape in sorted(shapes, key=repr)]


def register(store: Any, kv_caches: Mapping[str, Any]) -> None:
    """Tells the store of each storage behind the KV cache. One that it refuses is logged: transfers of it will fail."""
    seen = set()
    for cache in kv_caches.values():
        storage = first_tensor(cache).untyped_storage()
        address, length = storage.data_ptr(), storage.nbytes()
        if address in seen:
            continue
        seen.add(address)
        code = store.register_buffer(address, length)
        if code != 0:
            logger.error("register_buffer of %d bytes at %#x: %d", length, address, code)
