#!/usr/bin/env python3
"""What the hot cache saves: the mean latency of gets with and without it, in alternating rounds.

    python3 bench/hot_cache.py                    # loopback, one get after the other; three minutes
    python3 bench/hot_cache.py --rate-mbit 1000   # a link in network namespaces, as root; gets arrive by themselves
    python3 bench/hot_cache.py --rate-mbit 1000 --load 0 --gets 300    # the same link, one get after the other

Objects of 1 MiB lie on one node and are read over TCP. The share `--hits` of the gets reads a few objects that were
read before; all other gets read objects for the first time.

On a link, gets arrive at random, at the share `--load` of its rate; the latency of a get begins when it arrives. On
loopback, and with no load, a get begins when the last one has ended. There, each object is read by two stores of one
process, one with a cache and one without, in random order.

Goals at 30 % hits: 28 % less on an idle link, and 40 % less on a link of 1,000 Mbit/s at 80 % load. Goal without hits:
less than 2 % more. `hit` is the mean latency of gets that hit. `copy` is that of plain copies of as many objects.
"""

import argparse
import ctypes
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import time
from contextlib import nullcontext

import peer
from environment import HOME, add_arguments, machine, prepare
from table import cell, markdown
from testbed import HERE_PLACE, Place, Pool
from wire import HOSTS, Wire, WireError

HERE = pathlib.Path(__file__).resolve()
MIB = 1 << 20
HOT = [f"hot {at}" for at in range(16)]
CACHE_BYTES = 64 * MIB
RUN_TIMEOUT_S = 600


def child(args):
    """Puts missing objects, warms the caches, reads, and prints how long the gets of each store took."""
    stores = [open_store(args, size) for size in args.caches]
    chance = random.Random(args.seed)
    cold = [f"cold {at}" for at in range(args.gets)]
    value = chance.randbytes(MIB)
    for key in (*HOT, *cold):
        peer.expect(stores[0].is_exist(key) == 1 or stores[0].put(key, value) == 0, True)
    buffer = bytearray(MIB)
    address = ctypes.addressof(ctypes.c_char.from_buffer(buffer))
    for store in stores:
        peer.expect(store.register_buffer(address, MIB), 0)
        for _ in range(6):
            for key in HOT:
                peer.expect(store.get_into(key, address, MIB), MIB)
            time.sleep(0.2)
    unread = iter(cold)
    hits, others = [[] for _ in stores], [[] for _ in stores]
    arrival = time.perf_counter()
    of_hot = round(args.hits * args.gets)
    for is_hot in chance.sample([True] * of_hot + [False] * (args.gets - of_hot), args.gets):
        key = chance.choice(HOT) if is_hot else next(unread)
        for at in chance.sample(range(len(stores)), len(stores)):
            arrival = arrival + chance.expovariate(args.rate) if args.rate else time.perf_counter()
            if (left := arrival - time.perf_counter()) > 0:
                time.sleep(left)
            peer.expect(stores[at].get_into(key, address, MIB), MIB)
            (hits if is_hot else others)[at].append((time.perf_counter() - arrival) * 1e6)
    copies = [chance.randbytes(MIB) for _ in HOT] * 4
    begin = time.perf_counter()
    for copy in copies:
        buffer[:] = copy
    copy_us = (time.perf_counter() - begin) / len(copies) * 1e6
    for hit, other in zip(hits, others, strict=True):
        result = {"mean": statistics.mean(hit + other), "hit": statistics.mean(hit) if hit else None, "copy": copy_us}
        print("RESULT " + json.dumps(result), flush=True)
    os._exit(0)


def open_store(args, cache_bytes):
    os.environ["MC_STORE_LOCAL_HOT_CACHE_SIZE"] = str(cache_bytes)
    return peer.connect(args, 0, 64 * MIB)


