"""Assembles a tensor, or a shard of it, from shards that were stored for another number of ranks.

Every shard is read as a whole, so its header and its elements are of one version. Memory for the result is allocated
only after all shards are read and fit together.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import NamedTuple

from mooncake._native import BufferHandle
from mooncake._values.tensor import manifest
from mooncake._values.tensor.dtype import ITEM_BYTES, torch_module
from mooncake._values.tensor.layout import HEADER_BYTES, Layout, full_layout
from mooncake._values.tensor.native import NativeStore
from mooncake._values.tensor.parallel import (
    Axis,
    Partition,
    axes_of,
    in_order,
    parallelism_manifest_key,
    partition_key,
    shard_key,
    shard_layout,
    shard_shape,
    splits,
    tp_axis,
    with_tp,
    writer_manifest_key,
)
from mooncake._values.tensor.read import layout_of, memory_at


class Source(NamedTuple):
    """A tensor stored as equal shards along `split_dim`. `axes` identify the shards, together with the tp rank."""

    key: str
    dtype: int
    global_shape: tuple[int, ...]
    split_dim: int
    shard_count: int
    axes: tuple[Axis, ...]
    is_writers: bool = False

    @property
    def extent(self) -> int:
        """The length of one shard along the split dimension."""
        return self.global_shape[self.split_dim] // self.shard_count

    def is_whole(self) -> bool:
        """Whether the tensor divides into this number of equal shards."""
        return splits(self.global_shape, self.split_dim, self.shard_count)

    def key_of(self, rank: int) -> str:
        """The key of one shard."""
        if self.is_writers:
            return partition_key(self.key, Partition(rank, self.shard_count, self.split_dim))
        return shard_key(self.key, with_tp(self.axes, rank, self.shard_count))

    def owns(self, rank: int, layout: Layout) -> bool:
        """Whether an object with this layout is the shard of `rank`."""
        local_shape = shard_shape(self.global_shape, self.split_dim, self.shard_count)
        expected = (self.dtype, self.global_shape, local_shape)
        if (layout.dtype, layout.global_shape, layout.local_shape) != expected:
            return False
        return axes_of(layout) == in_order(with_tp(self.axes, rank, self.shard_count))


class Shard(NamedTuple):
    """A stored shard: its rank among the shards, and its bytes."""

    rank: int
    handle: BufferHandle
    data_offset: int


class Assembly(NamedTuple):
    """The shards of which a result consists. The result begins at index `start` of the split dimension."""

    source: Source
    shards: tuple[Shard, ...]
    start: int
    layout: Layout

    def in_memory(self) -> bytearray:
        """The result as an object, in new memory."""
        memory = bytearray(self.layout.total_bytes)
        self._fill(memory)
        return memory

    def write_at(self, address: int) -> int:
        """Writes the result to the caller's memory, which must have room for it. Returns its length in bytes."""
        self._fill(memory_at(address, self.layout.total_bytes))
        return self.layout.total_bytes

    def _fill(self, memory: object) -> None:
        """Writes the header and the elements. Copies shards as rows of bytes, so their element type does not matter."""
        torch = torch_module()
        flat = torch.frombuffer(memory, dtype=torch.uint8)
        flat[:HEADER_BYTES] = torch.frombuffer(bytearray(self.layout.pack()), dtype=torch.uint8)
        if self.layout.data_bytes == 0:
            return
        source = self.source
        rows = prod(source.global_shape[: source.split_dim])
        step = prod(source.global_shape[source.split_dim + 1 :]) * ITEM_BYTES[source.dtype]
        target = flat[HEADER_BYTES:].view(rows, -1)
        end = self.start + target.shape[1] // step
        for shard in self.shards:
            first = shard.rank * source.extent
            low, high = max(first, self.start), min(first + source.extent, end)
            stored = torch.frombuffer(shard.handle, dtype=torch.uint8, offset=shard.data_offset).view(rows, -1)
            part = stored[:, (low - first) * step : (high - first) * step]
            target[:, (low - self.start) * step : (high - self.start) * step] = part


