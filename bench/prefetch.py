#!/usr/bin/env python3
"""Measures how long the get of a prompt takes whose blocks lie on the disk alone, with and without a prefetch.

    python bench/prefetch.py --folder /nvme        # half a minute; see --help

A process lends 512 MiB and a disk, and puts more than memory takes. An engine looks a prompt up, schedules it some time
later, and then gets its blocks. Here the look-up (`batch_is_exist`) comes so many milliseconds before the get, once
without and once with `ExistOptions.prefetch_to_memory`. Every block that is read is compared.
"""

import argparse
import ctypes
import pathlib
import statistics
import sys
import tempfile
import time
from typing import Any

import environment
import peer
from table import cell, markdown
from testbed import Pool

MIB = 1 << 20
BLOCKS, LENGTH = 32, MIB
SEGMENT_BYTES = 512 * MIB
GAPS_MS = (0, 10, 30, 100)


def setup(port: int, folder: str) -> Any:
    from mooncake.store import MooncakeDistributedStore

    store = MooncakeDistributedStore()
    config = {
        "local_hostname": f"127.0.0.1:{peer.free_port()}",
        "metadata_server": "P2PHANDSHAKE",
        "master_server_addr": f"127.0.0.1:{port}",
        "global_segment_size": SEGMENT_BYTES,
        "local_buffer_size": 64 * MIB,
        "enable_ssd_offload": True,
        "ssd_offload_path": folder,
        "enable_ssd_prefetch": True,
    }
    peer.expect(store.setup(config), 0)
    return store


def keys_of(prompt: int) -> list[str]:
    return [f"prompt {prompt}, block {block}" for block in range(BLOCKS)]


class Prompts:
    """Prompts of `BLOCKS` blocks. The bytes of a block begin with the numbers of its prompt and of the block."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.buffer = bytearray(BLOCKS * LENGTH)
        self.at = ctypes.addressof(ctypes.c_char.from_buffer(self.buffer))
        peer.expect(store.register_buffer(self.at, len(self.buffer)), 0)
        self.places = [self.at + block * LENGTH for block in range(BLOCKS)]

    def put(self, prompt: int) -> None:
        for block in range(BLOCKS):
            self.buffer[block * LENGTH : block * LENGTH + 16] = self.stamp(prompt, block)
        codes = self.store.batch_put_from(keys_of(prompt), self.places, [LENGTH] * BLOCKS)
        assert all(code == 0 for code in codes), codes

    def stamp(self, prompt: int, block: int) -> bytes:
        return prompt.to_bytes(8, "little") + block.to_bytes(8, "little")

    def is_on_disk_alone(self, prompt: int) -> bool:
        described = self.store.batch_get_replica_desc(keys_of(prompt))
        replicas = [replica for all_of_key in described.values() for replica in all_of_key]
        return len(replicas) == BLOCKS and all(replica.is_local_disk_replica() for replica in replicas)

    def get_ms(self, prompt: int) -> float:
        begun = time.perf_counter()
        lengths = self.store.batch_get_into(keys_of(prompt), self.places, [LENGTH] * BLOCKS)
        took = time.perf_counter() - begun
        assert lengths == [LENGTH] * BLOCKS, lengths
        for block in range(BLOCKS):
            assert self.buffer[block * LENGTH : block * LENGTH + 16] == self.stamp(prompt, block), "wrong bytes"
        return took * 1e3


def measure(prompts: Prompts, count: int) -> dict[tuple[int, bool], list[float]]:
    """The times of the gets, by the gap and by whether the look-up prefetches."""
    from mooncake.store import ExistOptions

    ways = [(gap, prefetches) for gap in GAPS_MS for prefetches in (False, True)]
    times: dict[tuple[int, bool], list[float]] = {way: [] for way in ways}
    on_disk = [prompt for prompt in range(count) if prompts.is_on_disk_alone(prompt)]
    for place, prompt in enumerate(on_disk):
        gap, prefetches = ways[place % len(ways)]
        options = ExistOptions()
        options.prefetch_to_memory = prefetches
        assert prompts.store.batch_is_exist(keys_of(prompt), options) == [1] * BLOCKS
        time.sleep(gap / 1e3)
        times[gap, prefetches].append(prompts.get_ms(prompt))
        # The leases end, so that the next promotion finds room.
        time.sleep(0.25)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--folder", type=pathlib.Path, default=None, help="where the disk is (default: a temporary folder)"
    )
    parser.add_argument("--prompts", type=int, default=120, help="prompts of 32 MiB to put (default: %(default)s)")
    args = parser.parse_args()
    flags = ["--enable_offload=true", "--default_kv_lease_ttl=200", "--rpc_address=127.0.0.1"]
    with tempfile.TemporaryDirectory(dir=args.folder) as own, Pool("rust", python=sys.executable, flags=flags) as pool:
        pool.wait_for_master()
        store = setup(pool.ports[0], own)
        prompts = Prompts(store)
        for prompt in range(args.prompts):
            prompts.put(prompt)
            time.sleep(0.05)
        time.sleep(1)
        times = measure(prompts, args.prompts)
        store.close()
    print(f"{environment.machine()}. Gets of 32 blocks of 1 MiB that lie on the disk alone\n")
    rows = [["look-up before the get", "without, ms, median", "with the prefetch, ms, median", "gets"]]
    for gap in GAPS_MS:
        without, prefetched = times[gap, False], times[gap, True]
        medians = [cell(statistics.median(some) if some else None) for some in (without, prefetched)]
        rows.append([f"{gap} ms", *medians, f"{len(without)} and {len(prefetched)}"])
    print(markdown(rows))


if __name__ == "__main__":
    main()
