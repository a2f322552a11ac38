#!/usr/bin/env python3
"""Measures objects between a GPU and a pool on this machine. Checks every byte, and prints figures beside limits.

    make gpu                                          # on a machine with a GPU: torch and the package in .venv
    .venv/bin/python bench/gpu_figures.py --double    # with the test double of the driver, to try this program

Starts a master and a node on free ports. The segments are: the process's own, the node's through shared memory, and
the node's through TCP. The limits are measured in the same run, from page-locked memory. They are one copy of as many
bytes, and one call of the driver for as many pieces (`cuMemcpyBatchAsync`). Processor time is the sum of this process,
the master and the node. At the end, the CUDA package of the C++ store is measured in the same way, if it can be
installed and loaded.
"""

from __future__ import annotations

import argparse
import ctypes
import mmap
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from environment import CPP_CUDA_PACKAGE, ensure_environment, python_of
from gpu_driver import Driver, DriverMemory, median
from mooncake.store import MooncakeDistributedStore, ReplicateConfig
from table import markdown

KIB, MIB = 1 << 10, 1 << 20


class Work(NamedTuple):
    """A batch of objects. Each has `pieces` pieces of GPU memory, of `length` bytes each."""

    objects: int
    pieces: int
    length: int

    @property
    def total(self) -> int:
        return self.objects * self.pieces * self.length

    @property
    def name(self) -> str:
        length = f"{self.length // MIB} MiB" if self.length >= MIB else f"{self.length // KIB} KiB"
        if self.pieces == 1:
            return f"{self.objects:,} objects of {length}"
        return f"{self.objects:,} objects of {self.pieces:,} pieces of {length}"

    def addresses(self, start: int) -> list[list[int]]:
        """The addresses of each object's pieces. Pieces of all objects alternate, as the layers of a KV cache do."""
        places = range(self.objects)
        return [[start + (j * self.objects + i) * self.length for j in range(self.pieces)] for i in places]


WORKS = [
    Work(64, 1, MIB),
    *(Work(8, 128, length * KIB) for length in (4, 16, 64)),
    *(Work(1024, 1, length * KIB) for length in (4, 16, 64)),
]
QUICK_WORKS = [Work(4, 1, 64 * KIB), Work(4, 8, 4 * KIB), Work(32, 1, 4 * KIB)]
ROUNDS, QUICK_ROUNDS = 9, 2
MOST = 64 * MIB
COLUMNS = ["work", "bytes", "put", "get", "processor, put and get"]


class TestMemory(Protocol):
    """Memory that objects are put from and got into."""

    address: int

    def write(self, value: bytes) -> None: ...
    def read(self, length: int) -> bytes: ...


class TorchMemory:
    """GPU memory from torch."""

    def __init__(self, size: int) -> None:
        import torch

        self.torch = torch
        self.tensor = torch.zeros(size, dtype=torch.uint8, device="cuda")
        self.address: int = self.tensor.data_ptr()
        torch.cuda.synchronize()

    def write(self, value: bytes) -> None:
        self.tensor[: len(value)].copy_(self.torch.frombuffer(bytearray(value), dtype=self.torch.uint8))
        self.torch.cuda.synchronize()

    def read(self, length: int) -> bytes:
        return bytes(self.tensor[:length].cpu().numpy())


class HostMemory:
    """Memory of this process."""

    def __init__(self, size: int) -> None:
        self.bytes = mmap.mmap(-1, size)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.bytes))

    def write(self, value: bytes) -> None:
        self.bytes[: len(value)] = value

    def read(self, length: int) -> bytes:
        return self.bytes[:length]


class Computing:
    """Makes a GPU multiply matrices with torch during a `with` block."""

    WIDTH, AHEAD = 8192, 4

    def __enter__(self) -> None:
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        time.sleep(0.2)

    def __exit__(self, *_: object) -> None:
        self.is_over.set()
        self.thread.join()

    def run(self) -> None:
        import torch

        with torch.cuda.stream(torch.cuda.Stream()):
            matrix = torch.ones(self.WIDTH, self.WIDTH, dtype=torch.bfloat16, device="cuda")
            ends: list[Any] = []
            while not self.is_over.is_set():
                matrix @ matrix
                ends.append(torch.cuda.Event())
                ends[-1].record()
                if len(ends) > self.AHEAD:
                    ends.pop(0).synchronize()


