#!/usr/bin/env python3
"""Objects between a GPU and a pool of this machine: every byte is checked, and figures stand beside a limit.

    make gpu                                          # on a machine with a GPU: torch and the package in .venv
    .venv/bin/python bench/gpu_figures.py --double    # with the test double of the driver, to try this program

A master and a node are started on free ports. The segments are: the process's own, the node's by shared memory, and
the node's by TCP. The limit is copies of torch between the GPU and page-locked memory, of as many bytes.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from typing import Any

from mooncake.store import MooncakeDistributedStore, ReplicateConfig
from table import markdown

KIB, MIB = 1 << 10, 1 << 20
# Pieces, and the length of each. Those of one object lie side by side, those of several are objects of one batch.
WORKS = {
    "64 x 1 MiB": (64, MIB),
    "1,024 x 4 KiB": (1024, 4 * KIB),
    "1,024 x 16 KiB": (1024, 16 * KIB),
    "1,024 x 64 KiB": (1024, 64 * KIB),
}
ROUNDS = 9
MOST = 64 * MIB


class TorchMemory:
    """Memory of the first GPU."""

    def __init__(self, size: int) -> None:
        import torch

        self.torch = torch
        self.tensor = torch.zeros(size, dtype=torch.uint8, device="cuda")
        self.address = self.tensor.data_ptr()
        torch.cuda.synchronize()

    def write(self, value: bytes) -> None:
        self.tensor[: len(value)].copy_(self.torch.frombuffer(bytearray(value), dtype=self.torch.uint8))
        self.torch.cuda.synchronize()

    def read(self, length: int) -> bytes:
        return bytes(self.tensor[:length].cpu().numpy())

    def limit(self, length: int) -> tuple[float, float]:
        """Seconds of a page-locked copy from the GPU and to it."""
        host = self.torch.empty(length, dtype=self.torch.uint8, pin_memory=True)

        def copied(target: Any, source: Any) -> Callable[[], None]:
            def run() -> None:
                target.copy_(source, non_blocking=True)
                self.torch.cuda.synchronize()

            return run

        part = self.tensor[:length]
        return median(copied(host, part)), median(copied(part, host))


class DoubleMemory:
    """Memory of the test double of the driver."""

    def __init__(self, size: int) -> None:
        sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "python" / "tests"))
        from gpu import DeviceMemory

        self.memory = DeviceMemory(size)
        self.address = self.memory.address

    def write(self, value: bytes) -> None:
        self.memory.write(0, value)

    def read(self, length: int) -> bytes:
        return self.memory.read(0, length)

    def limit(self, length: int) -> tuple[float, float]:
        return float("nan"), float("nan")


def median(run: Callable[[], object]) -> float:
    run()
    spent = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        run()
        spent.append(time.perf_counter() - start)
    return statistics.median(spent)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Pool:
    """A master and a node. Use it in a `with`."""

    def __enter__(self) -> Pool:
        self.rpc, self.http = free_port(), free_port()
        self.state = tempfile.TemporaryDirectory()
        flags = [f"--rpc_port={self.rpc}", "--rpc_address=127.0.0.1", f"--metrics_port={self.http}"]
        self.processes = [self.start("mooncake_master", *flags, f"--state_dir={self.state.name}")]
        self.wait(lambda: self.ask("/health") is not None)
        master = f"--master_server_address=127.0.0.1:{self.rpc}"
        self.processes.append(self.start("mooncake_client", "--host=127.0.0.1", master, "--global_segment_size=512MB"))
        self.wait(lambda: bool(self.ask("/get_all_segments")))
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self.processes):
            process.terminate()
            process.wait(30)
        self.state.cleanup()

    @staticmethod
    def start(command: str, *flags: str) -> subprocess.Popen[bytes]:
        program = pathlib.Path(sys.executable).with_name(command)
        return subprocess.Popen([program, *flags], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

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

    def store(self, transports: str, segment: int = 0) -> MooncakeDistributedStore:
        os.environ["MOONCAKE_TRANSPORTS"] = transports
        store = MooncakeDistributedStore()
        code = store.setup("127.0.0.1", "P2PHANDSHAKE", segment, 16 * MIB, "tcp", "", f"127.0.0.1:{self.rpc}")
        if code != 0:
            sys.exit(f"setup: {code}")
        return store


def measure(store: MooncakeDistributedStore, segment: str, memory: Any, name: str, has_limit: bool) -> list[str]:
    """One row of the table, for a segment if one is named. Ends the program if a byte is wrong."""
    count, length = WORKS[name]
    total, keys = count * length, [f"k{i}" for i in range(count)]
    value = os.urandom(total)
    addresses, sizes = [memory.address + i * length for i in range(count)], [length] * count
    memory.write(value)
    config = ReplicateConfig()
    config.preferred_segment = segment
    put = median(lambda: check(store.batch_upsert_from(keys, addresses, sizes, config), [0] * count))
    memory.write(bytes(total))
    get = median(lambda: check(store.batch_get_into(keys, addresses, sizes), sizes))
    if memory.read(total) != value:
        sys.exit(f"{name}: the bytes that came back are others")
    store.remove_all(force=True)
    if not has_limit:
        return [name, "right", "", ""]
    out, into = memory.limit(total)
    rate = [
        f"{total / spent / 1e9:.1f} GB/s, {100 * limit / spent:.0f} %" for spent, limit in ((put, out), (get, into))
    ]
    return [name, "right", *rate]


def check(found: list[int], expected: list[int]) -> None:
    if found != expected:
        sys.exit(f"an operation failed: {sorted(set(found) - set(expected))}")


def one_get(store: MooncakeDistributedStore, memory: Any) -> float:
    """Microseconds of a get of 4 KiB whose route is known."""
    check([store.upsert_from("one", memory.address, 4096)], [0])
    return 1e6 * median(lambda: [store.get_into("one", memory.address, 4096) for _ in range(100)]) / 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--double", action="store_true", help="the test double of the driver in place of a GPU")
    flags = parser.parse_args()
    if not flags.double:
        import torch

        if not torch.cuda.is_available():
            sys.exit("torch finds no GPU here; --double shows with a test double that this program works")
        print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}\n")
    memory = DoubleMemory(MOST) if flags.double else TorchMemory(MOST)
    with Pool() as pool:
        ways = {
            "own process": lambda: pool.store("shm,process_vm,tcp", 256 * MIB),
            "same host": lambda: pool.store("shm"),
            "tcp": lambda: pool.store("tcp"),
        }
        for way, make in ways.items():
            store = make()
            check([store.register_buffer(memory.address, MOST)], [0])
            segment = store.get_hostname() if way == "own process" else ""
            rows = [measure(store, segment, memory, name, not flags.double) for name in WORKS]
            print(f"### {way}\n\n" + markdown([["work", "bytes", "put, of the limit", "get, of the limit"], *rows]))
            if not flags.double:
                print(f"\nOne get of 4 KiB: {one_get(store, memory):.1f} us")
            print()
            store.close()


if __name__ == "__main__":
    main()
