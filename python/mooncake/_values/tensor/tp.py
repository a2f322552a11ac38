"""Tensors that are split over the ranks of tensor parallelism: a put stores all shards, a get reads one."""

from __future__ import annotations

from collections.abc import Sequence

from mooncake._native import ReplicateConfig
from mooncake._values.tensor.argument import number, numbers, replication, small, tensors, text, texts
from mooncake._values.tensor.dtype import Tensor
from mooncake._values.tensor.native import NativeStore, is_set_up
from mooncake._values.tensor.parallel import Axis, shard_key, tp_key, with_tp
from mooncake._values.tensor.payload import Elements, Payload, elements_of, shard_of
from mooncake._values.tensor.plain import get_many, get_many_into, lengths_code, store_objects, store_tensors
from mooncake._values.tensor.read import layout_at, memory_at, view
from mooncake._values.tensor.write import Writer, first_failure


def elements_at(store: NativeStore, address: int, size: int) -> Elements | None:
    """The elements of a full tensor in the caller's memory, header first; None for a shard or no tensor."""
    layout = layout_at(store, address, size)
    if layout is None or layout.local_shape != layout.global_shape:
        return None
    tensor = view(memory_at(address, size), layout)
    return None if tensor is None else Elements(layout, tensor)


def all_shards(elements: Elements | None, axes: tuple[Axis, ...], tp: Axis) -> list[Payload] | None:
    """One payload per rank of the tp axis; None if the tensor does not split into equal parts."""
    if elements is None or tp.split_dim is None:
        return None
    payloads = []
    for rank in range(tp.size):
        shard = shard_of(elements, with_tp(axes, rank, tp.size), tp.split_dim, rank, tp.size)
        if shard is None:
            return None
        payloads.append(shard.payload())
    return payloads


def store_split(writer: Writer, key: str, elements: Elements | None, axes: tuple[Axis, ...], tp: Axis) -> int:
    """Stores the shards of all ranks in one batch. Returns 0 or the first negative code."""
    payloads = all_shards(elements, axes, tp)
    if payloads is None:
        return writer.refuse(f"the tensor for {key!r} does not split into {tp.size} equal parts")
    keys = [shard_key(key, with_tp(axes, rank, tp.size)) for rank in range(tp.size)]
    return first_failure(writer.write_all(keys, payloads))


def store_all_split(writer: Writer, keys: Sequence[str], values: Sequence[Elements | None], tp: Axis) -> list[int]:
    """Stores the shards of several tensors in one batch. Returns per key 0 or the first negative code of its shards."""
    code = lengths_code(writer, keys, values) or writer.group_code(len(keys))
    if code:
        return [code] * len(keys)
    results, positions = [0] * len(keys), []
    payloads: list[Payload] = []
    for i, elements in enumerate(values):
        shards = all_shards(elements, (tp,), tp)
        if shards is None:
            results[i] = writer.refuse(f"the tensor for {keys[i]!r} does not split into {tp.size} equal parts")
            continue
        positions.append(i)
        payloads += shards
    repeated = [i for i in positions for _ in range(tp.size)]
    stored_keys = [tp_key(keys[i], rank) for i in positions for rank in range(tp.size)]
    codes = writer.for_keys(repeated).write_all(stored_keys, payloads)
    for place, i in enumerate(positions):
        results[i] = first_failure(codes[place * tp.size : (place + 1) * tp.size])
    return results


