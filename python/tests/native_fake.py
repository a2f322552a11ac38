"""A native store for tests of the Python calls above it: a dictionary, and a record of the calls."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import Any, SupportsIndex

from mooncake._tensor_calls import TensorCalls
from mooncake.store import ReplicateConfig


class Handle(bytearray):
    """Bytes with an address, like a BufferHandle."""

    def ptr(self) -> int:
        return ctypes.addressof((ctypes.c_char * len(self)).from_buffer(self))


class FakeNative:
    """The native calls that the tensor calls use. `codes` are results, by key, that it returns in place of storing."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.codes: dict[str, int] = {}
        self.configs: list[ReplicateConfig | None] = []
        self.batches: list[list[str]] = []
        self.addresses: list[list[list[int]]] = []

    def get_hostname(self) -> str:
        return "localhost:1"

    def _check_registered(self, buffer_ptr: int, size: int) -> int:
        return 0 if size > 0 else -600

    def register_buffer(self, buffer_ptr: SupportsIndex, size: SupportsIndex) -> int:
        return 0

    def unregister_buffer(self, buffer_ptr: SupportsIndex) -> int:
        return 0

    def batch_get_into_multi_buffers(
        self,
        keys: Iterable[str],
        all_buffer_ptrs: Iterable[Iterable[SupportsIndex]],
        all_sizes: Iterable[Iterable[SupportsIndex]],
    ) -> list[int]:
        return [-600 for _ in keys]

    def get_buffer(self, key: str) -> Any:
        return Handle(self.objects[key]) if key in self.objects else None

    def batch_get_buffer(self, keys: Iterable[str]) -> list[Any]:
        return [self.get_buffer(key) for key in keys]

    def get_into(self, key: str, buffer_ptr: SupportsIndex, size: SupportsIndex) -> int:
        if key not in self.objects:
            return -704
        value = self.objects[key]
        if len(value) > int(size):
            return -600
        ctypes.memmove(int(buffer_ptr), value, len(value))
        return len(value)

    def batch_get_into(
        self, keys: Iterable[str], buffer_ptrs: Iterable[SupportsIndex], sizes: Iterable[SupportsIndex]
    ) -> list[int]:
        return [self.get_into(*call) for call in zip(keys, buffer_ptrs, sizes, strict=True)]

    def batch_put_from_multi_buffers(
        self,
        keys: Iterable[str],
        all_buffer_ptrs: Iterable[Iterable[SupportsIndex]],
        all_sizes: Iterable[Iterable[SupportsIndex]],
        config: ReplicateConfig | None = None,
    ) -> list[int]:
        return self._store(keys, all_buffer_ptrs, all_sizes, config, upsert=False)

    def batch_upsert_from_multi_buffers(
        self,
        keys: Iterable[str],
        all_buffer_ptrs: Iterable[Iterable[SupportsIndex]],
        all_sizes: Iterable[Iterable[SupportsIndex]],
        config: ReplicateConfig | None = None,
    ) -> list[int]:
        return self._store(keys, all_buffer_ptrs, all_sizes, config, upsert=True)

    def _store(
        self,
        keys: Iterable[str],
        pointers: Iterable[Iterable[SupportsIndex]],
        sizes: Iterable[Iterable[SupportsIndex]],
        config: ReplicateConfig | None,
        upsert: bool,
    ) -> list[int]:
        keys = list(keys)
        places = [[int(pointer) for pointer in of_key] for of_key in pointers]
        self.configs.append(config)
        self.batches.append(keys)
        self.addresses.append(places)
        for key, of_key, lengths in zip(keys, places, sizes, strict=True):
            if key in self.codes or (key in self.objects and not upsert):
                continue
            self.objects[key] = b"".join(
                ctypes.string_at(at, int(size)) for at, size in zip(of_key, lengths, strict=True)
            )
        return [self.codes.get(key, 0) for key in keys]


class FakeStore(TensorCalls, FakeNative):
    """The tensor calls, on a dictionary."""
