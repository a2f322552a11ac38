"""Times `batch_is_exist` of 32 keys, as vLLM asks for a prompt of 4,096 tokens: `lookup_time.py MASTER_ADDRESS`.

Prints the median in microseconds. Run it with the Python of the package to measure.
"""

from __future__ import annotations

import os
import statistics
import sys
import threading
import time

KEYS = 32
CALLS = 2000
WARM_UP = 200
HASH_DIGITS = 64
MIB = 1 << 20


def keys() -> list[str]:
    """Keys as long as those of vLLM."""
    return [f"gqa@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@{number:0{HASH_DIGITS}x}" for number in range(KEYS)]


def measure(master_address: str) -> float:
    """The median time in microseconds. Raises RuntimeError if the store fails."""
    from mooncake.store import MooncakeDistributedStore

    store = MooncakeDistributedStore()
    if store.setup("127.0.0.1", "P2PHANDSHAKE", 0, 16 * MIB, "tcp", "", master_address) != 0:
        raise RuntimeError(f"no store at {master_address}")
    asked = keys()
    for key in asked:
        if store.put(key, b"present") != 0:
            raise RuntimeError(f"{key} is not stored")
    times_us = []
    for call in range(WARM_UP + CALLS):
        begin = time.perf_counter()
        found = store.batch_is_exist(asked)
        if call >= WARM_UP:
            times_us.append((time.perf_counter() - begin) * 1e6)
        if found != [1] * KEYS:
            raise RuntimeError(f"not all keys are there: {found}")
    return statistics.median(times_us)


def main() -> None:
    # vLLM's look-ups do not run in the main thread either.
    thread = threading.Thread(target=lambda: print(measure(sys.argv[1]), flush=True))
    thread.start()
    thread.join()
    # Skips the packages' different shutdowns: the result is printed.
    os._exit(0)


if __name__ == "__main__":
    main()
