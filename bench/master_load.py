#!/usr/bin/env python3
"""Measures this project's master over the network: requests, keys, latency and CPU, with more and more in flight.

    python3 bench/master_load.py             # about a minute

Starts a new master for every line of the table. `master_load`, a program of crates/bench, loads it through connections
with several requests in flight. The C++ master speaks another protocol, so it is not in this table; compare the rows
of is_exist that compare.py and scale.py print. Master and load share this machine's processors.
"""

import argparse
import json
import pathlib
import signal
import subprocess
import sys
from typing import NamedTuple

from environment import HOME, ROOT, add_arguments, machine, prepare
from table import cell, markdown
from testbed import Pool, PoolError

BUILD = ["cargo", "build", "--release", "--locked", "--quiet", "--package", "mooncake-bench"]
PROGRAM = ROOT / "target" / "release" / "master_load"


class Case(NamedTuple):
    """A line of the table."""

    work: str
    keys: int
    connections: int
    in_flight: int


CASES = [
    Case("exist", 1, 1, 1),
    Case("exist", 1, 4, 1),
    Case("exist", 1, 4, 16),
    Case("exist", 1000, 1, 1),
    Case("exist", 1000, 4, 4),
    Case("get", 1, 1, 1),
    Case("get", 1, 4, 16),
    Case("get", 1000, 1, 1),
    Case("get", 1000, 4, 4),
    Case("put", 1, 1, 1),
    Case("put", 1, 4, 16),
    Case("put", 1000, 1, 1),
    Case("put", 1000, 4, 4),
]
WORKS = {"exist": "is_exist", "get": "look-up", "put": "put_start, put_end, remove, dropped"}
FIELDS = {
    "requests_per_s": "requests/s",
    "keys_per_s": "keys/s",
    "p50_us": "p50, us",
    "p99_us": "p99, us",
    "master_cpus": "processors, master",
    "own_cpus": "processors, load",
    "master_us_per_key": "CPU of the master, us a key",
}


def parse(line: str) -> dict[str, float]:
    """The figures of a line of `name value` pairs."""
    words = line.split()
    return {name: float(value) for name, value in zip(words[::2], words[1::2], strict=True)}


def load(case: Case, objects: int, seconds: int) -> dict[str, float]:
    with Pool("rust") as pool:
        pool.wait_for_master()
        options = {
            "master": f"127.0.0.1:{pool.ports[0]}",
            "work": case.work,
            "keys": case.keys,
            "connections": case.connections,
            "in-flight": case.in_flight,
            "objects": objects,
            "seconds": seconds,
            "master-pid": pool.master.pid,
        }
        command = [
            str(PROGRAM),
            *(f"--{part}" if at == 0 else str(part) for pair in options.items() for at, part in enumerate(pair)),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120 + seconds)
    if done.returncode != 0:
        raise PoolError(f"{' '.join(command)} failed: {done.stderr.strip()}")
    figures = parse(done.stdout)
    return {**figures, "master_us_per_key": figures["master_cpus"] / figures["keys_per_s"] * 1e6}


def report(measured: list[tuple[Case, dict[str, float]]]) -> str:
    rows = [["requests", "keys each", "connections", "in flight on each", *FIELDS.values()]]
    for case, figures in measured:
        place = [f"{case.keys:,}", str(case.connections), str(case.in_flight)]
        rows.append([WORKS[case.work], *place, *(cell(figures.get(field)) for field in FIELDS)])
    return markdown(rows)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=3, help="how long each line is loaded [3]")
    parser.add_argument("--objects", type=int, default=100_000, help="objects that are there [100000]")
    parser.add_argument("--json", type=pathlib.Path, default=HOME / "master_load.json")
    add_arguments(parser)
    parser.set_defaults(only="rust")
    return parser.parse_args()


def main() -> None:
    args = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped by SIGTERM"))
    prepare(args)
    measured = []
    try:
        subprocess.run([*BUILD, "--bin", "master_load"], cwd=ROOT, check=True)
        for case in CASES:
            figures = load(case, args.objects, args.seconds)
            print(f"{case}: {figures}", file=sys.stderr, flush=True)
            measured.append((case, figures))
    except (PoolError, subprocess.SubprocessError) as error:
        sys.exit(str(error))
    print(f"{machine()}. {args.objects:,} objects, {args.seconds} s each.\n\n{report(measured)}")
    stored = [{**case._asdict(), **figures} for case, figures in measured]
    args.json.write_text(json.dumps({"machine": machine(), "cases": stored}, indent=1) + "\n")


if __name__ == "__main__":
    main()
