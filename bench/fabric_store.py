#!/usr/bin/env python3
"""Gets and puts of a pool over libfabric's provider tcp, beside the same pool over TCP and a bare loop in C, in turn.

    python3 bench/fabric_store.py            # three minutes
    python3 bench/fabric_store.py --quick    # a short run

Both pools are the same apart from the transport, and have a master, a node and a client each, on loopback. The bare
loop, `fabric_raw.c`, reads or writes as many bytes one-sided, without slots, keys and checks. A round asks all of them
for the same, in an order that alternates. The table has the medians over the rounds, and the processor time of the
node for a GB. Needs libfabric-dev (`make servers`) and a C compiler.
"""

import argparse
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import NamedTuple

import fabric
import peer
from environment import add_arguments, machine, prepare
from table import cell, markdown
from testbed import Client, Pool

KIB, MIB = fabric.KIB, fabric.MIB
NODE_BYTES = 2 << 30
FABRIC = {"MOONCAKE_TRANSPORTS": "fabric,tcp", "MOONCAKE_FABRIC_PROVIDER": "tcp", "FI_TCP_IFACE": "lo"}
WAYS = ("bare loop", "fabric", "TCP")


class Work(NamedTuple):
    """What a round asks for: so many calls with so many objects of so many bytes."""

    direction: str
    size: int
    batch: int
    calls: int

    def __str__(self) -> str:
        many = f", {self.batch} in a call" if self.batch > 1 else ""
        return f"{'get' if self.direction == 'read' else 'put'} {fabric.name(self.size)}{many}"


SHAPES = [(4 * KIB, 1, 400), (64 * KIB, 1, 300), (MIB, 1, 60), (16 * MIB, 1, 8), (64 * KIB, 128, 4), (MIB, 64, 2)]
WORKS = [Work(direction, *shape) for direction in ("read", "write") for shape in SHAPES]


class Measured(NamedTuple):
    """The median call, and what the node's process worked for each GB."""

    us: float
    owner_ms_per_gb: float


class Scene:
    """A pool with one node and one client."""

    def __init__(self, stack: ExitStack, variables: dict[str, str]) -> None:
        os.environ.update(variables)
        # The variant says what MOONCAKE_TRANSPORTS is, unless it leaves that to the environment.
        self.pool = stack.enter_context(Pool("rust" if variables else "rust_tcp"))
        self.pool.add_node(NODE_BYTES)
        self.client: Client = self.pool.add_client(buffer_bytes=128 * MIB)
        for name in variables:
            del os.environ[name]
        self.next = 1

    @property
    def node_pid(self) -> int:
        return self.pool.processes[1].pid

    def measure(self, work: Work) -> Measured:
        objects = work.calls * work.batch
        sized = {"count": objects, "size": work.size}
        self.next += objects
        put = {"first": self.next, "batch": work.batch, **sized}
        if work.direction == "read":
            self.client.ask("put", **put)
        before = peer.cpu_seconds(self.node_pid)
        if work.direction == "write":
            answer = self.client.ask("put", **put)
        elif work.batch == 1:
            answer = self.client.ask("get_one", first=self.next, span=objects, **sized)
        else:
            answer = self.client.ask("get", first=self.next, span=objects, batch=work.batch, **sized)
        spent = peer.cpu_seconds(self.node_pid) - before
        self.client.ask("remove", first=self.next, count=objects)
        return Measured(answer.p50_us, spent * 1e3 / (objects * work.size / 1e9))


def bare(work: Work) -> Measured:
    case = f"{work.direction}:{work.size}:{work.batch}:{max(10, work.calls)}"
    return Measured(fabric.run(fabric.RAW, "tcp", [case])[case][0], 0)


def measure(rounds: int) -> dict[Work, dict[str, list[Measured]]]:
    taken: dict[Work, dict[str, list[Measured]]] = {work: {way: [] for way in WAYS} for work in WORKS}
    with ExitStack() as stack:
        over_fabric, over_tcp = Scene(stack, FABRIC), Scene(stack, {})
        ways: dict[str, Callable[[Work], Measured]] = dict(
            zip(WAYS, (bare, over_fabric.measure, over_tcp.measure), strict=True)
        )
        for work in WORKS:
            for turn in range(rounds):
                for way in WAYS if turn % 2 else reversed(WAYS):
                    taken[work][way].append(ways[way](work))
                    print(f"{work}, {way}: {taken[work][way][-1].us:.0f} us", file=sys.stderr, flush=True)
    return taken


def table(taken: dict[Work, dict[str, list[Measured]]]) -> str:
    head = [*(f"{way}, us" for way in WAYS), *(f"{way}, GB/s" for way in WAYS)]
    rows = [["call", *head, "share of the bare loop", "node, fabric, ms/GB", "node, TCP, ms/GB"]]
    for work, by_way in taken.items():
        times = {way: statistics.median(it.us for it in by_way[way]) for way in WAYS}
        rates = [work.size * work.batch / us / 1e3 for us in times.values()]
        spent = [statistics.median(it.owner_ms_per_gb for it in by_way[way]) for way in WAYS[1:]]
        share = f"{times['bare loop'] / times['fabric']:.0%}"
        cells = [cell(value) for value in (*times.values(), *rates)]
        rows.append([str(work), *cells, share, *(cell(value) for value in spent)])
    return markdown(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    parser.add_argument("--quick", action="store_true", help="a short run, not for publishing")
    parser.add_argument("--rounds", type=int, default=7, help="how often each work is measured; 7")
    args = parser.parse_args()
    args.only = "rust"
    prepare(args)
    fabric.RAW.parent.mkdir(parents=True, exist_ok=True)
    compile_raw = ["cc", "-O2", "-o", str(fabric.RAW), str(fabric.ROOT / "bench" / "fabric_raw.c"), "-lfabric"]
    subprocess.run(compile_raw, check=True)
    taken = measure(2 if args.quick else args.rounds)
    print(f"{machine()}\n\n{table(taken)}")


if __name__ == "__main__":
    main()
