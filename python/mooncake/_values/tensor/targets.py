"""Reads of the parallelism methods: finds the object, or the shards, that make up a target."""

from __future__ import annotations

import ctypes

from mooncake._native import BufferHandle
from mooncake._values.tensor.dtype import Tensor
from mooncake._values.tensor.layout import Layout
from mooncake._values.tensor.native import NativeStore, may_touch
from mooncake._values.tensor.parallel import (
    Axis,
    InvalidAxesError,
    Partition,
    is_shard_of,
    parse_axes,
    partition_key,
    shard_key,
    tp_key,
)
from mooncake._values.tensor.read import decode, decode_at, decode_handle, layout_of
from mooncake._values.tensor.reconstruct import Assembly, full, full_from_writers, shard
from mooncake._values.tensor.target import MODES


class Target:
    """The checked target of a read: a mode, and the axes of a shard.

    Raises InvalidAxesError for an unknown mode, and for axes that do not suit the mode.
    """

    def __init__(self, target: object) -> None:
        mode = getattr(target, "mode", None) if target is not None else "as_stored"
        self.mode = mode.lower() if isinstance(mode, str) else ""
        if self.mode not in MODES:
            raise InvalidAxesError(f"the mode of a target is {mode!r}, not one of {', '.join(MODES)}")
        parallelism = getattr(target, "parallelism", None)
        self.axes = () if parallelism is None else parse_axes(parallelism)
        if self.mode == "as_stored" and self.axes:
            raise InvalidAxesError("a target with axes reads a shard or the full tensor")
        if self.mode == "shard" and not self.axes:
            raise InvalidAxesError("a target for a shard needs axes")

    def find(self, store: NativeStore, key: str) -> BufferHandle | Assembly | None:
        """The object that is the target, or the shards that make it up; None if they are missing."""
        if self.mode == "full":
            if self.axes:
                return full(store, key, self.axes)
            found = full_from_writers(store, key)
            return store.get_buffer(key) if found is None else found
        if not self.axes:
            return store.get_buffer(key)
        stored = _stored_shard(store, key, self.axes)
        return shard(store, key, self.axes) if stored is None else stored


def get_target(store: NativeStore, key: str, target: Target) -> Tensor | None:
    """A copy of the tensor that a target identifies; None if it is missing."""
    found = target.find(store, key)
    if isinstance(found, Assembly):
        return decode(found.in_memory())
    if found is None and target.mode == "shard":
        return _unmarked_shard(store, key, target.axes)
    return decode_handle(found)


def get_target_into(store: NativeStore, key: str, address: int, size: int, target: Target) -> Tensor | None:
    """Reads the tensor that a target identifies into the caller's memory; None if it is missing or does not fit."""
    if not may_touch(store, address, size):
        return None
    if target.mode == "as_stored":
        return decode_at(address, store.get_into(key, address, size))
    found = target.find(store, key)
    if isinstance(found, Assembly):
        fits = found.layout.total_bytes <= size
        return decode_at(address, found.write_at(address)) if fits else None
    if found is None or layout_of(found) is None or len(found) > size:
        return None
    ctypes.memmove(address, found.ptr(), len(found))
    return decode_at(address, len(found))


def _stored_shard(store: NativeStore, key: str, axes: tuple[Axis, ...]) -> BufferHandle | None:
    """The object that is exactly this shard, stored by its axes or as a writer's partition."""
    for place in _places(key, axes):
        handle = store.get_buffer(place)
        layout = None if handle is None else layout_of(handle)
        if handle is not None and layout is not None and is_shard_of(layout, axes):
            return handle
    return None


def _places(key: str, axes: tuple[Axis, ...]) -> list[str]:
    places = [shard_key(key, axes)]
    split_dim = axes[0].split_dim
    if len(axes) == 1 and split_dim is not None and split_dim >= 0:
        places.append(partition_key(key, Partition(axes[0].rank, axes[0].size, split_dim)))
    return places


def _unmarked_shard(store: NativeStore, key: str, axes: tuple[Axis, ...]) -> Tensor | None:
    """A tensor that was stored whole under the key of a tp shard. Shards of other axes are not accepted."""
    if len(axes) > 1 or axes[0].kind != "tp":
        return None
    handle = store.get_buffer(tp_key(key, axes[0].rank))
    layout: Layout | None = None if handle is None else layout_of(handle)
    return None if layout is None or layout.is_shard else decode_handle(handle)
