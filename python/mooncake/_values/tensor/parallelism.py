"""The methods that identify the shard to store by axes, and the part to read by a target."""

from __future__ import annotations

from collections.abc import Sequence

from mooncake._native import ReplicateConfig
from mooncake._values.tensor.argument import number, numbers, refuse, replication, tensors, text, texts
from mooncake._values.tensor.dtype import Tensor
from mooncake._values.tensor.native import NativeStore
from mooncake._values.tensor.parallel import InvalidAxesError
from mooncake._values.tensor.plain import get_many, lengths_code, store_objects, store_tensors
from mooncake._values.tensor.shards import Request, store_requests
from mooncake._values.tensor.target import ReadTarget, TensorParallelism
from mooncake._values.tensor.targets import Target, get_target, get_target_into
from mooncake._values.tensor.write import Writer


def _requests(parallelisms: object, writer_partitions: object) -> tuple[object, object] | None:
    """The requests of a batch, per key; None if all keys store whole tensors."""
    return None if parallelisms is None and writer_partitions is None else (parallelisms, writer_partitions)


def _store(writer: Writer, key: str, tensor: Tensor, parallelism: object, writer_partition: object) -> int:
    try:
        request = Request(parallelism, writer_partition)
    except InvalidAxesError as error:
        return writer.refuse(str(error))
    return request.store(writer, key, tensor)


def _store_from(
    writer: Writer, key: str, memory: tuple[int, int], parallelism: object, writer_partition: object
) -> int:
    try:
        request = Request(parallelism, writer_partition)
    except InvalidAxesError as error:
        return writer.refuse(str(error))
    return request.store_from(writer, key, *memory)


def _store_many(
    writer: Writer, keys: Sequence[str], values: Sequence[Tensor], parallelisms: object, parts: object
) -> list[int]:
    requests = _requests(parallelisms, parts)
    if requests is None:
        return store_tensors(writer, keys, values)
    code = lengths_code(writer, keys, values)
    if code:
        return [code] * len(keys)
    return store_requests(writer, keys, requests, lambda one, request, i: request.store(one, keys[i], values[i]))


def _store_many_from(
    writer: Writer,
    keys: Sequence[str],
    memory: tuple[Sequence[int], Sequence[int]],
    parallelisms: object,
    parts: object,
) -> list[int]:
    addresses, sizes = memory
    requests = _requests(parallelisms, parts)
    if requests is None:
        return store_objects(writer, keys, addresses, sizes)
    code = lengths_code(writer, keys, addresses, sizes)
    if code:
        return [code] * len(keys)
    return store_requests(
        writer, keys, requests, lambda one, request, i: request.store_from(one, keys[i], addresses[i], sizes[i])
    )


def _targets(function: str, targets: object, count: int) -> list[Target | None] | None:
    """One target per key, None for an invalid one. Returns None if `targets` is no list of this length."""
    if targets is None:
        return [Target(None)] * count
    if not isinstance(targets, (list, tuple)) or len(targets) != count:
        refuse(function, "targets is a list of one target per key")
        return None
    return [_target(function, target) for target in targets]


def _target(function: str, target: object) -> Target | None:
    try:
        return Target(target)
    except InvalidAxesError as error:
        refuse(function, str(error))
        return None


