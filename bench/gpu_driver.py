"""The CUDA driver through ctypes: memory of the first GPU, and copies for comparison.

Needs no package, so that it also works with the C++ package, and with the driver's test double instead of a GPU.
"""

from __future__ import annotations

import ctypes
import mmap
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

Address, Handle, Size = ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t
NON_BLOCKING, PORTABLE = 1, 1
# CU_MEMCPY_SRC_ACCESS_ORDER_STREAM
IN_ORDER_OF_STREAM = 1
ARGUMENTS: dict[str, list[type]] = {
    "cuDevicePrimaryCtxRetain": [Handle, ctypes.c_int],
    "cuCtxPushCurrent_v2": [Handle],
    "cuStreamCreate": [Handle, ctypes.c_uint],
    "cuStreamSynchronize": [Handle],
    "cuMemAlloc_v2": [Handle, Size],
    "cuMemHostRegister_v2": [Handle, Size, ctypes.c_uint],
    "cuMemcpyHtoD_v2": [Address, Handle, Size],
    "cuMemcpyDtoH_v2": [Handle, Address, Size],
    "cuMemcpyHtoDAsync_v2": [Address, Handle, Size, Handle],
    "cuMemcpyDtoHAsync_v2": [Handle, Address, Size, Handle],
}


class BatchAttributes(ctypes.Structure):
    """`CUmemcpyAttributes`: order of accesses, hints for both ends, flags."""

    _fields_ = (
        ("access_order", ctypes.c_int),
        ("source", ctypes.c_int * 2),
        ("destination", ctypes.c_int * 2),
        ("flags", ctypes.c_uint),
    )


class Limits(NamedTuple):
    """The seconds of page-locked copies from and to the GPU: all bytes in one copy, and all pieces in one call."""

    out: float
    into: float
    batch_out: float | None
    batch_into: float | None


class Driver:
    """The CUDA driver in this process. Methods end the program if the driver returns an error."""

    def __init__(self, library: str, most: int) -> None:
        """Prepares `most` bytes of page-locked memory."""
        self.library = ctypes.CDLL(library)
        for name, arguments in ARGUMENTS.items():
            getattr(self.library, name).argtypes = arguments
        context, stream = Handle(), Handle()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxPushCurrent_v2", context)
        self.call("cuStreamCreate", ctypes.byref(stream), NON_BLOCKING)
        self.stream = stream
        self.locked = mmap.mmap(-1, most)
        self.host = ctypes.addressof(ctypes.c_char.from_buffer(self.locked))
        self.call("cuMemHostRegister_v2", self.host, most, PORTABLE)

    def call(self, name: str, *arguments: object) -> None:
        code = getattr(self.library, name)(*arguments)
        if code != 0:
            raise SystemExit(f"{name} of the CUDA driver: error {code}")

    def allocate(self, size: int) -> int:
        """Allocates GPU memory, which is never freed."""
        address = Address()
        self.call("cuMemAlloc_v2", ctypes.byref(address), size)
        return address.value

    def copy(self, device: int, size: int, to_host: bool) -> None:
        if to_host:
            self.call("cuMemcpyDtoHAsync_v2", self.host, device, size, self.stream)
        else:
            self.call("cuMemcpyHtoDAsync_v2", device, self.host, size, self.stream)
        self.call("cuStreamSynchronize", self.stream)

    def batch(self, device: int, lengths: list[int], to_host: bool) -> Callable[[], None] | None:
        """A call that copies adjacent pieces; None if the driver lacks it."""
        newer = getattr(self.library, "cuMemcpyBatchAsync_v2", None)
        older = getattr(self.library, "cuMemcpyBatchAsync", None)
        function = newer or older
        if function is None:
            return None
        count = len(lengths)
        starts = [sum(lengths[:i]) for i in range(count)]
        hosts = (Address * count)(*(self.host + start for start in starts))
        devices = (Address * count)(*(device + start for start in starts))
        sizes = (Size * count)(*lengths)
        ends = (hosts, devices) if to_host else (devices, hosts)
        attributes, first, wrong = BatchAttributes(access_order=IN_ORDER_OF_STREAM), Size(0), Size(0)
        own = [ctypes.byref(attributes), ctypes.byref(first), Size(1)]
        arguments = [*ends, sizes, Size(count), *own, *([] if newer else [ctypes.byref(wrong)]), self.stream]

        def run() -> None:
            if function(*arguments) != 0:
                raise SystemExit("cuMemcpyBatchAsync of the CUDA driver fails")
            self.call("cuStreamSynchronize", self.stream)

        return run

    def limits(self, device: int, count: int, length: int, rounds: int) -> Limits:
        """The times of the copies that puts and gets of `count` pieces cannot avoid."""
        total = count * length
        one = [median(lambda way=way: self.copy(device, total, way), rounds) for way in (True, False)]
        calls = [self.batch(device, [length] * count, way) for way in (True, False)]
        batches = [None if call is None else median(call, rounds) for call in calls]
        return Limits(*one, *batches)


class DriverMemory:
    """Memory of the first GPU, through the driver only."""

    def __init__(self, driver: Driver, size: int) -> None:
        self.driver = driver
        self.address = driver.allocate(size)

    def write(self, value: bytes) -> None:
        self.driver.call("cuMemcpyHtoD_v2", self.address, value, len(value))

    def read(self, length: int) -> bytes:
        value = ctypes.create_string_buffer(length)
        self.driver.call("cuMemcpyDtoH_v2", value, self.address, length)
        return value.raw


def median(run: Callable[[], object], rounds: int) -> float:
    """The median of `rounds` runs in seconds, after one run that does not count."""
    run()
    spent = []
    for _ in range(rounds):
        start = time.perf_counter()
        run()
        spent.append(time.perf_counter() - start)
    return statistics.median(spent)