def full_from_writers(store: NativeStore, key: str) -> Assembly | None:
    """The full tensor, from the shards of writers' partitions; None if there are none, or one is missing or wrong."""
    found = _manifest(store, writer_manifest_key(key))
    if found is None:
        return None
    axes = (Partition(0, found.shard_count, found.split_dim).axis(),)
    source = Source(key, found.dtype, found.global_shape, found.split_dim, found.shard_count, axes, is_writers=True)
    return _assemble(store, source, 0, full_layout(source.dtype, source.global_shape)) if source.is_whole() else None


def full(store: NativeStore, key: str, axes: tuple[Axis, ...]) -> Assembly | None:
    """The full tensor, from the shards that these axes identify, of any number; None as for `full_from_writers`."""
    for source in _sources(store, key, axes):
        assembly = _assemble(store, source, 0, full_layout(source.dtype, source.global_shape))
        if assembly is not None:
            return assembly
    return None


def shard(store: NativeStore, key: str, axes: tuple[Axis, ...]) -> Assembly | None:
    """The shard that these axes identify, from another number of shards; None as for `full_from_writers`."""
    tp = tp_axis(axes)
    if tp is None:
        return None
    for source in _sources(store, key, axes):
        local_shape = shard_shape(source.global_shape, source.split_dim, tp.size)
        layout = shard_layout(source.dtype, source.global_shape, local_shape, axes)
        if layout is None:
            continue
        assembly = _assemble(store, source, tp.rank * local_shape[source.split_dim], layout)
        if assembly is not None:
            return assembly
    return None


def _sources(store: NativeStore, key: str, axes: tuple[Axis, ...]) -> Iterator[Source]:
    """The sources that may have the tensor: first as the manifest describes it, then as the first shard does. Only
    those that divide into both numbers of shards.
    """
    tp = tp_axis(axes)
    if tp is None:
        return
    found = _manifest(store, parallelism_manifest_key(key))
    if found is not None:
        source = Source(key, found.dtype, found.global_shape, found.split_dim, found.shard_count, axes)
        if _answers(source, tp):
            yield source
    first = _read(store, [shard_key(key, with_tp(axes, 0, tp.size))])
    stored = tp_axis(axes_of(first[0][1]) or ()) if first else None
    if first and stored is not None and stored.split_dim is not None:
        layout = first[0][1]
        source = Source(key, layout.dtype, layout.global_shape, stored.split_dim, stored.size, axes)
        if _answers(source, tp):
            yield source


def _answers(source: Source, tp: Axis) -> bool:
    return (
        source.split_dim == tp.split_dim
        and source.is_whole()
        and splits(source.global_shape, source.split_dim, tp.size)
    )


def _assemble(store: NativeStore, source: Source, start: int, layout: Layout) -> Assembly | None:
    """Reads the shards that overlap the result. If the result is empty, reads all of them."""
    end = start + layout.local_shape[source.split_dim]
    ranks = range(source.shard_count)
    if end > start:
        ranks = range(start // source.extent, -(-end // source.extent))
    read = _read(store, [source.key_of(rank) for rank in ranks])
    if read is None or not all(source.owns(rank, stored) for rank, (_, stored) in zip(ranks, read, strict=True)):
        return None
    shards = (Shard(rank, handle, stored.data_offset) for rank, (handle, stored) in zip(ranks, read, strict=True))
    return Assembly(source, tuple(shards), start, layout)


def _read(store: NativeStore, keys: list[str]) -> list[tuple[BufferHandle, Layout]] | None:
    """The tensors under all the keys; None if one is missing or no tensor."""
    found = []
    for handle in store.batch_get_buffer(keys):
        layout = None if handle is None else layout_of(handle)
        if handle is None or layout is None:
            return None
        found.append((handle, layout))
    return found if len(found) == len(keys) else None


def _manifest(store: NativeStore, key: str) -> manifest.Manifest | None:
    handle = store.get_buffer(key)
    return None if handle is None else manifest.parse(bytes(memoryview(handle)[: manifest.MANIFEST_BYTES]))