class ParallelismCalls:
    """The methods for shards of any parallelism. A put stores

    - a whole tensor, without `parallelism` and `writer_partition`;
    - `tensor` as the shard, with only a tp axis;
    - the shard cut out of the full `tensor`, with a tp axis among others;
    - `tensor` unchanged, with only other axes;
    - the writer's part of the full `tensor`, with `writer_partition`: an object with `rank`, `size` and `split_dim`.

    Shards along a dimension are equal. A tensor that does not divide into equal shards is refused.
    """

    def put_tensor_with_parallelism(
        self: NativeStore,
        key: str,
        tensor: Tensor,
        parallelism: TensorParallelism | None = None,
        config: ReplicateConfig | None = None,
        writer_partition: object = None,
    ) -> int:
        """Stores a tensor, or its shard. Returns 0, or a negative code: -600 if it cannot be stored in this way."""
        name = "put_tensor_with_parallelism"
        writer = Writer(self, name, replication(name, config))
        return _store(writer, text(name, "key", key), tensor, parallelism, writer_partition)

    def batch_put_tensor_with_parallelism(
        self: NativeStore,
        keys: Sequence[str],
        tensors_list: Sequence[Tensor],
        parallelisms: Sequence[TensorParallelism | None] | None = None,
        config: ReplicateConfig | None = None,
        writer_partitions: Sequence[object] | None = None,
    ) -> list[int]:
        """Stores several tensors, each as `put_tensor_with_parallelism`. Returns a list with 0 or a negative code per
        key.
        """
        name = "batch_put_tensor_with_parallelism"
        writer = Writer(self, name, replication(name, config))
        values = tensors(name, tensors_list)
        return _store_many(writer, texts(name, "keys", keys), values, parallelisms, writer_partitions)

    def put_tensor_with_parallelism_from(
        self: NativeStore,
        key: str,
        buffer_ptr: int,
        size: int,
        parallelism: TensorParallelism | None = None,
        config: ReplicateConfig | None = None,
        writer_partition: object = None,
    ) -> int:
        """Stores a full tensor from the caller's memory: `size` bytes at `buffer_ptr`, header first. With a tp axis,
        stores all of its shards.

        Returns as `put_tensor_with_parallelism`.
        """
        name = "put_tensor_with_parallelism_from"
        writer = Writer(self, name, replication(name, config))
        memory = number(name, "buffer_ptr", buffer_ptr), number(name, "size", size)
        return _store_from(writer, text(name, "key", key), memory, parallelism, writer_partition)

    def batch_put_tensor_with_parallelism_from(
        self: NativeStore,
        keys: Sequence[str],
        buffer_ptrs: Sequence[int],
        sizes: Sequence[int],
        parallelisms: Sequence[TensorParallelism | None] | None = None,
        config: ReplicateConfig | None = None,
        writer_partitions: Sequence[object] | None = None,
    ) -> list[int]:
        """Stores several tensors, each as `put_tensor_with_parallelism_from`. Returns a list with 0 or a negative code
        per key.
        """
        name = "batch_put_tensor_with_parallelism_from"
        writer = Writer(self, name, replication(name, config))
        memory = numbers(name, "buffer_ptrs", buffer_ptrs), numbers(name, "sizes", sizes)
        return _store_many_from(writer, texts(name, "keys", keys), memory, parallelisms, writer_partitions)

    def upsert_tensor_with_parallelism(
        self: NativeStore,
        key: str,
        tensor: Tensor,
        parallelism: TensorParallelism | None = None,
        config: ReplicateConfig | None = None,
        writer_partition: object = None,
    ) -> int:
        """As `put_tensor_with_parallelism`, but replaces the objects that the keys have."""
        name = "upsert_tensor_with_parallelism"
        writer = Writer(self, name, replication(name, config), upsert=True)
        return _store(writer, text(name, "key", key), tensor, parallelism, writer_partition)

    def batch_upsert_tensor_with_parallelism(
        self: NativeStore,
        keys: Sequence[str],
        tensors_list: Sequence[Tensor],
        parallelisms: Sequence[TensorParallelism | None] | None = None,
        config: ReplicateConfig | None = None,
        writer_partitions: Sequence[object] | None = None,
    ) -> list[int]:
        """As `batch_put_tensor_with_parallelism`, but replaces the objects that the keys have."""
        name = "batch_upsert_tensor_with_parallelism"
        writer = Writer(self, name, replication(name, config), upsert=True)
        values = tensors(name, tensors_list)
        return _store_many(writer, texts(name, "keys", keys), values, parallelisms, writer_partitions)

    def upsert_tensor_with_parallelism_from(
        self: NativeStore,
        key: str,
        buffer_ptr: int,
        size: int,
        parallelism: TensorParallelism | None = None,
        config: ReplicateConfig | None = None,
        writer_partition: object = None,
    ) -> int:
        """As `put_tensor_with_parallelism_from`, but replaces the objects that the keys have."""
        name = "upsert_tensor_with_parallelism_from"
        writer = Writer(self, name, replication(name, config), upsert=True)
        memory = number(name, "buffer_ptr", buffer_ptr), number(name, "size", size)
        return _store_from(writer, text(name, "key", key), memory, parallelism, writer_partition)

    def batch_upsert_tensor_with_parallelism_from(
        self: NativeStore,
        keys: Sequence[str],
        buffer_ptrs: Sequence[int],
        sizes: Sequence[int],
        parallelisms: Sequence[TensorParallelism | None] | None = None,
        config: ReplicateConfig | None = None,
        writer_partitions: Sequence[object] | None = None,
    ) -> list[int]:
        """As `batch_put_tensor_with_parallelism_from`, but replaces the objects that the keys have."""
        name = "batch_upsert_tensor_with_parallelism_from"
        writer = Writer(self, name, replication(name, config), upsert=True)
        memory = numbers(name, "buffer_ptrs", buffer_ptrs), numbers(name, "sizes", sizes)
        return _store_many_from(writer, texts(name, "keys", keys), memory, parallelisms, writer_partitions)

    def get_tensor_with_parallelism(self: NativeStore, key: str, target: ReadTarget | None = None) -> Tensor | None:
        """Reads the object as stored, a shard, or the full tensor: `target` selects which; None means as stored.

        If the shards were stored for another number of ranks, assembles the result from them. Returns None if a needed
        object is missing, or the shards do not fit together.
        """
        name = "get_tensor_with_parallelism"
        key, found = text(name, "key", key), _target(name, target)
        return None if found is None else get_target(self, key, found)

    def batch_get_tensor_with_parallelism(
        self: NativeStore, keys: Sequence[str], targets: Sequence[ReadTarget | None] | None = None
    ) -> list[Tensor | None]:
        """Reads several tensors, each as `get_tensor_with_parallelism` with its target. Returns a tensor or None per
        key.
        """
        name = "batch_get_tensor_with_parallelism"
        asked = texts(name, "keys", keys)
        if targets is None:
            return get_many(self, asked)
        found = _targets(name, targets, len(asked))
        if found is None:
            return [None] * len(asked)
        pairs = zip(asked, found, strict=True)
        return [None if target is None else get_target(self, key, target) for key, target in pairs]

    def get_tensor_with_parallelism_into(
        self: NativeStore, key: str, buffer_ptr: int, size: int, target: ReadTarget | None = None
    ) -> Tensor | None:
        """As `get_tensor_with_parallelism`, into the `size` bytes at the address `buffer_ptr`, in host memory.

        Returns a tensor that shares this memory, which must stay mapped while the tensor is used. Returns None also if
        the memory is too small.
        """
        name = "get_tensor_with_parallelism_into"
        key, found = text(name, "key", key), _target(name, target)
        ptr, length = number(name, "buffer_ptr", buffer_ptr), number(name, "size", size)
        return None if found is None else get_target_into(self, key, ptr, length, found)

    def batch_get_tensor_with_parallelism_into(
        self: NativeStore,
        keys: Sequence[str],
        buffer_ptrs: Sequence[int],
        sizes: Sequence[int],
        targets: Sequence[ReadTarget | None] | None = None,
    ) -> list[Tensor | None]:
        """Reads several tensors, each as `get_tensor_with_parallelism_into`. Returns a tensor or None per key; all
        None if the lists differ in length.
        """
        name = "batch_get_tensor_with_parallelism_into"
        asked = texts(name, "keys", keys)
        ptrs, lengths = numbers(name, "buffer_ptrs", buffer_ptrs), numbers(name, "sizes", sizes)
        found = _targets(name, targets, len(asked))
        if found is None or not len(asked) == len(ptrs) == len(lengths):
            refuse(name, "the lists differ in length")
            return [None] * len(asked)
        return [
            None if target is None else get_target_into(self, key, ptr, length, target)
            for key, ptr, length, target in zip(asked, ptrs, lengths, found, strict=True)
        ]
