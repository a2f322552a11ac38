"""The native methods that the tensor methods use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, SupportsIndex

from mooncake._native import BufferHandle, ReplicateConfig


class NativeStore(Protocol):
    """The methods that a store must have. `mooncake._native.MooncakeDistributedStore` documents them."""

    def get_hostname(self) -> str: ...
    def _check_registered(self, buffer_ptr: int, size: int) -> int: ...
    def get_buffer(self, key: str) -> BufferHandle | None: ...
    def batch_get_buffer(self, keys: Iterable[str]) -> list[BufferHandle | None]: ...
    def get_into(self, key: str, buffer_ptr: SupportsIndex, size: SupportsIndex) -> int: ...
    def batch_get_into(
        self, keys: Iterable[str], buffer_ptrs: Iterable[SupportsIndex], sizes: Iterable[SupportsIndex]
    ) -> list[int]: ...
    def batch_put_from_multi_buffers(
        self,
        keys: Iterable[str],
        all_buffer_ptrs: Iterable[Iterable[SupportsIndex]],
        all_sizes: Iterable[Iterable[SupportsIndex]],
        config: ReplicateConfig | None = None,
    ) -> list[int]: ...
    def batch_upsert_from_multi_buffers(
        self,
        keys: Iterable[str],
        all_buffer_ptrs: Iterable[Iterable[SupportsIndex]],
        all_sizes: Iterable[Iterable[SupportsIndex]],
        config: ReplicateConfig | None = None,
    ) -> list[int]: ...
    def register_buffer(self, buffer_ptr: SupportsIndex, size: SupportsIndex) -> int: ...
    def unregister_buffer(self, buffer_ptr: SupportsIndex) -> int: ...
    def batch_get_into_multi_buffers(
        self,
        keys: Iterable[str],
        all_buffer_ptrs: Iterable[Iterable[SupportsIndex]],
        all_sizes: Iterable[Iterable[SupportsIndex]],
    ) -> list[int]: ...


def may_touch(store: NativeStore, address: int, size: int) -> bool:
    """Whether Python may touch `size` bytes at `address`.

    They must be in host memory, not null and not empty. False
    also while the store is not set up.
    """
    return address != 0 and store._check_registered(address, size) == 0


def is_in_gpu(store: NativeStore, address: int, size: int) -> bool:
    """Whether this is registered memory of a GPU."""
    return store._check_registered(address, size) == 1


def is_set_up(store: NativeStore) -> bool:
    """Whether the store is set up and not closed."""
    return store.get_hostname() != ""
