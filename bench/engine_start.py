#!/usr/bin/env python3
"""Measures the start of an engine whose process lends the pool's memory, and of one beside a daemon that lends it.

    .venv/bin/python bench/engine_start.py [--gb 8] [--saved-gb 1] [--double]

Each start is a new process that sets a store up, and then puts objects of 1 MiB. With memory of its own, it lends
`--gb`. Beside a `mooncake_client` that lends as much, it lends nothing, and finds memory that earlier engines have
used. With `--double` the objects lie in the memory of a double of a GPU, so that pages are locked too.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

from table import markdown

sys.path.append(str(Path(__file__).resolve().parents[1] / "python" / "tests"))
from cluster import MIB, Cluster

ROUNDS = 3
OBJECTS = 64
BUFFER_BYTES = 64 * MIB


def engine(master: str, lent_bytes: int, saved_bytes: int, on_double: bool, tag: str) -> None:
    """An engine's process: prints the seconds until its store is there, and those of its first puts."""
    from cluster import Memory
    from gpu import DeviceMemory
    from mooncake.store import MooncakeDistributedStore

    memory = DeviceMemory(OBJECTS * MIB) if on_double else Memory(OBJECTS * MIB)
    for i in range(OBJECTS):
        memory.write(i * MIB, bytes([i]) * MIB)
    addresses = [[memory.address + i * MIB] for i in range(OBJECTS)]
    started = time.perf_counter()
    store = MooncakeDistributedStore()
    code = store.setup("localhost", "P2PHANDSHAKE", lent_bytes, BUFFER_BYTES, "tcp", "", master)
    if code != 0 or store.register_buffer(memory.address, memory.size) != 0:
        raise SystemExit(f"the store cannot be set up: {code}")
    ready = time.perf_counter()
    for batch in range(saved_bytes // memory.size):
        keys = [f"{tag}-{batch}-{i}" for i in range(OBJECTS)]
        codes = store.batch_put_from_multi_buffers(keys, addresses, [[MIB]] * OBJECTS)
        if any(codes):
            raise SystemExit(f"puts fail: {codes}")
    print(json.dumps([ready - started, time.perf_counter() - ready]))
    store.close()


def start(cluster: Cluster, lent_bytes: int, saved_bytes: int, on_double: bool, tag: str) -> tuple[float, float]:
    arguments = [cluster.master_address, str(lent_bytes), str(saved_bytes), str(int(on_double)), tag]
    command = [sys.executable, __file__, "--engine", *arguments]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    ready, saved = json.loads(output.splitlines()[-1])
    return ready, saved


def measure(lent_bytes: int, saved_bytes: int, on_double: bool) -> list[list[str]]:
    rows = [["the pool's memory belongs to", "setup, ms", f"first {saved_bytes / 2**30:.3g} GiB of puts, s"]]
    for name in ("the engine", "a daemon beside it"):
        is_own = name == "the engine"
        with Cluster() as cluster:
            if not is_own:
                cluster.start_node(lent_bytes)
                start(cluster, 0, saved_bytes, on_double, "before")
            starts = [
                start(cluster, lent_bytes if is_own else 0, saved_bytes, on_double, f"{i}") for i in range(ROUNDS)
            ]
        ready, saved = (statistics.median(times) for times in zip(*starts, strict=True))
        rows.append([name, f"{1000 * ready:.1f}", f"{saved:.2f}"])
    return rows


def main() -> None:
    if sys.argv[1:2] == ["--engine"]:
        master, lent_bytes, saved_bytes, on_double, tag = sys.argv[2:]
        engine(master, int(lent_bytes), int(saved_bytes), on_double == "1", tag)
        return
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--gb", type=float, default=8, help="GiB of the pool")
    parser.add_argument("--saved-gb", type=float, default=1, help="GiB that each engine puts first")
    parser.add_argument("--double", action="store_true", help="put from the memory of a double of a GPU")
    arguments = parser.parse_args()
    print(markdown(measure(int(arguments.gb * 2**30), int(arguments.saved_gb * 2**30), arguments.double)))
    print(f"\nMedians of {ROUNDS} starts.")


if __name__ == "__main__":
    main()
