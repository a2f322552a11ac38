"""Writes of the parallelism methods: decides what one request stores, and under which keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mooncake._values.tensor.argument import INVALID_PARAMS
from mooncake._values.tensor.manifest import Manifest
from mooncake._values.tensor.parallel import (
    Axis,
    InvalidAxesError,
    Partition,
    parallelism_manifest_key,
    parse_axes,
    parse_partition,
    partition_key,
    shard_key,
    shard_layout,
    splits,
    tp_axis,
    writer_manifest_key,
)
from mooncake._values.tensor.payload import Elements, elements_of, raw_payload, shard_of
from mooncake._values.tensor.plain import store_objects, store_tensor
from mooncake._values.tensor.read import layout_at, memory_at, view
from mooncake._values.tensor.tp import elements_at, store_split
from mooncake._values.tensor.write import Writer


class Request:
    """The part of a tensor that a call stores: all of it, the shard of some axes, or a writer's partition.

    Raises InvalidAxesError for axes or a partition that identify no shard, and if both are given.
    """

    def __init__(self, parallelism: object, writer_partition: object) -> None:
        if parallelism is not None and writer_partition is not None:
            raise InvalidAxesError("writer_partition and parallelism exclude each other")
        self.axes = () if parallelism is None else parse_axes(parallelism)
        self.partition = None if writer_partition is None else parse_partition(writer_partition)
        self.tp = tp_axis(self.axes)

    def store(self, writer: Writer, key: str, tensor: object) -> int:
        """Stores the requested part of a tensor. Returns 0 or a negative code."""
        if self.partition is None and not self.axes:
            return store_tensor(writer, key, tensor)
        elements = elements_of(tensor)
        if elements is None:
            return writer.refuse(f"no tensor that can be stored for {key!r}")
        if self.partition is not None:
            return store_partition(writer, key, elements, self.partition)
        if self.tp is None:
            return _store_as_is(writer, key, elements, self.axes)
        if len(self.axes) == 1:
            return _store_tp_shard(writer, key, elements, self.tp)
        return _store_cut(writer, key, elements, self.axes, self.tp)

    def store_from(self, writer: Writer, key: str, address: int, size: int) -> int:
        """Stores the requested part of a tensor in the caller's memory. With a tp axis, stores the shards of all its
        ranks.

        Returns 0 or a negative code.
        """
        if self.partition is None and not self.axes:
            return store_objects(writer, [key], [address], [size])[0]
        layout = layout_at(writer.store, address, size)
        if layout is None:
            return writer.refuse(f"the memory for {key!r} holds no tensor")
        if self.axes and self.tp is None:
            stored = shard_layout(layout.dtype, layout.global_shape, layout.local_shape, self.axes)
            tensor = view(memory_at(address, size), layout)
            if stored is None or tensor is None:
                return writer.refuse(f"the memory for {key!r} holds no tensor of a known type")
            return writer.write(shard_key(key, self.axes), Elements(stored, tensor).payload())
        elements = elements_at(writer.store, address, size)
        if elements is None:
            return writer.refuse(f"the memory for {key!r} holds a shard, not a full tensor")
        if self.partition is not None:
            return store_partition(writer, key, elements, self.partition)
        return INVALID_PARAMS if self.tp is None else store_split(writer, key, elements, self.axes, self.tp)


def store_partition(writer: Writer, key: str, elements: Elements, partition: Partition) -> int:
    """Stores a writer's part of a full tensor, then the manifest. Returns 0 or a negative code."""
    rank, size, split_dim = partition.rank, partition.size, partition.split_dim
    shard = shard_of(elements, (partition.axis(),), split_dim, rank, size)
    if shard is None:
        return writer.refuse(f"the tensor for {key!r} does not split into {size} equal parts")
    return _with_manifest(writer, partition_key(key, partition), shard, writer_manifest_key(key), split_dim, size)


def _store_as_is(writer: Writer, key: str, elements: Elements, axes: tuple[Axis, ...]) -> int:
    """Stores the whole tensor as the shard of axes that do not split it."""
    shape = elements.layout.global_shape
    layout = shard_layout(elements.layout.dtype, shape, shape, axes)
    if layout is None:
        return writer.refuse(f"axes out of range of the tensor for {key!r}")
    return writer.write(shard_key(key, axes), Elements(layout, elements.tensor).payload())


def _store_tp_shard(writer: Writer, key: str, elements: Elements, tp: Axis) -> int:
    """Stores a tensor that is already a shard: the full tensor is `size` times as long."""
    local_shape, split_dim = elements.layout.local_shape, tp.split_dim
    if split_dim is None or not 0 <= split_dim < len(local_shape):
        return writer.refuse(f"split_dim is out of range of the tensor for {key!r}")
    extents = list(local_shape)
    extents[split_dim] *= tp.size
    global_shape = tuple(extents)
    layout = shard_layout(elements.layout.dtype, global_shape, local_shape, (tp,))
    if layout is None or not splits(global_shape, split_dim, tp.size) or extents[split_dim] >> 63:
        return writer.refuse(f"the tensor for {key!r} is no shard of {tp.size}")
    shard = Elements(layout, elements.tensor)
    return _with_manifest(writer, shard_key(key, (tp,)), shard, parallelism_manifest_key(key), split_dim, tp.size)


def _store_cut(writer: Writer, key: str, elements: Elements, axes: tuple[Axis, ...], tp: Axis) -> int:
    """Cuts the shard that the axes identify out of a full tensor, and stores it."""
    split_dim = -1 if tp.split_dim is None else tp.split_dim
    shard = shard_of(elements, axes, split_dim, tp.rank, tp.size)
    if shard is None:
        return writer.refuse(f"the tensor for {key!r} does not split into {tp.size} equal parts")
    return _with_manifest(writer, shard_key(key, axes), shard, parallelism_manifest_key(key), split_dim, tp.size)


def _with_manifest(writer: Writer, key: str, shard: Elements, manifest_key: str, split_dim: int, count: int) -> int:
    """Stores a shard, then the manifest with the number of shards. Returns 0 or the first negative code."""
    code = writer.write(key, shard.payload())
    if code:
        return code
    layout = shard.layout
    found = Manifest(layout.dtype, layout.global_shape, split_dim, count)
    return writer.write(manifest_key, raw_payload(found.pack()))


def store_requests(
    writer: Writer,
    keys: Sequence[str],
    requests: tuple[object, object],
    store_one: Callable[[Writer, Request, int], int],
) -> list[int]:
    """Stores for each key the part that its item of `parallelisms` or `writer_partitions` requests.

    Returns a list with 0 or a negative code per key.
    """
    parallelisms, partitions = requests
    items = partitions if parallelisms is None else parallelisms
    code = writer.group_code(len(keys))
    if parallelisms is not None and partitions is not None:
        code = writer.refuse("writer_partitions and parallelisms exclude each other")
    elif not isinstance(items, (list, tuple)) or len(items) != len(keys):
        code = writer.refuse("parallelisms and writer_partitions are lists of one item per key")
    if code or not isinstance(items, (list, tuple)):
        return [code] * len(keys)
    results = []
    for i, item in enumerate(items):
        pair = (item, None) if parallelisms is not None else (None, item)
        try:
            results.append(store_one(writer.for_keys([i]), Request(*pair), i))
        except InvalidAxesError as error:
            results.append(writer.refuse(str(error)))
    return results
