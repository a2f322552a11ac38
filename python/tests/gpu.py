"""GPU memory for the tests, from a test double of the CUDA driver: the processor cannot access its addresses.

`MOONCAKE_TEST_DRIVER=libcuda.so.1` selects a real GPU. Tests that control the double are then skipped.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@cache
def library_path() -> str:
    """The path of the double, which is built if necessary, or of the driver that the environment names."""
    path = os.environ.get("MOONCAKE_TEST_DRIVER")
    if path is None:
        build = ["cargo", "build", "--locked", "--quiet", "--package", "mooncake-device-double"]
        subprocess.run(build, cwd=ROOT, check=True)
        path = str(ROOT / "target" / "debug" / "libmooncake_device_double.so")
    return path


# Whether the driver is a real one.
IS_REAL = os.environ.get("MOONCAKE_TEST_DRIVER", "").startswith("libcuda.so")
# For tests that control the double, or need a second GPU.
needs_double = pytest.mark.skipif(IS_REAL, reason="it tells the double what to do")


@cache
def driver() -> ctypes.CDLL:
    """The double or the real driver, loaded as the driver of this process."""
    cuda = ctypes.CDLL(library_path())
    cuda.cuMemcpyHtoD_v2.argtypes = [ctypes.c_uint64, ctypes.c_char_p, ctypes.c_size_t]
    cuda.cuMemcpyDtoH_v2.argtypes = [ctypes.c_char_p, ctypes.c_uint64, ctypes.c_size_t]
    cuda.cuMemFree_v2.argtypes = [ctypes.c_uint64]
    cuda.cuStreamCreate.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_uint]
    cuda.cuStreamSynchronize.argtypes = [ctypes.c_void_p]
    cuda.cuStreamDestroy_v2.argtypes = [ctypes.c_void_p]
    cuda.cuMemcpyDtoHAsync_v2.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p]
    if IS_REAL:
        cuda.cuMemAlloc_v2.argtypes = [ctypes.POINTER(ctypes.c_uint64), ctypes.c_size_t]
    else:
        cuda.double_alloc_pieces.restype = ctypes.c_uint64
        cuda.double_alloc_pieces.argtypes = [ctypes.c_uint32, ctypes.c_size_t, ctypes.c_size_t]
        cuda.double_calls.restype = ctypes.c_uint64
        cuda.double_fail.argtypes = [ctypes.c_char_p, ctypes.c_uint64, ctypes.c_int]
        cuda.double_limit_locks.argtypes = [ctypes.c_size_t]
    assert cuda.cuInit(0) == 0
    return cuda


@cache
def primary_context(device: int) -> ctypes.c_void_p:
    context = ctypes.c_void_p()
    assert driver().cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
    return context


def use_device(device: int) -> None:
    """Makes this GPU the current one of the calling thread, as `cudaSetDevice` does."""
    if IS_REAL:
        assert driver().cuCtxSetCurrent(primary_context(device)) == 0
    else:
        driver().double_use_device(device)


def reset() -> None:
    """Resets every setting of the double."""
    if not IS_REAL:
        driver().double_reset()


def allocate(device: int, size: int) -> int:
    if not IS_REAL:
        address: int = driver().double_alloc_pieces(device, size, 1)
        assert address != 0
        return address
    use_device(device)
    allocated = ctypes.c_uint64()
    assert driver().cuMemAlloc_v2(ctypes.byref(allocated), size) == 0
    return allocated.value


class DeviceMemory:
    """As `cluster.Memory`, on a GPU."""

    def __init__(self, size: int, device: int = 0) -> None:
        self.size, self.device = 0, device
        self.address = allocate(device, size)
        self.size = size
        if IS_REAL:
            # Clears what an earlier test has left there.
            self.write(0, bytes(size))

    def use_device(self) -> None:
        # The double copies without a current device. That shows that the store needs no context of its caller.
        if IS_REAL:
            use_device(self.device)

    def write(self, offset: int, value: bytes) -> int:
        """Writes the bytes at this offset, and returns their address."""
        assert offset + len(value) <= self.size
        self.use_device()
        assert driver().cuMemcpyHtoD_v2(self.address + offset, value, len(value)) == 0
        if IS_REAL:
            # A short copy from pageable memory may still be running on the default stream.
            assert driver().cuStreamSynchronize(None) == 0
        return self.address + offset

    def read(self, offset: int, length: int) -> bytes:
        value = ctypes.create_string_buffer(max(length, 1))
        self.use_device()
        assert driver().cuMemcpyDtoH_v2(value, self.address + offset, length) == 0
        return value.raw[:length]

    def free(self) -> None:
        self.use_device()
        assert driver().cuMemFree_v2(self.address) == 0
        self.size = 0

    def __del__(self) -> None:
        if getattr(self, "size", 0) > 0:
            self.free()


# The most bytes that a test's stream reads.
TARGET_BYTES = 8 << 20


class Stream:
    """A stream of the application. The thread that makes it uses it in a `with`."""

    def __enter__(self) -> Stream:
        use_device(0)
        handle = ctypes.c_void_p()
        assert driver().cuStreamCreate(ctypes.byref(handle), 1) == 0
        assert handle.value is not None
        self.handle: int = handle.value
        self.targets: list[ctypes.Array[ctypes.c_char]] = []
        self.room, self.used = self.locked_room(), 0
        return self

    @staticmethod
    def locked_room() -> int:
        """The address of zeroed, page-locked memory for the stream's reads.

        A real driver blocks the caller of a copy to pageable memory. Allocating page-locked memory later would wait
        for all streams.
        """
        address = ctypes.c_void_p()
        if not IS_REAL:
            return 0
        assert driver().cuMemAllocHost_v2(ctypes.byref(address), ctypes.c_size_t(TARGET_BYTES)) == 0
        assert address.value is not None
        ctypes.memset(address.value, 0, TARGET_BYTES)
        return address.value

    def target(self, length: int) -> ctypes.Array[ctypes.c_char]:
        if not IS_REAL:
            return ctypes.create_string_buffer(length)
        self.used += length
        assert self.used <= TARGET_BYTES
        return (ctypes.c_char * length).from_address(self.room + self.used - length)

    def __exit__(self, *_: object) -> None:
        assert driver().cuStreamDestroy_v2(self.handle) == 0

    def read(self, address: int, length: int) -> Callable[[], bytes]:
        """Makes the stream read GPU memory. The result is valid once the stream has finished."""
        use_device(0)
        target = self.target(length)
        assert driver().cuMemcpyDtoHAsync_v2(target, address, length, self.handle) == 0
        # The stream writes to the target even if the test fails, so the target must stay alive.
        self.targets.append(target)
        return lambda: target.raw

    def finish(self) -> None:
        use_device(0)
        assert driver().cuStreamSynchronize(self.handle) == 0
