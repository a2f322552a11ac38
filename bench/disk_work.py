"""The processes of `disks.py`: one lends memory and a lower tier, puts and reads; the other only reads.

Both print one line: `RESULT` and JSON. The lending process then waits until its standard input ends. Works with any
package that has `mooncake.store.MooncakeDistributedStore`.
"""

import argparse
import ctypes
import json
import pathlib
import random
import statistics
import sys
import time
from typing import Any

import peer

MIB = 1 << 20
SLOTS = 32
TOGETHER = 16
# After this time, refused puts are not repeated.
PATIENCE_S = 120
STAMP_BYTES = 8


class Values:
    """The values: random bytes from one of `SLOTS` slots. Each begins with the object's number."""

    def __init__(self, store: Any, length: int) -> None:
        self.store, self.length = store, length
        self.source = bytearray(random.Random(length).randbytes(SLOTS * length))
        self.target = bytearray(TOGETHER * length)
        self.source_at, self.target_at = (
            ctypes.addressof(ctypes.c_char.from_buffer(it)) for it in (self.source, self.target)
        )
        for address, buffer in ((self.source_at, self.source), (self.target_at, self.target)):
            peer.expect(store.register_buffer(address, len(buffer)), 0)

    def key(self, number: int) -> str:
        return f"{self.length}/{number}"

    def put(self, number: int) -> bool:
        at = number % SLOTS * self.length
        self.source[at : at + STAMP_BYTES] = number.to_bytes(STAMP_BYTES, "little")
        return bool(self.store.put_from(self.key(number), self.source_at + at, self.length) == 0)

    def get(self, numbers: list[int]) -> int:
        """Reads these objects. Returns how many were not read."""
        keys = [self.key(number) for number in numbers]
        if len(keys) == 1:
            return int(self.store.get_into(keys[0], self.target_at, self.length) != self.length)
        places = [self.target_at + at * self.length for at in range(len(keys))]
        lengths = self.store.batch_get_into(keys, places, [self.length] * len(keys))
        return sum(length != self.length for length in lengths)

    def wrong(self, numbers: list[int]) -> int:
        """How many of the objects that were read last have other bytes than were put."""
        bad = 0
        for place, number in enumerate(numbers):
            got = memoryview(self.target)[place * self.length : (place + 1) * self.length]
            put = memoryview(self.source)[number % SLOTS * self.length :][: self.length]
            stamp = number.to_bytes(STAMP_BYTES, "little")
            bad += got[:STAMP_BYTES] != stamp or got[STAMP_BYTES:] != put[STAMP_BYTES:]
        return bad


def setup(args: argparse.Namespace, segment_bytes: int) -> Any:
    from mooncake.store import MooncakeDistributedStore

    store = MooncakeDistributedStore()
    config = {
        "local_hostname": f"127.0.0.1:{peer.free_port()}",
        "metadata_server": "P2PHANDSHAKE",
        "master_server_addr": f"127.0.0.1:{args.port}",
        "global_segment_size": segment_bytes,
        "local_buffer_size": 64 * MIB,
    }
    if segment_bytes and args.disk:
        config |= {"enable_ssd_offload": True, "ssd_offload_path": str(args.disk)}
    peer.expect(store.setup(config), 0)
    return store


def put_all(values: Values, count: int, is_used_again: bool) -> dict[str, float]:
    """Puts each object until the store accepts it. With `is_used_again`, also reads each once."""
    refused = given_up = 0
    spent, begun = time.process_time(), time.perf_counter()
    for number in range(count):
        while not values.put(number):
            refused += 1
            if time.perf_counter() - begun > PATIENCE_S:
                given_up += 1
                break
            time.sleep(0.005)
        if is_used_again:
            values.get([number])
    seconds = time.perf_counter() - begun
    taken = (count - given_up) * values.length
    return {
        "MB/s": taken / seconds / 1e6,
        "s": seconds,
        "cpu_s_per_GB": (time.process_time() - spent) / max(taken, 1) * 1e9,
        "refused": refused,
        "given_up": given_up,
    }


