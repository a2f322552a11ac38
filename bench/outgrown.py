#!/usr/bin/env python3
"""Measures hits of conversations that outgrow a pool's memory, with and without a disk: a table and a plot.

    python3 bench/outgrown.py                                # a few minutes; see --help
    python3 bench/outgrown.py --requests 1000 --as-installed    # fewer requests, with the package that is installed

For each size of the memory, `mooncake replay` sends the requests of data/ to a pool of two nodes, and checks every
byte. It runs once without and once with disks. A hit is a block of the longest prefix of a request that the pool
holds, in memory or on disk.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import environment
from plot import Panel, lines
from table import cell, markdown

IMAGE = environment.ROOT / "docs" / "images" / "outgrown.svg"
RATIOS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.4)
WITHOUT, WITH = "memory alone", "memory and disks"


def replay(ratio: float, disk: pathlib.Path | None, args: argparse.Namespace, folder: pathlib.Path) -> dict[str, Any]:
    """The figures of one replay. Ends the program if a byte was wrong or a call failed."""
    told = folder / "replay.json"
    command = [environment.python_of("rust").parent / "mooncake", "replay", "--json", told]
    command += ["--trace", args.trace, "--pool-ratio", str(ratio), "--block-bytes", str(args.block_bytes)]
    command += ["--requests", str(args.requests)] if args.requests else []
    command += ["--disk", disk] if disk else []
    environment.run(command, stdout=sys.stderr)
    figures: dict[str, Any] = json.loads(told.read_text())
    return figures


def measure(args: argparse.Namespace, folder: pathlib.Path) -> list[dict[str, dict[str, Any]]]:
    """For each size, the figures without and with disks."""
    return [
        {WITHOUT: replay(ratio, None, args, folder), WITH: replay(ratio, folder, args, folder)} for ratio in args.ratios
    ]


def report(taken: list[dict[str, dict[str, Any]]]) -> str:
    rows = [
        ["memory, % of the distinct blocks", "LRU, hit %", f"{WITHOUT}, hit %", f"{WITH}, hit %", "infinite, hit %"]
    ]
    rows[0] += [f"{WITHOUT}, get p50 / p99, ms", f"{WITH}, get p50 / p99, ms", "s", "s, with disks", "wrong bytes"]
    for both in taken:
        without, with_disks = both[WITHOUT], both[WITH]
        share = without["pool_bytes"] / without["block_bytes"] / without["distinct_blocks"]
        hits = (without["lru_hit_ratio"], without["hit_ratio"], with_disks["hit_ratio"], without["infinite_hit_ratio"])
        gets = [f"{cell(it['get']['p50_us'] / 1e3)} / {cell(it['get']['p99_us'] / 1e3)}" for it in both.values()]
        walls = [f"{it['wall_seconds']:.0f}" for it in both.values()]
        wrong = str(sum(it["wrong_bytes"] for it in both.values()))
        rows.append([f"{share:.0%}", *(f"{hit:.1%}" for hit in hits), *gets, *walls, wrong])
    return markdown(rows)


def plot(ratios: Sequence[float], taken: list[dict[str, dict[str, Any]]]) -> str:
    def points(name: str, figure: Callable[[dict[str, Any]], float]) -> list[tuple[float, float]]:
        return [(ratio * 100, figure(both[name])) for ratio, both in zip(ratios, taken, strict=True)]

    hits = {
        WITH: points(WITH, lambda it: it["hit_ratio"] * 100),
        WITHOUT: points(WITHOUT, lambda it: it["hit_ratio"] * 100),
        "an infinite cache": points(WITHOUT, lambda it: it["infinite_hit_ratio"] * 100),
        "LRU of that memory": points(WITHOUT, lambda it: it["lru_hit_ratio"] * 100),
    }
    gets = {name: points(name, lambda it: it["get"]["p99_us"] / 1e3) for name in (WITH, WITHOUT)}
    memory = "memory, % of the distinct blocks"
    panels = [Panel("hits", memory, "% of all blocks", hits), Panel("p99 of the gets", memory, "ms", gets)]
    return lines("Conversations that outgrow memory", panels)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path, help="on the disk to be used; a temporary one by default")
    default = environment.ROOT / "data" / "conversation_trace.jsonl.gz"
    parser.add_argument("--trace", type=pathlib.Path, default=default, help="the requests [those of data/]")
    parser.add_argument("--requests", type=int, default=0, help="of the trace only so many; 0: all [0]")
    parser.add_argument("--block-bytes", type=int, default=16 << 10, help="length of a block [16384]")
    parser.add_argument(
        "--ratios", type=float, nargs="+", default=RATIOS, help="memory, as shares of the distinct blocks"
    )
    parser.add_argument("--svg", type=pathlib.Path, default=IMAGE, help="where the plot goes")
    parser.add_argument("--as-installed", action="store_true", help="do not build and install the package first")
    args = parser.parse_args()
    if not args.as_installed:
        environment.ensure_rust(None)
    try:
        with tempfile.TemporaryDirectory(dir=args.folder) as folder:
            taken = measure(args, pathlib.Path(folder))
    except subprocess.CalledProcessError as error:
        sys.exit(f"a replay failed: {error}")
    print(f"{environment.machine()}. {taken[0][WITH]['requests']:,} requests, blocks of {args.block_bytes:,} bytes\n")
    print(report(taken))
    args.svg.write_text(plot(args.ratios, taken))


if __name__ == "__main__":
    main()
