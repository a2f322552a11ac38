"""Reads payloads from a store: straight into their destination if the store can do that, otherwise with `get`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from mooncake._values.structured.array import Array, DType, byte_array, length_bytes, memory_at, np
from mooncake._values.structured.chunk import Fragments, Range, fragments
from mooncake._values.structured.lease import LeaseOwner, pool_array
from mooncake._values.structured.manifest import PayloadSpec
from mooncake._values.structured.source import RawDestination, TensorObjectBuffer
from mooncake._values.structured.status import INVALID_PARAMS_ERROR, check_count, check_length, check_status


class Reader:
    """Reads payloads from one store. Methods raise RuntimeError if the store does not deliver all bytes."""

    def __init__(self, store: Any, pool: Any) -> None:
        self._store = store
        self._pool = pool

    def whole(self, payload: PayloadSpec) -> bytes:
        """All bytes of a payload."""
        size = payload["bytes"]
        if size == 0:
            return b""
        target = np.empty(size, dtype=np.uint8)
        if not self._batch_get_into(payload, target):
            self._copy(fragments(payload, [Range(0, 0, size)]), target)
        content: bytes = target.tobytes()
        return content

    def whole_as_array(self, payload: PayloadSpec) -> Array | bytes:
        """The payload's bytes. For stores with registered memory, returns an array, in leased memory if a pool has
        room; for other stores, returns `bytes`.
        """
        leased = self.into_pool(payload, np.dtype(np.uint8), (payload["bytes"],), 0)
        if leased is not None or payload["bytes"] == 0 or not callable(self._call("_get_pyclient_capsule")):
            return self.whole(payload) if leased is None else leased
        return np.frombuffer(bytearray(self.whole(payload)), dtype=np.uint8)

    def part(self, payload: PayloadSpec, offset: int, length: int) -> bytes:
        """`length` bytes of a payload, from `offset` on."""
        target = np.empty(length, dtype=np.uint8)
        self.into(payload, target, [Range(offset, 0, length)])
        content: bytes = target.tobytes()
        return content

    def into(self, payload: PayloadSpec, target: Array, ranges: Sequence[Range]) -> None:
        """Reads ranges into a byte array. Registers the array with the store during the read."""
        found = fragments(payload, ranges)
        if not found:
            return
        if self._can_register():
            with self._registered(target) as address:
                if self._get_into(found, address, len(target)) or self._get_ranges(found, address):
                    return
        self._copy(found, target)

    def into_memory(
        self, payload: PayloadSpec, into: RawDestination | TensorObjectBuffer, ranges: Sequence[Range]
    ) -> None:
        """Reads ranges into the caller's memory. Unless the caller has registered it, registers it during the read.

        Raises ValueError if the memory is too small.
        """
        found = fragments(payload, ranges)
        needed = max((part.target + part.length for part in ranges), default=0)
        if into.size < needed:
            raise ValueError(f"destination has {into.size} bytes, expected at least {needed}")
        memory = memory_at(into.ptr, into.size, into.owner)
        if not found:
            return
        if isinstance(into, RawDestination) and into.pre_registered:
            done = self._get_ranges(found, into.ptr)
        elif self._can_register():
            with self._registered(memory) as address:
                done = self._get_ranges(found, address)
        else:
            done = False
        if not done:
            self._copy(found, memory)

    def into_pool(self, payload: PayloadSpec, dtype: DType, shape: tuple[int, ...], offset: int) -> Array | None:
        """Reads an array into leased memory. None if no pool has room, or the store cannot read into memory."""
        size = length_bytes(shape, dtype)
        found = fragments(payload, [Range(offset, 0, size)])
        if size == 0 or self._pool is None or not callable(self._call("get_into_ranges")):
            return None
        try:
            owner = LeaseOwner(self._pool.acquire(size))
        except RuntimeError:
            return None
        try:
            self._get_ranges(found, owner.lease.ptr)
            return pool_array(owner, dtype, shape)
        except BaseException:
            owner.release()
            raise

    def tensor(self, payload: PayloadSpec) -> Any:
        """The tensor that `put_tensor` stored. Raises RuntimeError if the store has no `get_tensor`, or the tensor is
        gone.
        """
        get_tensor = self._call("get_tensor")
        if not callable(get_tensor):
            raise RuntimeError("structured tensor payload does not support get_tensor")
        tensor = get_tensor(payload["key"])
        if tensor is None:
            raise RuntimeError(f"get_tensor failed for {payload['key']}")
        return tensor

    def tensor_into(self, payload: PayloadSpec, address: int, size: int) -> Any:
        """Reads the tensor that `put_tensor` stored into the caller's memory. Raises as `tensor`."""
        get_tensor_into = self._call("get_tensor_into")
        if not callable(get_tensor_into):
            raise RuntimeError("structured tensor payload does not support get_tensor_into")
        tensor = get_tensor_into(payload["key"], address, size)
        if tensor is None:
            raise RuntimeError(f"get_tensor_into failed for {payload['key']}")
        return tensor

    def _call(self, name: str) -> Any:
        return getattr(self._store, name, None)

    def _can_register(self) -> bool:
        return callable(self._call("register_buffer")) and callable(self._call("unregister_buffer"))

    @contextmanager
    def _registered(self, target: Array) -> Iterator[int]:
        """The address of a byte array, registered for writes of the store unless the caller has done so."""
        address = int(target.ctypes.data)
        status = self._store.register_buffer(address, len(target))
        if status == INVALID_PARAMS_ERROR:
            yield address
            return
        check_status(status, "register_buffer", "the memory to read into")
        try:
            yield address
        except BaseException:
            self._store.unregister_buffer(address)
            raise
        check_status(self._store.unregister_buffer(address), "unregister_buffer", "the memory read into")

    def _batch_get_into(self, payload: PayloadSpec, target: Array) -> bool:
        batch_get_into = self._call("batch_get_into")
        if not callable(batch_get_into) or not self._can_register():
            return False
        found = fragments(payload, [Range(0, 0, len(target))])
        with self._registered(target) as address:
            addresses = [address + part.ranges[0].target for part in found]
            results = batch_get_into([part.key for part in found], addresses, [part.size for part in found])
            check_count(results, "batch_get_into", len(found))
            for part, actual in zip(found, results, strict=True):
                check_length(actual, "batch_get_into", part.key, part.size)
        return True

    def _get_into(self, found: list[Fragments], address: int, size: int) -> bool:
        """Reads one whole chunk that fills the memory. False if the fragments are anything else, or the store lacks
        `get_into`.
        """
        get_into = self._call("get_into")
        part = found[0]
        if len(found) > 1 or part.ranges != [Range(0, 0, size)] or part.size != size or not callable(get_into):
            return False
        check_length(get_into(part.key, address, size), "get_into", part.key, size)
        return True

    def _get_ranges(self, found: list[Fragments], address: int) -> bool:
        """Reads the fragments. False if the store lacks `get_into_ranges`."""
        get_into_ranges = self._call("get_into_ranges")
        if not callable(get_into_ranges):
            return False
        targets = [[part.target for part in chunk.ranges] for chunk in found]
        sources = [[part.source for part in chunk.ranges] for chunk in found]
        sizes = [[part.length for part in chunk.ranges] for chunk in found]
        results = get_into_ranges([address], [[chunk.key for chunk in found]], [targets], [sources], [sizes])
        check_count(results, "get_into_ranges", 1)
        check_count(results[0], "get_into_ranges", len(found))
        for chunk, expected, actual in zip(found, sizes, results[0], strict=True):
            check_length(list(actual), "get_into_ranges", chunk.key, expected)
        return True

    def _copy(self, found: list[Fragments], target: Array) -> None:
        for chunk in found:
            content = byte_array(self._store.get(chunk.key))
            check_length(len(content), "get", chunk.key, chunk.size)
            for source, start, length in chunk.ranges:
                target[start : start + length] = content[source : source + length]