class _Split:
    """The checked arguments tp_rank, tp_size and split_dim of one call."""

    def __init__(self, function: str, tp_rank: int, tp_size: int, split_dim: int = 0) -> None:
        rank, size = small(function, "tp_rank", tp_rank), small(function, "tp_size", tp_size)
        self.axis = Axis("tp", rank, size, small(function, "split_dim", split_dim))

    @property
    def is_whole(self) -> bool:
        """Whether the tensor stays whole."""
        return self.axis.size <= 1

    def key(self, key: str) -> str:
        """The key that this rank reads: that of its shard, or of the whole tensor."""
        return key if self.is_whole else tp_key(key, self.axis.rank)

    def store(self, writer: Writer, keys: Sequence[str], values: Sequence[object]) -> list[int]:
        if self.is_whole:
            return store_tensors(writer, keys, values)
        return store_all_split(writer, keys, [elements_of(value) for value in values], self.axis)

    def store_from(
        self, writer: Writer, keys: Sequence[str], addresses: Sequence[int], sizes: Sequence[int]
    ) -> list[int]:
        if self.is_whole:
            return store_objects(writer, keys, addresses, sizes)
        code = lengths_code(writer, keys, addresses, sizes)
        if code:
            return [code] * len(keys)
        found = [elements_at(writer.store, address, size) for address, size in zip(addresses, sizes, strict=True)]
        return store_all_split(writer, keys, found, self.axis)


