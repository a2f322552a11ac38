#!/usr/bin/env python3
"""What a call from Python costs in the client's process: an empty call, one key, a batch of 1,000 keys, an object.

    python3 bench/python_overhead.py         # five minutes

"Conversion alone" is the same call on a store that was never set up, which refuses it at once. The table has a dash if
a package crashes on that. Times cover the whole call; CPU times cover the client's process with all its threads. Both
are medians of alternating rounds, with a master and a node on the same machine that hold only the objects to get.
valgrind's callgrind counts instructions in user space, if it is installed and the package runs under it (the C++
package does not). Each call runs with two numbers of repetitions; the difference is its cost.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import time

import peer
import testbed
from environment import HOME, VARIANTS, add_arguments, machine, prepare
from instructions import NO_VALGRIND
from table import cell, markdown

HERE = pathlib.Path(__file__).resolve()
KEYS = [f"Qwen/Qwen3-32B@pcp0@dcp0@head_or_tp_rank:0@pp_rank:0@{at:067x}" for at in range(1000)]
# By work: what is called, how often a timed round calls it, and the two numbers of calls for counting instructions.
WORKS = {
    "empty": ("get_hostname, an empty call", 20_000, (200, 600)),
    "one": ("is_exist, one key", 1_000, (100, 300)),
    "one_refused": ("is_exist, conversion alone", 20_000, (200, 600)),
    "batch": ("batch_is_exist, 1,000 keys", 100, (10, 30)),
    "prefix": ("batch_prefix_len, 10,000 keys that are all there", 50, (3, 9)),
    "batch_refused": ("batch_is_exist, 1,000 keys, conversion alone", 200, (10, 30)),
    "buffer": ("get_buffer, 1 MiB at another process", 500, (20, 60)),
    "buffer_read": ("get_buffer, 1 MiB at another process, and a copy of it", 500, (20, 60)),
    "large": ("get_buffer, 16 MiB at another process", 100, (4, 12)),
    "large_read": ("get_buffer, 16 MiB at another process, and a copy of it", 100, (4, 12)),
}
PREFIX_KEYS = [f"Qwen/Qwen3-32B@pcp0@dcp0@head_or_tp_rank:0@pp_rank:0@prefix{at:061x}" for at in range(10_000)]
# In bytes: the lengths of the objects to get, and of the segment that holds them.
OBJECTS = {"buffer": 1 << 20, "large": 16 << 20}
SEGMENT_BYTES = 256 << 20
RUN_TIMEOUT_S = 300


def call_of(work, args):
    """The function to call repeatedly."""
    from mooncake.store import MooncakeDistributedStore

    store = MooncakeDistributedStore() if work.endswith("_refused") else peer.connect(args, 0, 64 << 20)
    key = KEYS[0]
    name = work.removesuffix("_read")
    if name in OBJECTS:
        # An earlier run may have put the object already.
        peer.expect(store.is_exist(name) == 1 or store.put(name, bytes(OBJECTS[name])) == 0, True)
        get = store.get_buffer
        return (lambda: get(name)) if name == work else (lambda: bytes(memoryview(get(name))))
    if name == "prefix":
        peer.expect(store.put_batch(PREFIX_KEYS, [b"v"] * len(PREFIX_KEYS)), 0)
        return lambda: peer.expect(store.batch_prefix_len(PREFIX_KEYS), len(PREFIX_KEYS))
    return {
        "empty": lambda: store.get_hostname(),
        "one": lambda: store.is_exist(key),
        "batch": lambda: store.batch_is_exist(KEYS),
    }[work.removesuffix("_refused")]


def child(args):
    """Makes the calls, and prints the microseconds per call: wall-clock time and CPU time."""
    call = call_of(args.work, args)
    call()
    begin, cpu = time.perf_counter(), time.process_time()
    for _ in range(args.calls):
        call()
    spent = [(time.perf_counter() - begin) / args.calls * 1e6, (time.process_time() - cpu) / args.calls * 1e6]
    print("RESULT " + json.dumps(spent), flush=True)
    # Closes nothing, so that the shutdown is not counted.
    sys.stdout.flush()
    os._exit(0)


def command(pool, work, calls):
    return [*pool.role(HERE.name, testbed.HERE_PLACE, "child", "--work", work), "--calls", str(calls)]


def run_child(pool, arguments):
    """The result of a run, or None if it failed: a package may crash under valgrind, or on a store that was not set
    up.
    """
    environment = {**pool.variables, "PYTHONHASHSEED": "0"}
    try:
        done = subprocess.run(arguments, env=environment, capture_output=True, text=True, timeout=RUN_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        done = None
    if done is None or done.returncode != 0 or "RESULT " not in done.stdout:
        status = "took too long" if done is None else f"ended with status {done.returncode}"
        print(f"{' '.join(arguments)} {status}", file=sys.stderr, flush=True)
        return None
    return done


def taken_us(pool, work, calls):
    """The microseconds per call, wall-clock and CPU time; None if the call cannot be made."""
    done = run_child(pool, command(pool, work, calls))
    if done is None:
        return None, None
    return next(json.loads(line[7:]) for line in done.stdout.splitlines() if line.startswith("RESULT "))


def instructions(pool, work):
    """The instructions of one call, or None if they cannot be counted."""
    counts, totals = WORKS[work][2], []
    for calls in counts:
        counted = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
        done = run_child(pool, [*counted, *command(pool, work, calls)])
        if done is None:
            return None
        totals.append(int(re.search(r"Collected : (\d+)", done.stderr)[1]))
    return (totals[1] - totals[0]) / (counts[1] - counts[0])


def median(values):
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def measure(variants, rounds, has_valgrind):
    """The figures, by kind, work and variant."""
    taken = {work: {variant: [] for variant in variants} for work in WORKS}
    counted = {work: dict.fromkeys(variants) for work in WORKS}
    for at, variant in enumerate(variants * rounds):
        with testbed.Pool(variant) as pool:
            pool.wait_for_master()
            pool.add_node(SEGMENT_BYTES)
            for work, (_, calls, _) in WORKS.items():
                taken[work][variant].append(taken_us(pool, work, calls))
                if has_valgrind and at < len(variants):
                    counted[work][variant] = instructions(pool, work)
                shown = f"{taken[work][variant][-1]} us, {counted[work][variant]} instructions"
                print(f"{work}, {variant}: {shown}", file=sys.stderr, flush=True)

    def medians(which):
        return {
            work: {name: median(pair[which] for pair in pairs) for name, pairs in taken[work].items()} for work in WORKS
        }

    return {"us": medians(0), "CPU us": medians(1), "instructions": counted}


def report(figures, variants):
    head = ["call", *(f"{kind}, {VARIANTS[variant][0]}" for kind in figures for variant in variants)]
    rows = [
        [what, *(cell(of[work][v]) for of in figures.values() for v in variants)]
        for work, (what, _, _) in WORKS.items()
    ]
    return markdown([head, *rows])


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="rounds of both packages in turn [3]")
    parser.add_argument("--json", type=pathlib.Path, default=HOME / "python_overhead.json")
    add_arguments(parser)
    return parser.parse_args()


def parse_child_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("role")
    parser.add_argument("--work", choices=WORKS, required=True)
    parser.add_argument("--calls", type=int, required=True)
    for name in ("--host", "--master-host"):
        parser.add_argument(name, required=True)
    for name in ("--master-port", "--http-port"):
        parser.add_argument(name, type=int, required=True)
    return parser.parse_args()


def main():
    args = parse_arguments()
    variants = [variant for variant in prepare(args) if variant in ("cpp", "rust")]
    has_valgrind = shutil.which("valgrind") is not None
    if not has_valgrind:
        print(NO_VALGRIND, file=sys.stderr)
    figures = measure(variants, args.rounds, has_valgrind)
    print(f"{machine()}. Medians over {args.rounds} round(s), in turn.\n\n{report(figures, variants)}")
    args.json.write_text(json.dumps({"machine": machine(), **figures}, indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        child(parse_child_arguments())
    else:
        main()