def below_memory(store: Any, values: Values, count: int) -> list[int]:
    """The objects that have no replica in memory."""
    cold = []
    for first in range(0, count, 1000):
        keys = [values.key(number) for number in range(first, min(first + 1000, count))]
        found = store.batch_get_replica_desc(keys)
        cold += [key for key, replicas in found.items() if not any(one.is_memory_replica() for one in replicas)]
    return sorted(int(key.partition("/")[2]) for key in cold)


def read(values: Values, numbers: list[int]) -> dict[str, float]:
    """Reads half of these objects one at a time, the other half several at a time, and compares all bytes."""
    singly, together = numbers[: len(numbers) // 2], numbers[len(numbers) // 2 :]
    each, missing, wrong = [], 0, 0
    for number in singly:
        begun = time.perf_counter()
        failed = values.get([number])
        each.append((time.perf_counter() - begun) * 1e6)
        missing += failed
        wrong += 0 if failed else values.wrong([number])
    seconds = 0.0
    for first in range(0, len(together), TOGETHER):
        some = together[first : first + TOGETHER]
        begun = time.perf_counter()
        failed = values.get(some)
        seconds += time.perf_counter() - begun
        missing += failed
        wrong += values.wrong(some) if not failed else 0
    return {
        "p50_us": statistics.median(each),
        "p99_us": statistics.quantiles(each, n=100)[98],
        "together_MB/s": len(together) * values.length / seconds / 1e6,
        "missing": missing,
        "wrong": wrong,
    }


def told(figures: dict[str, Any]) -> None:
    print("RESULT " + json.dumps(figures), flush=True)


def lend(args: argparse.Namespace) -> None:
    store = setup(args, args.segment)
    figures: dict[str, Any] = {"put": {}, "get": {}, "cold": {}, "lost": {}}
    # Kept in a dict for all lengths, because registered buffers must not be freed.
    kept = {length: Values(store, length) for length, _ in args.objects}
    for length, count in args.objects:
        values = kept[length]
        figures["put"][length] = put_all(values, count, args.twice)
        time.sleep(args.settle)
        cold = below_memory(store, values, count)
        figures["lost"][length] = count - sum(it == 1 for it in exist(store, values, count))
        figures["cold"][length] = random.Random(1).sample(cold, min(args.reads, len(cold)))
        if len(cold) >= 2 * TOGETHER:
            figures["get"][length] = read(values, figures["cold"][length])
    told(figures)
    sys.stdin.read()
    store.close()


def exist(store: Any, values: Values, count: int) -> list[int]:
    return list(store.batch_is_exist([values.key(number) for number in range(count)]))


def reader(args: argparse.Namespace) -> None:
    store = setup(args, 0)
    wanted = {int(length): numbers for length, numbers in json.loads(sys.stdin.read()).items()}
    kept = {length: Values(store, length) for length in wanted}
    told({"get": {length: read(kept[length], numbers) for length, numbers in wanted.items() if len(numbers) >= 32}})
    store.close()


def objects(text: str) -> tuple[int, int]:
    length, _, count = text.partition(":")
    return int(length), int(count)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("role", choices=("lend", "read"))
    parser.add_argument("--port", type=int, required=True, help="where the master listens on this host")
    parser.add_argument("--segment", type=int, default=256 * MIB, help="bytes of memory that are lent")
    parser.add_argument("--disk", type=pathlib.Path, help="the folder of the disk that is lent")
    parser.add_argument("--objects", type=objects, nargs="+", default=[], metavar="LENGTH:COUNT")
    parser.add_argument("--reads", type=int, default=1000, help="how many objects of each length are read")
    parser.add_argument("--twice", action="store_true", help="read each object once as soon as it is put")
    parser.add_argument("--settle", type=float, default=1, help="seconds between the puts and the reads")
    args = parser.parse_args()
    (lend if args.role == "lend" else reader)(args)


if __name__ == "__main__":
    main()