class TpCalls:
    """The methods for tensors that are split over ranks. The shard of `rank` has the key `<key>_tp_<rank>`.

    Every put stores the shards of all ranks; `tp_rank` does not matter. The length of `split_dim` must be a multiple
    of `tp_size`. With `tp_size` 1 or less, a tensor is stored and read whole, under its own key.
    """

    def put_tensor_with_tp(
        self: NativeStore, key: str, tensor: Tensor, tp_rank: int = 0, tp_size: int = 1, split_dim: int = 0
    ) -> int:
        """Splits a tensor along dimension `split_dim`, and stores its `tp_size` shards.

        Returns 0 or the first negative code: -600 if it does not split into equal parts.
        """
        name = "put_tensor_with_tp"
        split = _Split(name, tp_rank, tp_size, split_dim)
        return split.store(Writer(self, name), [text(name, "key", key)], [tensor])[0]

    def batch_put_tensor_with_tp(
        self: NativeStore,
        base_keys: Sequence[str],
        tensors_list: Sequence[Tensor],
        tp_rank: int = 0,
        tp_size: int = 1,
        split_dim: int = 0,
    ) -> list[int]:
        """Stores several tensors, each as `put_tensor_with_tp`, in one batch. Returns a list with 0 or a negative code
        per key.
        """
        name = "batch_put_tensor_with_tp"
        split = _Split(name, tp_rank, tp_size, split_dim)
        return split.store(Writer(self, name), texts(name, "base_keys", base_keys), tensors(name, tensors_list))

    def pub_tensor_with_tp(
        self: NativeStore,
        key: str,
        tensor: Tensor,
        config: ReplicateConfig | None = None,
        tp_rank: int = 0,
        tp_size: int = 1,
        split_dim: int = 0,
    ) -> int:
        """Stores the shards of a tensor, as `put_tensor_with_tp`, with a `ReplicateConfig`."""
        name = "pub_tensor_with_tp"
        split = _Split(name, tp_rank, tp_size, split_dim)
        writer = Writer(self, name, replication(name, config))
        return split.store(writer, [text(name, "key", key)], [tensor])[0]

    def batch_pub_tensor_with_tp(
        self: NativeStore,
        base_keys: Sequence[str],
        tensors_list: Sequence[Tensor],
        config: ReplicateConfig | None = None,
        tp_rank: int = 0,
        tp_size: int = 1,
        split_dim: int = 0,
    ) -> list[int]:
        """Stores the shards of several tensors with a `ReplicateConfig`. Returns a list with 0 or a negative code per
        key.
        """
        name = "batch_pub_tensor_with_tp"
        split = _Split(name, tp_rank, tp_size, split_dim)
        writer = Writer(self, name, replication(name, config))
        return split.store(writer, texts(name, "base_keys", base_keys), tensors(name, tensors_list))

    def put_tensor_with_tp_from(
        self: NativeStore,
        key: str,
        buffer_ptr: int,
        size: int,
        tp_rank: int = 0,
        tp_size: int = 1,
        split_dim: int = 0,
    ) -> int:
        """Stores the shards of a full tensor in the caller's memory: `size` bytes at the address `buffer_ptr`, header
        first.

        Returns 0, or a negative code: -600 if the memory holds no full tensor.
        """
        name = "put_tensor_with_tp_from"
        split = _Split(name, tp_rank, tp_size, split_dim)
        key = text(name, "key", key)
        ptr, length = number(name, "buffer_ptr", buffer_ptr), number(name, "size", size)
        return split.store_from(Writer(self, name), [key], [ptr], [length])[0]

    def batch_put_tensor_with_tp_from(
        self: NativeStore,
        base_keys: Sequence[str],
        buffer_ptrs: Sequence[int],
        sizes: Sequence[int],
        tp_rank: int = 0,
        tp_size: int = 1,
        split_dim: int = 0,
    ) -> list[int]:
        """Stores several tensors, as `put_tensor_with_tp_from`. Returns a list with 0 or a negative code per key."""
        name = "batch_put_tensor_with_tp_from"
        split = _Split(name, tp_rank, tp_size, split_dim)
        keys = texts(name, "base_keys", base_keys)
        ptrs, lengths = numbers(name, "buffer_ptrs", buffer_ptrs), numbers(name, "sizes", sizes)
        return split.store_from(Writer(self, name), keys, ptrs, lengths)

    def get_tensor_with_tp(
        self: NativeStore, key: str, tp_rank: int = 0, tp_size: int = 1, split_dim: int = 0
    ) -> Tensor | None:
        """A copy of the shard of `tp_rank`, as it was stored; None if there is none."""
        name = "get_tensor_with_tp"
        split = _Split(name, tp_rank, tp_size, split_dim)
        return get_many(self, [split.key(text(name, "key", key))])[0]

    def batch_get_tensor_with_tp(
        self: NativeStore, base_keys: Sequence[str], tp_rank: int = 0, tp_size: int = 1
    ) -> list[Tensor | None]:
        """Copies of the shards of `tp_rank` of several tensors, in one round trip; None for a missing shard."""
        name = "batch_get_tensor_with_tp"
        split = _Split(name, tp_rank, tp_size)
        return get_many(self, [split.key(key) for key in texts(name, "base_keys", base_keys)])

    def get_tensor_with_tp_into(
        self: NativeStore, key: str, buffer_ptr: int, size: int, tp_rank: int = 0, tp_size: int = 1, split_dim: int = 0
    ) -> Tensor | None:
        """Reads the shard of `tp_rank` into the caller's memory, as `get_tensor_into`. Returns -600 if the address is
        in a GPU.
        """
        name = "get_tensor_with_tp_into"
        split = _Split(name, tp_rank, tp_size, split_dim)
        key = split.key(text(name, "key", key))
        ptr, length = number(name, "buffer_ptr", buffer_ptr), number(name, "size", size)
        if ptr == 0 or not is_set_up(self):
            return None
        return get_many_into(self, name, [key], [ptr], [length])[0]

    def batch_get_tensor_with_tp_into(
        self: NativeStore,
        base_keys: Sequence[str],
        buffer_ptrs: Sequence[int],
        sizes: Sequence[int],
        tp_rank: int = 0,
        tp_size: int = 1,
    ) -> list[Tensor | None]:
        """Reads the shards of `tp_rank` of several tensors, as `batch_get_tensor_into`. Returns None per key if the
        store is not set up.
        """
        name = "batch_get_tensor_with_tp_into"
        split = _Split(name, tp_rank, tp_size)
        keys = [split.key(key) for key in texts(name, "base_keys", base_keys)]
        ptrs, lengths = numbers(name, "buffer_ptrs", buffer_ptrs), numbers(name, "sizes", sizes)
        if not is_set_up(self):
            return [None] * len(keys)
        return get_many_into(self, name, keys, ptrs, lengths)
