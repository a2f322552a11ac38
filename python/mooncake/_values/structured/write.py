"""Writes payloads to a store: from leased memory if there is a pool, otherwise with `put`."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

from mooncake._values.structured.array import byte_array
from mooncake._values.structured.chunk import Chunk, chunk_size, joined, split
from mooncake._values.structured.manifest import chunk_keys, payload_spec
from mooncake._values.structured.policy import MAX_WRITERS, BundleTransferPolicy, put_mode
from mooncake._values.structured.removal import remove_keys
from mooncake._values.structured.source import TensorObjectBuffer, TensorPayload
from mooncake._values.structured.status import INVALID_PARAMS_ERROR, check_status, check_statuses
from mooncake._values.structured.steps import Steps
from mooncake._values.structured.tensor import parts_of
from mooncake._values.structured.torch_tensor import saved
from mooncake._values.structured.write_config import call_write, config_for_keys
from mooncake._values.tensor.layout import HEADER_BYTES


class Writer:
    """Writes payloads. If a method raises, it has tried to remove the payload's keys."""

    def __init__(self, store: Any, pool: Any, steps: Steps) -> None:
        self._store = store
        self._pool = pool
        self._steps = steps

    def put_one(self, key: str, value: bytes | memoryview, config: Any) -> None:
        """Stores one small object. Raises RuntimeError if the store refuses it."""
        status = call_write(self._store.put, key, value, config=config_for_keys(config, 1))
        check_status(status, "put", key)

    def put_arrays(
        self, key: str, arrays: Chunk, chunk_bytes: int, policy: BundleTransferPolicy, config: Any
    ) -> dict[str, Any]:
        """Stores byte arrays one after the other, in chunks. Returns their entry in the manifest."""
        chunks = split(arrays, chunk_bytes)
        if not chunks:
            return {"key": key, "bytes": 0, "chunks": []}
        if policy.copy_mode == "zero_copy":
            raise RuntimeError("zero-copy put requires tensor-object buffers")
        spec = payload_spec(key, [chunk_size(chunk) for chunk in chunks])
        keys = chunk_keys(spec)
        try:
            self._put_chunks(keys, chunks, policy, config)
        except BaseException:
            remove_keys(self._store, keys, strict=False)
            raise
        return spec

    def put_tensor(
        self, key: str, source: TensorPayload | TensorObjectBuffer, policy: BundleTransferPolicy, config: Any
    ) -> dict[str, Any]:
        """Stores a tensor. Returns its entry in the manifest.

        Raises ValueError if the policy forbids copies and the tensor does not lie in registered memory.
        """
        if isinstance(source, TensorObjectBuffer):
            self._put_buffer(key, source, config)
            return payload_spec(key, [source.size])
        if policy.copy_mode == "zero_copy":
            raise ValueError("zero-copy structured tensor fields require a BufferPool tensor-object buffer")
        spec = None if policy.copy_mode == "copy" else self._put_tensor_directly(key, source, config)
        return spec or self._put_serialized(key, source, policy, config)

    def _put_buffer(self, key: str, source: TensorObjectBuffer, config: Any) -> None:
        config = config_for_keys(config, 1)
        put_tensor_from = getattr(self._store, "put_tensor_from", None)
        if config is None and callable(put_tensor_from):
            check_status(put_tensor_from(key, source.ptr, source.size), "put_tensor_from", key)
            return
        put_from = getattr(self._store, "put_from", None)
        if not callable(put_from):
            raise RuntimeError("put_from is unavailable")
        check_status(call_write(put_from, key, source.ptr, source.size, config=config), "put_from", key)

    def _put_tensor_directly(self, key: str, source: TensorPayload, config: Any) -> dict[str, Any] | None:
        """Stores a tensor with `put_tensor` or `pub_tensor`. None if the store lacks it or refuses this tensor."""
        put = getattr(self._store, "put_tensor" if config is None else "pub_tensor", None)
        if not callable(put):
            return None
        status = call_write(put, key, source.tensor, config=config_for_keys(config, 1))
        if status == INVALID_PARAMS_ERROR:
            return None
        check_status(status, "put_tensor", key)
        tensor = source.tensor
        spec = payload_spec(key, [HEADER_BYTES + int(tensor.nbytes)])
        shape = [int(dim) for dim in tensor.shape]
        return {**spec, "kind": "tensor", "dtype": str(tensor.dtype), "shape": shape, "metadata_bytes": HEADER_BYTES}

    def _put_serialized(
        self, key: str, source: TensorPayload, policy: BundleTransferPolicy, config: Any
    ) -> dict[str, Any]:
        """Stores a tensor as a header and elements, or, for tensors that cannot have a header, as `torch.save` writes
        it.
        """
        parts = parts_of(source.tensor) if self._steps.has_tensor_codec() and source.tensor.dim() else None
        if parts is None:
            content = memoryview(saved(source.tensor))
            return {**self._put_whole(key, [content], policy, config), "format": "torch_save"}
        return {**self._put_whole(key, parts.buffers, policy, config), "metadata_bytes": len(parts.header)}

    def _put_whole(
        self, key: str, buffers: Sequence[memoryview], policy: BundleTransferPolicy, config: Any
    ) -> dict[str, Any]:
        arrays = [byte_array(buffer) for buffer in buffers]
        return self.put_arrays(key, arrays, max(chunk_size(arrays), 1), policy, config)

    def _put_chunks(self, keys: list[str], chunks: list[Chunk], policy: BundleTransferPolicy, config: Any) -> None:
        workers = min(policy.max_inflight_put, len(chunks), MAX_WRITERS)
        has_call = callable(getattr(self._store, "batch_put_from", None))
        leased = policy.copy_mode != "copy" and has_call and self._pool is not None
        if workers < 2 or put_mode([chunk_size(chunk) for chunk in chunks], policy) == "batch":
            for key, chunk in zip(keys, chunks, strict=True):
                self._put_chunk(key, chunk, leased, config)
            return
        with ThreadPoolExecutor(workers) as executor:
            futures = [
                executor.submit(self._put_chunk, key, chunk, leased, config)
                for key, chunk in zip(keys, chunks, strict=True)
            ]
            try:
                for future in as_completed(futures):
                    future.result()
            except BaseException:
                for future in futures:
                    future.cancel()
                raise

    def _put_chunk(self, key: str, chunk: Chunk, leased: bool, config: Any) -> None:
        """Stores one chunk from leased memory, so that the store does not copy it again; without a lease, by `put`."""
        size = chunk_size(chunk)
        lease = self._lease(size) if leased else None
        if lease is None:
            self.put_one(key, joined(chunk), config)
            return
        try:
            self._steps.concat_into(chunk, lease.ptr, size)
            statuses = call_write(
                self._store.batch_put_from, [key], [lease.ptr], [size], config=config_for_keys(config, 1)
            )
            check_statuses(statuses, "batch_put_from", [key])
        finally:
            lease.release()

    def _lease(self, size: int) -> Any:
        try:
            return self._pool.acquire(size)
        except RuntimeError:
            return None
