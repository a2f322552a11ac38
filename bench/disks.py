#!/usr/bin/env python3
"""How fast objects sink to a disk and are read there, beside what fio does with the same disk; tables in Markdown.

    python3 bench/disks.py --folder /nvme            # a few minutes; see --help
    python3 bench/disks.py --gib 1 --as-installed    # less data, with the package that is installed already

Starts a master that offloads on evict. The process that measures lends memory and a disk; another one only reads. Every
object is compared. `fio`, where it is on the PATH, writes and reads the same folder past the system's cache, four jobs
at a time.
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from typing import Any

import environment
import peer
from table import cell, markdown

MIB = 1 << 20
MB = 1_000_000
SEGMENT_BYTES = 256 * MIB
LEASE_MS = 100


def fio(folder: pathlib.Path, how: str) -> float | None:
    """Bytes a second, of 1 MiB at a time; none without fio."""
    if shutil.which("fio") is None:
        return None
    command = ["fio", "--name=raw", f"--directory={folder}", "--direct=1", "--bs=1M", "--size=512M", "--numjobs=4"]
    command += ["--group_reporting", "--end_fsync=1", f"--rw={how}", "--output-format=json"]
    told = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return float(told["jobs"][0]["read" if "read" in how else "write"]["bw_bytes"])


class Master:
    """A master that offloads on evict. Use it in a `with`."""

    def __init__(self, commands: pathlib.Path) -> None:
        self.port, self.admin = peer.free_port(), peer.free_port()
        self.state = tempfile.TemporaryDirectory()
        flags = [f"--rpc_port={self.port}", f"--metrics_port={self.admin}", f"--state_dir={self.state.name}"]
        flags += ["--enable_offload", "--offload_on_evict", f"--default_kv_lease_ttl={LEASE_MS}"]
        self.process = subprocess.Popen([commands / "mooncake_master", *flags], stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", self.admin), 1).close()
                return
            except OSError:
                time.sleep(0.05)
        raise RuntimeError("the master did not start")

    def metric(self, name: str) -> int:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/metrics", timeout=5) as reply:
            lines = [line.split() for line in reply.read().decode().splitlines()]
        return next(int(float(words[1])) for words in lines if words[:1] == [name])

    def __enter__(self) -> "Master":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait()


def opened(master: Master, segment_bytes: int, disk: pathlib.Path | None) -> Any:
    from mooncake.store import MooncakeDistributedStore

    store = MooncakeDistributedStore()
    config = {
        "local_hostname": "127.0.0.1",
        "metadata_server": "P2PHANDSHAKE",
        "master_server_addr": f"127.0.0.1:{master.port}",
        "global_segment_size": segment_bytes,
        "local_buffer_size": 256 * MIB,
        "enable_ssd_offload": disk is not None,
        "ssd_offload_path": str(disk or ""),
    }
    assert store.setup(config) == 0, "the store was not set up"
    return store


def value(number: int, length: int) -> bytes:
    return random.Random(number).randbytes(64) * (length // 64)


def puts(store: Any, count: int, length: int) -> tuple[float, int]:
    """Seconds that so many puts took, and how many were refused."""
    seconds, refused = 0.0, 0
    for number in range(count):
        wanted = value(number, length)
        begun = time.perf_counter()
        refused += store.put(f"{length}/{number}", wanted) != 0
        seconds += time.perf_counter() - begun
    return seconds, refused


def on_disk(store: Any, count: int, length: int) -> list[int]:
    """The objects that lie on the disk alone."""
    found = store.batch_get_replica_desc([f"{length}/{number}" for number in range(count)])
    cold = [key for key, replicas in found.items() if not any(one.is_memory_replica() for one in replicas)]
    return [int(key.partition("/")[2]) for key in cold]


def gets(store: Any, numbers: list[int], length: int) -> tuple[list[float], int]:
    """Microseconds of each get, and how many gave other bytes."""
    spent, wrong = [], 0
    for number in numbers:
        begun = time.perf_counter()
        got = store.get(f"{length}/{number}")
        spent.append((time.perf_counter() - begun) * 1e6)
        wrong += got != value(number, length)
    return spent, wrong


def latencies(what: str, spent: list[float], wrong: int, length: int) -> list[str]:
    cuts = statistics.quantiles(spent, n=100)
    rate = length * len(spent) / sum(spent)
    return [what, cell(statistics.median(spent)), cell(cuts[98]), f"{rate:,.0f}", str(wrong)]


def read_elsewhere(master_port: int, length: int, numbers: list[int]) -> tuple[list[float], int]:
    """As `gets`, from a process of its own."""
    arguments = json.dumps([master_port, length, numbers])
    command = [sys.executable, str(pathlib.Path(__file__).resolve()), "--reader", arguments]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    spent, wrong = json.loads(told.splitlines()[-1])
    return spent, wrong


def reader(arguments: str) -> None:
    port, length, numbers = json.loads(arguments)
    master = Master.__new__(Master)
    master.port = port
    store = opened(master, 0, None)
    print(json.dumps(gets(store, numbers, length)))
    store.close()


def measure(folder: pathlib.Path, commands: pathlib.Path, gib: int) -> None:
    print(environment.machine(), end="\n\n")
    written, read = fio(folder, "write"), fio(folder, "randread")
    print(
        f"fio, 1 MiB, four jobs: writes {cell(written and written / MB)} MB/s, reads {cell(read and read / MB)} MB/s\n"
    )
    for file in folder.glob("raw.*"):
        file.unlink()
    with Master(commands) as master:
        store = opened(master, 50 * MB, folder / "seed")
        seconds, refused = puts(store, 100, MB)
        _, wrong = gets(store, list(range(100)), MB)
        sunk = master.metric("master_offloaded_objects_total")
        told = f"{seconds:.3f} s, {refused} refused, {sunk} offloaded, {wrong} lost"
        print(f"100 puts of 1 MB into 50 MB of memory: {told}\n")
        store.close()
    rows = [["get from the disk", "p50, us", "p99, us", "MB/s, one at a time", "lost or wrong"]]
    with Master(commands) as master:
        store = opened(master, SEGMENT_BYTES, folder / "disk")
        count = gib * 1024
        begun = time.process_time()
        seconds, refused = puts(store, count, MIB)
        spent = time.process_time() - begun
        print(
            f"{gib} GiB put by 1 MiB into 256 MiB of memory: {seconds:.1f} s, {gib * 1024 / seconds:,.0f} MiB/s, ",
            end="",
        )
        print(f"{refused} refused, {spent / gib:.2f} s of processor time a GiB\n")
        small, refused = puts(store, 8192, 64 << 10)[1], refused
        for length, total in ((MIB, count), (64 << 10, 8192)):
            time.sleep(2 * LEASE_MS / 1000)
            cold = on_disk(store, total, length)
            numbers = random.Random(1).sample(cold, min(1000, len(cold)))
            name = "1 MiB" if length == MIB else "64 KiB"
            rows.append(latencies(f"{name}, by the process that lends it", *gets(store, numbers, length), length))
            rows.append(latencies(f"{name}, by another process", *read_elsewhere(master.port, length, numbers), length))
        _, wrong = gets(store, list(range(count)), MIB)
        print(markdown(rows))
        print(f"\nOf {count:,} objects of 1 MiB {wrong} are lost; {small + refused} puts were refused.")
        store.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path, help="on the disk to be measured; a temporary one by default")
    parser.add_argument("--gib", type=int, default=10, help="how much is put (10)")
    parser.add_argument("--as-installed", action="store_true", help="do not build and install the package first")
    parser.add_argument("--reader", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.reader:
        return reader(args.reader)
    python = environment.python_of("rust")
    if not args.as_installed:
        environment.ensure_rust(None)
    if pathlib.Path(sys.executable) != python:
        os.execv(python, [str(python), __file__, *sys.argv[1:], *([] if args.as_installed else ["--as-installed"])])
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        measure(pathlib.Path(folder), python.parent, args.gib)
    return None


if __name__ == "__main__":
    main()
