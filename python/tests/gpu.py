"""Memory of a GPU for the tests, by the test double of the CUDA driver: addresses that the processor cannot touch."""

from __future__ import annotations

import ctypes
import os
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@cache
def driver() -> ctypes.CDLL:
    """The double, loaded as the driver of this process."""
    path = os.environ.get("MOONCAKE_TEST_DRIVER")
    if path is None:
        build = ["cargo", "build", "--locked", "--quiet", "--package", "mooncake-device-double"]
        subprocess.run(build, cwd=ROOT, check=True)
        path = str(ROOT / "target" / "debug" / "libmooncake_device_double.so")
    double = ctypes.CDLL(path)
    double.double_alloc_pieces.restype = ctypes.c_uint64
    double.double_alloc_pieces.argtypes = [ctypes.c_uint32, ctypes.c_size_t, ctypes.c_size_t]
    double.double_calls.restype = ctypes.c_uint64
    double.double_fail.argtypes = [ctypes.c_char_p, ctypes.c_uint64, ctypes.c_int]
    double.double_limit_locks.argtypes = [ctypes.c_size_t]
    double.cuMemcpyHtoD_v2.argtypes = [ctypes.c_uint64, ctypes.c_char_p, ctypes.c_size_t]
    double.cuMemcpyDtoH_v2.argtypes = [ctypes.c_char_p, ctypes.c_uint64, ctypes.c_size_t]
    double.cuMemFree_v2.argtypes = [ctypes.c_uint64]
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