def double_library() -> str:
    """The path of the driver's test double. Builds it if necessary."""
    sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "python" / "tests"))
    from gpu import library_path

    return library_path()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Pool:
    """A master and, with `has_node`, a node. Use it in a `with`."""

    def __init__(self, has_node: bool) -> None:
        self.has_node = has_node

    def __enter__(self) -> Pool:
        self.rpc, self.http = free_port(), free_port()
        self.state = tempfile.TemporaryDirectory()
        self.processes: list[subprocess.Popen[bytes]] = []
        self.start("mooncake_master", f"--rpc_port={self.rpc}", f"--metrics_port={self.http}")
        self.wait(lambda: self.ask("/health") is not None)
        if self.has_node:
            master = f"--master_server_address=127.0.0.1:{self.rpc}"
            self.start("mooncake_client", "--host=127.0.0.1", master, "--global_segment_size=512MB")
            self.wait(lambda: bool(self.ask("/get_all_segments")))
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self.processes):
            process.terminate()
            process.wait(30)
        self.state.cleanup()

    def start(self, command: str, *flags: str) -> None:
        program = pathlib.Path(sys.executable).with_name(command)
        environment = {**os.environ, "XDG_STATE_HOME": self.state.name}
        nobody: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.processes.append(subprocess.Popen([program, *flags], env=environment, **nobody))

    def ask(self, path: str) -> str | None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.http}{path}", timeout=1) as reply:
                text: str = reply.read().decode()
                return text
        except OSError:
            return None

    @staticmethod
    def wait(is_ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 20
        while not is_ready():
            if time.monotonic() > deadline:
                sys.exit("the pool does not start")
            time.sleep(0.05)

    def store(self, transports: str, segment: int = 0) -> Any:
        if transports:
            os.environ["MOONCAKE_TRANSPORTS"] = transports
        store = MooncakeDistributedStore()
        code = store.setup("127.0.0.1", "P2PHANDSHAKE", segment, 16 * MIB, "tcp", "", f"127.0.0.1:{self.rpc}")
        if code != 0:
            sys.exit(f"setup: {code}")
        return store

    def processor_seconds(self) -> float:
        """The processor seconds of this process and of the pool's processes so far, with all their threads."""
        # This number identifies the processor clock of another process.
        others = sum(time.clock_gettime(~process.pid << 3 | 2) for process in self.processes)
        return time.process_time() + others


class Bench:
    """The settings of one run: the pool, the memory, the works and the number of rounds."""

    def __init__(self, pool: Pool, memory: TestMemory, driver: Driver | None, is_quick: bool) -> None:
        """`driver` is the driver of the GPU that holds the memory, or None for host memory."""
        self.pool, self.memory, self.driver = pool, memory, driver
        self.works, self.rounds = (QUICK_WORKS, QUICK_ROUNDS) if is_quick else (WORKS, ROUNDS)

    def table(self, store: Any, segment: str) -> str:
        """The table of all works with a store; puts prefer `segment` unless it is empty. Ends the program if a byte is
        wrong.
        """
        return markdown([COLUMNS, *(self.measure(store, segment, work) for work in self.works)])

    def measure(self, store: Any, segment: str, work: Work) -> list[str]:
        objects, total = work.objects, work.total
        keys, value = [f"k{i}" for i in range(objects)], os.urandom(total)
        addresses, sizes = work.addresses(self.memory.address), [[work.length] * work.pieces] * objects
        config = ReplicateConfig()
        config.preferred_segment = segment
        self.memory.write(value)
        put, put_time = self.timed(
            lambda: store.remove_all(True),
            lambda: check(store.batch_put_from_multi_buffers(keys, addresses, sizes, config), [0] * objects),
            total,
        )
        self.memory.write(bytes(total))
        lengths = [work.pieces * work.length] * objects
        get, get_time = self.timed(
            lambda: None,
            lambda: check(store.batch_get_into_multi_buffers(keys, addresses, sizes), lengths),
            total,
        )
        if self.memory.read(total) != value:
            sys.exit(f"{work.name}: the bytes that came back are others")
        store.remove_all(True)
        rates = [f"{total / put / 1e9:.2f} GB/s", f"{total / get / 1e9:.2f} GB/s"]
        if self.driver is not None:
            limits = self.driver.limits(self.memory.address, work.objects * work.pieces, work.length, self.rounds)
            rates[0] += of_limits(put, limits.out, limits.batch_out)
            rates[1] += of_limits(get, limits.into, limits.batch_into)
        return [work.name, "right", *rates, f"{put_time:.3f} s/GB, {get_time:.3f} s/GB"]

    def timed(self, prepare: Callable[[], object], run: Callable[[], object], total: int) -> tuple[float, float]:
        """The median run in seconds, and processor seconds per 1e9 bytes, after one run that does not count."""
        spent, processor = [], 0.0
        prepare()
        run()
        for _ in range(self.rounds):
            prepare()
            before, start = self.pool.processor_seconds(), time.perf_counter()
            run()
            spent.append(time.perf_counter() - start)
            processor += self.pool.processor_seconds() - before
        return statistics.median(spent), processor / (total * len(spent) / 1e9)


def of_limits(spent: float, one: float, batch: float | None) -> str:
    shares = f", {100 * one / spent:.0f} % of one copy"
    if batch is not None:
        shares += f", {100 * batch / spent:.0f} % of the batch"
    return shares


def check(found: list[int], expected: list[int]) -> None:
    if found != expected:
        sys.exit(f"an operation failed: {sorted(set(found) - set(expected))}")


def one_get(store: Any, memory: TestMemory) -> float:
    """The microseconds of a get of 4 KiB whose route is known."""
    check([store.upsert_from("one", memory.address, 4096)], [0])
    return 1e6 * median(lambda: [store.get_into("one", memory.address, 4096) for _ in range(100)], ROUNDS) / 100


def own_package(bench: Bench, pool: Pool) -> None:
    """Measures this package with each transport."""
    ways = {
        "own process": lambda: pool.store("shm,process_vm,tcp", 256 * MIB),
        "same host": lambda: pool.store("shm"),
        "tcp": lambda: pool.store("tcp"),
    }
    for way, make in ways.items():
        store = make()
        check([store.register_buffer(bench.memory.address, MOST)], [0])
        segment = store.get_hostname() if way == "own process" else ""
        print(f"### {way}\n\n" + bench.table(store, segment))
        print(f"\nOne get of 4 KiB: {one_get(store, bench.memory):.1f} us\n", flush=True)
        if isinstance(bench.memory, TorchMemory) and way == "own process":
            with Computing():
                print("While the GPU multiplies matrices:\n\n" + bench.table(store, segment) + "\n", flush=True)
        if way == "tcp":
            host = Bench(pool, HostMemory(MOST), None, bench.works is QUICK_WORKS)
            check([store.register_buffer(host.memory.address, MOST)], [0])
            print("The same with memory of the host:\n\n" + host.table(store, segment) + "\n", flush=True)
        store.close()


def cpp_package(flags: argparse.Namespace) -> None:
    """Measures the C++ package, in its own environment and process. If it does not run, prints the reason."""
    print("### C++ package, own process\n", flush=True)
    if flags.double:
        print("Left out: it would look for a GPU by itself.")
        return
    python = flags.cpp_python
    if python is None:
        try:
            ensure_environment("cpp-cuda", [CPP_CUDA_PACKAGE])
        except (subprocess.CalledProcessError, OSError) as error:
            print(f"Left out: {CPP_CUDA_PACKAGE} cannot be installed: {error}")
            return
        python = python_of("cpp-cuda")
    command = [str(python), __file__, "--cpp", *(["--quick"] if flags.quick else [])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        print(done.stdout)
    else:
        reasons = done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"]
        print(f"Left out: the C++ package does not run here: {reasons[-1]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--double", action="store_true", help="the test double of the driver in place of a GPU")
    parser.add_argument("--quick", action="store_true", help="few bytes, to try this program")
    parser.add_argument(
        "--cpp-python",
        metavar="PATH",
        help=f"a Python that has the C++ package; without it {CPP_CUDA_PACKAGE} is installed",
    )
    parser.add_argument("--cpp", action="store_true", help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if not flags.double and not flags.cpp:
        import torch

        if not torch.cuda.is_available():
            sys.exit("torch finds no GPU here; --double shows with a test double that this program works")
        print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}\n")
        # Initializes torch first: then the driver calls below use torch's context.
        torch.cuda.init()
    driver = Driver(double_library() if flags.double else "libcuda.so.1", MOST)
    memory = DriverMemory(driver, MOST) if flags.double or flags.cpp else TorchMemory(MOST)
    with Pool(has_node=not flags.cpp) as pool:
        bench = Bench(pool, memory, driver, flags.quick)
        if flags.cpp:
            store = pool.store("", 512 * MIB)
            check([store.register_buffer(memory.address, MOST)], [0])
            print(bench.table(store, ""), flush=True)
            store.close()
            return
        own_package(bench, pool)
    cpp_package(flags)


if __name__ == "__main__":
    main()
