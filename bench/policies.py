#!/usr/bin/env python3
"""Measures the hits of each eviction policy, by size of the pool, on a real trace and on generated traffic.

    python3 bench/policies.py                     # five seeds of each shape: minutes; see --help
    python3 bench/policies.py --seeds 1 --shapes chat --as-installed

Runs `mooncake sim`, and prints a table in Markdown. Figures of generated traffic are means over the seeds, because a
few large jobs dominate a single seed. "stranded" counts blocks in the pool that no prefix reached, because an earlier
block was missing.
"""

import argparse
import csv
import pathlib
import statistics
import subprocess
import sys
import tempfile

import environment
from table import markdown

RATIOS = ("0.01", "0.05", "0.1", "0.2", "0.4")
SHAPES = ("chat", "agents", "retrieval", "scan", "noon")
# By policy and size: the blocks that hit, and the blocks that were stranded, in percent of all blocks.
Figures = dict[str, list[tuple[float, float]]]


def simulated(source: list[str], folder: pathlib.Path) -> Figures:
    told = folder / "hits.csv"
    command = [environment.python_of("rust").parent / "mooncake", "sim", "--lease-ms", "200", "--csv", told]
    command += ["--pool-ratio", ",".join(RATIOS), *source]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    figures: Figures = {}
    with told.open() as file:
        for row in csv.DictReader(file):
            percent = 100 / int(row["blocks"])
            pair = (int(row["hits"]) * percent, int(row["stranded"] or 0) * percent)
            figures.setdefault(row["policy"], []).append(pair)
    return figures


def rows(name: str, taken: list[Figures]) -> list[list[str]]:
    """A line per policy, then the difference between `adaptive` and the best of the others."""
    hits = {
        policy: [statistics.mean(it[policy][at][0] for it in taken) for at in range(len(RATIOS))] for policy in taken[0]
    }
    table = []
    for policy, by_size in hits.items():
        stranded = max(statistics.mean(it[policy][at][1] for it in taken) for at in range(len(RATIOS)))
        last = "-" if policy == "optimum" else f"{stranded:.2f}"
        table.append([name, policy, *(f"{hit:.2f}" for hit in by_size), last])
    others = [by_size for policy, by_size in hits.items() if policy not in ("adaptive", "optimum")]
    gaps = [ours - max(it[at] for it in others) for at, ours in enumerate(hits["adaptive"])]
    table.append([name, "*adaptive, less the best of lru, s3fifo and sieve*", *(f"{gap:+.2f}" for gap in gaps), "-"])
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, help="how many seeds of each shape (5)")
    parser.add_argument("--shapes", nargs="*", choices=SHAPES, default=SHAPES, help="made-up traffic (all of it)")
    parser.add_argument("--wheel", type=pathlib.Path, help="this project's wheel, if it is built")
    parser.add_argument("--as-installed", action="store_true", help="build nothing")
    args = parser.parse_args()
    if args.seeds < 1:
        parser.error("--seeds: at least 1")
    environment.prepare(argparse.Namespace(only="rust", **vars(args)))
    sizes = [f"{float(ratio):.0%}" for ratio in RATIOS]
    table = [["requests", "policy", *sizes, "stranded, at most"]]
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        table += rows("conversation", [simulated([], folder)])
        for shape in args.shapes:
            print(shape, file=sys.stderr, flush=True)
            seeds = range(1, args.seeds + 1)
            taken = [simulated(["--generate", shape, "--seed", str(seed)], folder) for seed in seeds]
            table += rows(f"{shape}, seeds 1 to {args.seeds}", taken)
    print(markdown(table))


if __name__ == "__main__":
    main()