def run_once(pool, place, caches, hits, args):
    """The figures of one round, for caches of these sizes."""
    rate = args.load * args.rate_mbit * 1e6 / 8 / MIB
    own = ["child", "--hits", str(hits), "--gets", str(args.gets), "--rate", str(rate), "--seed", str(args.seed)]
    command = pool.role(HERE.name, place, *own, "--caches", *map(str, caches))
    variables = {**pool.variables, "MOONCAKE_TRANSPORTS": "tcp"}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=RUN_TIMEOUT_S)
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if done.returncode != 0 or len(lines) != len(caches):
        sys.exit(f"{' '.join(command)} ended with status {done.returncode}: {done.stderr.strip()}")
    return [json.loads(line[7:]) for line in lines]


def measure(args):
    """The figures of all rounds, by share of hits and by cache."""
    taken = {hits: {"off": [], "on": []} for hits in (args.hits, 0.0)}
    caches = (0, CACHE_BYTES)
    # Gets that arrive at random wait for each other. Then each store needs a run of its own.
    is_open = args.rate_mbit > 0 and args.load > 0
    runs = [caches[:1], caches[1:]] if is_open else [caches]
    with Wire(args.rate_mbit, 0) if args.rate_mbit else nullcontext() as wire:
        places = [HERE_PLACE, HERE_PLACE]
        if wire is not None:
            places = [Place(host, enter) for host, enter in zip(HOSTS, wire.enter, strict=True)]
        with Pool("rust_tcp", places[1]) as pool:
            pool.wait_for_master()
            pool.add_node((args.gets + len(HOT) + 64) * MIB)
            for _ in range(args.rounds):
                for hits, by_cache in taken.items():
                    results = [result for run in runs for result in run_once(pool, places[0], run, hits, args)]
                    for name, result in zip(("off", "on"), results, strict=True):
                        by_cache[name].append(result)
                        print(f"{hits:.0%} hits, cache {name}: {result}", file=sys.stderr, flush=True)
    return taken


def report(taken):
    rows = [["hits", "off, mean us", "on, mean us", "less", "hit, us", "copy, us"]]
    for hits, by_cache in taken.items():
        off, on = (statistics.median(it["mean"] for it in by_cache[name]) for name in ("off", "on"))
        hit = [it["hit"] for it in by_cache["on"] if it["hit"] is not None]
        hit_us = statistics.median(hit) if hit else None
        copy_us = statistics.median(it["copy"] for it in by_cache["on"])
        rows.append([f"{hits:.0%}", cell(off), cell(on), f"{1 - on / off:.1%}", cell(hit_us), cell(copy_us)])
    return markdown(rows)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate-mbit", type=int, default=0, help="the rate of a link; 0: loopback [0]")
    parser.add_argument(
        "--load", type=float, default=0.8, help="how much of the link the gets ask for; 0: one after the other [0.8]"
    )
    parser.add_argument("--hits", type=float, default=0.3, help="the share of gets of hot objects [0.3]")
    parser.add_argument("--gets", type=int, default=1000, help="gets in a round [1000]")
    parser.add_argument("--rounds", type=int, default=5, help="rounds with and without the cache in turn [5]")
    parser.add_argument("--seed", type=int, default=1, help="of arrivals and keys [1]")
    parser.add_argument("--json", type=pathlib.Path, default=HOME / "hot_cache.json")
    add_arguments(parser)
    return parser.parse_args()


def parse_child_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("role")
    for name in ("--hits", "--rate"):
        parser.add_argument(name, type=float, required=True)
    for name in ("--gets", "--seed", "--master-port", "--http-port"):
        parser.add_argument(name, type=int, required=True)
    for name in ("--host", "--master-host"):
        parser.add_argument(name, required=True)
    parser.add_argument("--caches", type=int, nargs="+", required=True)
    return parser.parse_args()


def main():
    args = parse_arguments()
    prepare(args)
    try:
        taken = measure(args)
    except WireError as error:
        sys.exit(str(error))
    print(f"{machine()}. Medians over {args.rounds} round(s), in turn.\n\n{report(taken)}")
    args.json.write_text(json.dumps({"machine": machine(), **{str(k): v for k, v in taken.items()}}, indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        child(parse_child_arguments())
    else:
        main()
