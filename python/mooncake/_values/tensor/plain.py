"""Whole tensors: put, publish, upsert and get, singly and in batches, and from and into the caller's memory."""

from __future__ import annotations

from collections.abc import Sequence

from mooncake._native import ReplicateConfig
from mooncake._values.tensor.argument import INVALID_PARAMS, number, numbers, refuse, replication, tensors, text, texts
from mooncake._values.tensor.cuda import read_into_cuda
from mooncake._values.tensor.dtype import Tensor
from mooncake._values.tensor.native import NativeStore, is_in_gpu, is_set_up
from mooncake._values.tensor.payload import Payload, elements_of, memory_payload
from mooncake._values.tensor.read import decode_at, decode_handle, layout_at
from mooncake._values.tensor.write import Writer

IN_GPU = "tensors are shown in memory of the host; for a GPU there is get_tensor_into_cuda"


def store_tensor(writer: Writer, key: str, tensor: object) -> int:
    """Stores one tensor. Returns 0 or a negative code."""
    return store_tensors(writer, [key], [tensor])[0]


def store_tensors(writer: Writer, keys: Sequence[str], values: Sequence[object]) -> list[int]:
    """Stores tensors, one per key. Returns 0 or a negative code per key: -600 for a value that is no tensor."""
    code = lengths_code(writer, keys, values)
    if code:
        return [code] * len(keys)
    found = [elements_of(value) for value in values]
    return writer.write_all(keys, [None if elements is None else elements.payload() for elements in found])


