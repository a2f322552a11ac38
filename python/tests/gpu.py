"""Memory of a GPU for the tests, by the test double of the CUDA driver: addresses that the processor cannot touch."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@cache
def library_path() -> str:
    """The double, built if need be."""
    path = os.environ.get("MOONCAKE_TEST_DRIVER")
    if path is None:
        build = ["cargo", "build", "--locked", "--quiet", "--package", "mooncake-device-double"]
        subprocess.run(build, cwd=ROOT, check=True)
        path = str(ROOT / "target" / "debug" / "libmooncake_device_double.so")
    return path


@cache
def driver() -> ctypes.CDLL:
    """The double, loaded as the driver of this process."""
    double = ctypes.CDLL(library_path())
    double.double_alloc_pieces.restype = ctypes.c_uint64
    double.double_alloc_pieces.argtypes = [ctypes.c_uint32, ctypes.c_size_t, ctypes.c_size_t]
    double.double_calls.restype = ctypes.c_uint64
    double.double_fail.argtypes = [ctypes.c_char_p, ctypes.c_uint64, ctypes.c_int]
    double.double_limit_locks.argtypes = [ctypes.c_size_t]
    double.cuMemcpyHtoD_v2.argtypes = [ctypes.c_uint64, ctypes.c_char_p, ctypes.c_size_t]
    double.cuMemcpyDtoH_v2.argtypes = [ctypes.c_char_p, ctypes.c_uint64, ctypes.c_size_t]
    double.cuMemFree_v2.argtypes = [ctypes.c_uint64]
    double.cuStreamCreate.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_uint]
    double.cuStreamSynchronize.argtypes = [ctypes.c_void_p]
    double.cuStreamDestroy_v2.argtypes = [ctypes.c_void_p]
    double.cuMemcpyDtoHAsync_v2.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p]
    assert double.cuInit(0) == 0
    return double


class DeviceMemory:
    """As `cluster.Memory`, in a GPU."""

    def __init__(self, size: int, device: int = 0) -> None:
        self.size = 0
        self.address: int = driver().double_alloc_pieces(device, size, 1)
        assert self.address != 0
        self.size = size

    def write(self, offset: int, value: bytes) -> int:
        """Puts the bytes there and gives their address."""
        assert offset + len(value) <= self.size
        assert driver().cuMemcpyHtoD_v2(self.address + offset, value, len(value)) == 0
        return self.address + offset

    def read(self, offset: int, length: int) -> bytes:
        value = ctypes.create_string_buffer(max(length, 1))
        assert driver().cuMemcpyDtoH_v2(value, self.address + offset, length) == 0
        return value.raw[:length]

    def free(self) -> None:
        assert driver().cuMemFree_v2(self.address) == 0
        self.size = 0

    def __del__(self) -> None:
        if getattr(self, "size", 0) > 0:
            self.free()


class Stream:
    """A stream of the application. Used in a `with`, by the thread that made it."""

    def __enter__(self) -> Stream:
        driver().double_use_device(0)
        handle = ctypes.c_void_p()
        assert driver().cuStreamCreate(ctypes.byref(handle), 1) == 0
        assert handle.value is not None
        self.handle: int = handle.value
        self.targets: list[ctypes.Array[ctypes.c_char]] = []
        return self

    def __exit__(self, *_: object) -> None:
        assert driver().cuStreamDestroy_v2(self.handle) == 0

    def read(self, address: int, length: int) -> Callable[[], bytes]:
        """Has the stream read memory of the GPU; what it found is known once it is finished."""
        target = ctypes.create_string_buffer(length)
        driver().double_use_device(0)
        assert driver().cuMemcpyDtoHAsync_v2(target, address, length, self.handle) == 0
        # The stream writes it whatever becomes of the test.
        self.targets.append(target)
        return lambda: target.raw

    def finish(self) -> None:
        driver().double_use_device(0)
        assert driver().cuStreamSynchronize(self.handle) == 0
