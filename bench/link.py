#!/usr/bin/env python3
"""Measures how much of a slow link batches of 1 MiB objects use, with and without a delay.

    python3 bench/link.py                    # as root, or where all users may have user namespaces; two minutes
    python3 bench/link.py --rate-mbit 10000  # a faster link; a bare TCP stream tells what the machine can do

Joins two network namespaces by a veth pair. `tc tbf` on both ends sets the rate, `netem` the delay each way. If the
kernel has no netem, a small relay delays the packets, and the table says so. After a pause, tbf lets 4 ms of the rate
through at once, which is 0.8 % of a batch. The master and a node are on one side, the client on the other. The goal is
90 % of the link's rate; headers of TCP, IP and Ethernet take 4.4 % of it. Namespaces and processes end with the
program, also after Ctrl-C and failures.
"""

import argparse
import json
import pathlib
import signal
import subprocess
import sys
from typing import NamedTuple

from environment import HOME, VARIANTS, add_arguments, machine, prepare
from table import markdown
from testbed import Place, Pool, PoolError
from wire import HOSTS, Wire, WireError

STREAM = pathlib.Path(__file__).resolve().parent / "stream.py"
MIB = 1 << 20
OBJECT_BYTES = MIB
GOAL = 0.9
WORKS = {"put": "batch_put_from {batch} x 1 MiB", "get": "batch_get_into {batch} x 1 MiB"}


def raw_share(wire: Wire, moved: int) -> float:
    """The share of the link's rate that one bare TCP stream reaches."""
    serve = [*wire.enter[1], sys.executable, str(STREAM), "serve", HOSTS[1]]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout
            port = server.stdout.readline().strip()
            pull = [*wire.enter[0], sys.executable, str(STREAM), "pull", HOSTS[1], port, str(moved)]
            done = subprocess.run(pull, check=True, capture_output=True, text=True, timeout=120)
        finally:
            server.kill()
    return moved / float(done.stdout) / wire.bytes_per_s


class Load(NamedTuple):
    """The load for a package: `rounds` batches of `batch` objects."""

    batch: int
    rounds: int
    # Whether the fastest batch counts, instead of the median: other load on the machine can only slow a batch down.
    takes_best: bool = False


def shares(wire: Wire, variant: str, load: Load, python: str | None = None) -> dict[str, float]:
    """The shares of the link's rate that puts and gets reach. The first batch does not count."""
    batch, rounds, takes_best = load
    client_side, server_side = (Place(host, enter) for host, enter in zip(HOSTS, wire.enter, strict=True))
    count, size = (rounds + 1) * batch, {"size": OBJECT_BYTES, "batch": batch}
    with Pool(variant, server_side, python=python) as pool:
        pool.add_node(max(256, 2 * count) * MIB)
        client = pool.add_client(client_side, max(64, batch) * MIB)
        client.ask("put", first=0, count=batch, **size)
        put = client.ask("put", first=batch, count=count - batch, **size)
        client.ask("get", first=0, count=batch, span=count, **size)
        get = client.ask("get", first=0, count=count - batch, span=count, **size)
    moved = batch * OBJECT_BYTES
    taken_us = {work: answer.best_us if takes_best else answer.p50_us for work, answer in (("put", put), ("get", get))}
    return {work: moved / (us / 1e6) / wire.bytes_per_s for work, us in taken_us.items()}


Measured = dict[str, dict[str, float]]


def report(by_delay: dict[str, Measured], batch: int, rate_mbit: int) -> str:
    """The table of shares. `by_delay` is indexed by the delay in words, the variant (or `raw`), and the work."""
    variants = list(
        dict.fromkeys(variant for measured in by_delay.values() for variant in measured if variant != "raw")
    )
    head = ["delay each way", "work", "a bare TCP stream", *(VARIANTS[variant][0] for variant in variants)]
    rows = [[*head, f"goal: >= {GOAL:.0%} of {rate_mbit} Mbit/s"]]
    for delay, measured in by_delay.items():
        for work, name in WORKS.items():
            ours = [measured[variant][work] for variant in variants if VARIANTS[variant][1] == "rust"]
            met = "-" if not ours else "met" if min(ours) >= GOAL else "missed"
            cells = [f"{measured[variant][work]:.1%}" for variant in variants]
            rows.append([delay, name.format(batch=batch), f"{measured['raw']['get']:.1%}", *cells, met])
    return markdown(rows)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate-mbit", type=int, default=1000, help="the link's rate, both ways [1000]")
    parser.add_argument("--delay-ms", type=float, default=2, help="the delay each way [2]")
    parser.add_argument("--batch", type=int, default=64, help="objects of 1 MiB in a batch [64]")
    parser.add_argument("--rounds", type=int, default=5, help="batches [5]")
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=["cpp", "cpp_pool", "rust_tcp"])
    parser.add_argument("--json", type=pathlib.Path, default=HOME / "link.json", help="figures [.bench/link.json]")
    add_arguments(parser)
    args = parser.parse_args()
    if min(args.rate_mbit, args.batch, args.rounds) < 1 or args.delay_ms < 0:
        parser.error("--rate-mbit, --batch and --rounds are at least 1, --delay-ms at least 0")
    return args


def main() -> None:
    args = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped by SIGTERM"))
    variants = [variant for variant in prepare(args) if variant in args.variants]
    by_delay: dict[str, Measured] = {}
    try:
        for delay_ms in dict.fromkeys((0.0, args.delay_ms)):
            with Wire(args.rate_mbit, delay_ms) as wire:
                words = f"{delay_ms:g} ms, by {wire.delayed_by}" if delay_ms else "none"
                measured = by_delay.setdefault(words, {"raw": {"get": raw_share(wire, args.batch * MIB)}})
                for variant in variants:
                    measured[variant] = shares(wire, variant, Load(args.batch, args.rounds))
                    shown = ", ".join(f"{work} {share:.1%}" for work, share in measured[variant].items())
                    print(f"delay {words}, {VARIANTS[variant][0]}: {shown}", file=sys.stderr, flush=True)
    except (WireError, PoolError, subprocess.SubprocessError) as error:
        sys.exit(str(error))
    print(f"{machine()}.\n\n{report(by_delay, args.batch, args.rate_mbit)}")
    args.json.write_text(json.dumps({"machine": machine(), "shares": by_delay}, indent=1) + "\n")


if __name__ == "__main__":
    main()