def store_objects(writer: Writer, keys: Sequence[str], addresses: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """Stores objects from the caller's memory, each a header and elements. If one is no tensor, stores none of them."""
    code = lengths_code(writer, keys, addresses, sizes)
    if code:
        return [code] * len(keys)
    payloads: list[Payload] = []
    for key, address, size in zip(keys, addresses, sizes, strict=True):
        if layout_at(writer.store, address, size) is None:
            return [writer.refuse(f"the memory for {key!r} holds no tensor")] * len(keys)
        payloads.append(memory_payload(address, size))
    return writer.write_all(keys, payloads)


def lengths_code(writer: Writer, keys: Sequence[str], *others: Sequence[object]) -> int:
    """0, or -600 if the lists differ in length."""
    if all(len(other) == len(keys) for other in others):
        return 0
    return writer.refuse("the lists differ in length")


def get_many(store: NativeStore, keys: Sequence[str]) -> list[Tensor | None]:
    """The tensors under the keys; None for a key without an object, or whose object is no tensor."""
    return [decode_handle(handle) for handle in store.batch_get_buffer(keys)]


def get_many_into(
    store: NativeStore, function: str, keys: Sequence[str], addresses: Sequence[int], sizes: Sequence[int]
) -> list[Tensor | None]:
    """Reads objects into the caller's memory. Refuses the call, with -600 per key, if the lists differ in length, an
    address is null or in a GPU, or the store is not set up.
    """
    if not len(keys) == len(addresses) == len(sizes):
        return [refuse(function, "the lists differ in length")] * len(keys)
    if 0 in addresses:
        return [refuse(function, "an address is null")] * len(keys)
    if not is_set_up(store):
        return [INVALID_PARAMS] * len(keys)
    if any(is_in_gpu(store, address, size) for address, size in zip(addresses, sizes, strict=True)):
        return [refuse(function, IN_GPU)] * len(keys)
    lengths = store.batch_get_into(keys, addresses, sizes)
    return [decode_at(address, length) for address, length in zip(addresses, lengths, strict=True)]


class PlainCalls:
    """The methods for whole tensors. Writes return 0 or a negative code. Reads return a tensor or None."""

    def put_tensor(self: NativeStore, key: str, tensor: Tensor) -> int:
        """Stores a tensor. A contiguous tensor, on this host or on a GPU, is stored without a copy of its elements
        where possible.

        Returns 0, or a negative code as `put_from` does: -600 if it is no tensor or cannot be stored.
        """
        return store_tensor(Writer(self, "put_tensor"), text("put_tensor", "key", key), tensor)

    def batch_put_tensor(self: NativeStore, keys: Sequence[str], tensors_list: Sequence[Tensor]) -> list[int]:
        """Stores several tensors, each as `put_tensor`. Returns a list with 0 or a negative code per key."""
        name = "batch_put_tensor"
        return store_tensors(Writer(self, name), texts(name, "keys", keys), tensors(name, tensors_list))

    def put_tensor_from(self: NativeStore, key: str, buffer_ptr: int, size: int) -> int:
        """Stores the `size` bytes at the address `buffer_ptr`: a header and the elements, as `get_tensor_into` writes
        them.

        Returns 0, or a negative code: -600 if the bytes are no tensor.
        """
        name = "put_tensor_from"
        key = text(name, "key", key)
        ptr, length = number(name, "buffer_ptr", buffer_ptr), number(name, "size", size)
        return store_objects(Writer(self, name), [key], [ptr], [length])[0]

    def batch_put_tensor_from(
        self: NativeStore, keys: Sequence[str], buffer_ptrs: Sequence[int], sizes: Sequence[int]
    ) -> list[int]:
        """Stores several tensors, each as `put_tensor_from`. If the bytes of one are no tensor, stores none.

        Returns a list with 0 or a negative code per key.
        """
        name = "batch_put_tensor_from"
        ptrs, lengths = numbers(name, "buffer_ptrs", buffer_ptrs), numbers(name, "sizes", sizes)
        return store_objects(Writer(self, name), texts(name, "keys", keys), ptrs, lengths)

    def pub_tensor(self: NativeStore, key: str, tensor: Tensor, config: ReplicateConfig | None = None) -> int:
        """Stores a tensor, as `put_tensor`, with a `ReplicateConfig`."""
        name = "pub_tensor"
        writer = Writer(self, name, replication(name, config))
        return store_tensor(writer, text(name, "key", key), tensor)

    def batch_pub_tensor(
        self: NativeStore, keys: Sequence[str], tensors_list: Sequence[Tensor], config: ReplicateConfig | None = None
    ) -> list[int]:
        """Stores several tensors, as `batch_put_tensor`, with a `ReplicateConfig`."""
        name = "batch_pub_tensor"
        writer = Writer(self, name, replication(name, config))
        return store_tensors(writer, texts(name, "keys", keys), tensors(name, tensors_list))

    def upsert_tensor(self: NativeStore, key: str, tensor: Tensor) -> int:
        """Stores a tensor, as `put_tensor`, and replaces the object that the key has."""
        writer = Writer(self, "upsert_tensor", upsert=True)
        return store_tensor(writer, text("upsert_tensor", "key", key), tensor)

    def batch_upsert_tensor(self: NativeStore, keys: Sequence[str], tensors_list: Sequence[Tensor]) -> list[int]:
        """Stores several tensors, as `batch_put_tensor`, and replaces the objects that the keys have."""
        name = "batch_upsert_tensor"
        writer = Writer(self, name, upsert=True)
        return store_tensors(writer, texts(name, "keys", keys), tensors(name, tensors_list))

    def upsert_tensor_from(self: NativeStore, key: str, buffer_ptr: int, size: int) -> int:
        """Stores a tensor from the caller's memory, as `put_tensor_from`, and replaces the object that the key has."""
        name = "upsert_tensor_from"
        key = text(name, "key", key)
        ptr, length = number(name, "buffer_ptr", buffer_ptr), number(name, "size", size)
        return store_objects(Writer(self, name, upsert=True), [key], [ptr], [length])[0]

    def batch_upsert_tensor_from(
        self: NativeStore, keys: Sequence[str], buffer_ptrs: Sequence[int], sizes: Sequence[int]
    ) -> list[int]:
        """Stores several tensors, each as `upsert_tensor_from`. If the bytes of one are no tensor, stores none.

        Returns a list with 0 or a negative code per key.
        """
        name = "batch_upsert_tensor_from"
        ptrs, lengths = numbers(name, "buffer_ptrs", buffer_ptrs), numbers(name, "sizes", sizes)
        return store_objects(Writer(self, name, upsert=True), texts(name, "keys", keys), ptrs, lengths)

    def upsert_pub_tensor(self: NativeStore, key: str, tensor: Tensor, config: ReplicateConfig | None = None) -> int:
        """Stores a tensor, as `put_tensor`, with a `ReplicateConfig`, and replaces the object that the key has."""
        name = "upsert_pub_tensor"
        writer = Writer(self, name, replication(name, config), upsert=True)
        return store_tensor(writer, text(name, "key", key), tensor)

    def batch_upsert_pub_tensor(
        self: NativeStore, keys: Sequence[str], tensors_list: Sequence[Tensor], config: ReplicateConfig | None = None
    ) -> list[int]:
        """Stores several tensors, each as `upsert_pub_tensor`. Returns a list with 0 or a negative code per key."""
        name = "batch_upsert_pub_tensor"
        writer = Writer(self, name, replication(name, config), upsert=True)
        return store_tensors(writer, texts(name, "keys", keys), tensors(name, tensors_list))

    def get_tensor(self: NativeStore, key: str) -> Tensor | None:
        """A copy of the tensor under the key. Returns None if there is no object, or it is no tensor."""
        return decode_handle(self.get_buffer(text("get_tensor", "key", key)))

    def batch_get_tensor(self: NativeStore, keys: Sequence[str]) -> list[Tensor | None]:
        """The tensors under several keys, each as from `get_tensor`, in one round trip."""
        return get_many(self, texts("batch_get_tensor", "keys", keys))

    def get_tensor_into(self: NativeStore, key: str, buffer_ptr: int, size: int) -> Tensor | None:
        """Reads a tensor into the `size` bytes at the address `buffer_ptr`, in host memory: its header, then its
        elements.

        Returns a tensor that shares this memory, which must stay mapped while the tensor is used. Returns None if
        there is no object, it is no tensor, or it is longer than `size`.
        """
        name = "get_tensor_into"
        key = text(name, "key", key)
        ptr, length = number(name, "buffer_ptr", buffer_ptr), number(name, "size", size)
        if ptr == 0:
            refuse(name, "the address is null")
            return None
        if is_in_gpu(self, ptr, length):
            refuse(name, IN_GPU)
            return None
        return decode_at(ptr, self.get_into(key, ptr, length))

    def batch_get_tensor_into(
        self: NativeStore, keys: Sequence[str], buffer_ptrs: Sequence[int], sizes: Sequence[int]
    ) -> list[Tensor | None]:
        """Reads several tensors, each as `get_tensor_into`, in one round trip.

        Returns a list with a tensor or None per key. The list has -600 per key if the lists differ in length, an
        address is null or in a GPU, or the store is not set up.
        """
        name = "batch_get_tensor_into"
        ptrs, lengths = numbers(name, "buffer_ptrs", buffer_ptrs), numbers(name, "sizes", sizes)
        return get_many_into(self, name, texts(name, "keys", keys), ptrs, lengths)

    def get_tensor_into_cuda(self: NativeStore, key: str, tensor: Tensor) -> int:
        """Reads a tensor's elements into `tensor`, which lies on a GPU and has the same type and shape. It need not be
        registered.

        Returns 0, or a negative code: -600 if `tensor` is not contiguous, lies on the host, or has another type or
        shape. After an error its content is unspecified.
        """
        name = "get_tensor_into_cuda"
        return read_into_cuda(self, name, [text(name, "key", key)], [tensor])[0]

    def batch_get_tensor_into_cuda(self: NativeStore, keys: Sequence[str], tensors_list: Sequence[Tensor]) -> list[int]:
        """Reads several tensors, each as `get_tensor_into_cuda`. Returns a list with 0 or a negative code per key."""
        name = "batch_get_tensor_into_cuda"
        return read_into_cuda(self, name, texts(name, "keys", keys), tensors(name, tensors_list))
