#!/usr/bin/env python3
"""Measures this project and the C++ package in turn, and prints medians, ratios and goals as Markdown.

    python3 bench/compare.py                 # about eight minutes; `make bench` does the same
    python3 bench/compare.py --quick         # two minutes, for a look: one round of fewer calls

Makes two virtual environments under .bench/: one with the C++ package from PyPI, one with this project's wheel, built
from this checkout. Each round runs peer.py in all variants, one after the other:

- C++ with its defaults;
- C++ with its connection pool (MC_TCP_ENABLE_CONNECTION_POOL=1);
- this project over TCP only (MOONCAKE_TRANSPORTS=tcp);
- this project with its defaults, which use shared memory between processes of one host;
- bare programs that move as many bytes and do nothing else (raw_limits.py).

Absolute figures drift with the machine. Compare only the ratios of one run.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import raw_limits
from environment import (
    CPP_PACKAGE,
    HOME,
    VARIANTS,
    add_arguments,
    machine,
    memcpy_note,
    prepare,
    python_of,
    run,
    variables_of,
)
from table import LOWER_IS_BETTER, Figures, cell, markdown, medians, times_better, verdict

PEER = pathlib.Path(__file__).resolve().parent / "peer.py"
RAW_LIMITS = pathlib.Path(raw_limits.__file__)
ROUND_TIMEOUT_S = 700


class Row(NamedTuple):
    """A line of a table, and the place of its figure in peer.py's output."""

    work: str
    figure: str
    field: str
    unit: str
    # In the unit of the row, for a machine with 2 cores and loopback TCP.
    goal: float | None = None
    divisor: float = 1

    def value(self, figures: Figures) -> float | None:
        """The figure in the row's unit; None if it was not measured."""
        fields = figures.get(self.figure)
        return fields[self.field] / self.divisor if fields and self.field in fields else None


class Share(NamedTuple):
    """A line of the table of raw limits: the rate of a variant, and that of the bare program that does the same."""

    work: str
    variant: str
    figure: str
    bare: str
    # The least share.
    goal: float | None = None


class Table(NamedTuple):
    """A table. `ours` is the variant that is compared with the goals and with the other variants."""

    title: str
    ours: str
    rows: list[Row]


TCP = [
    Row("get_into 4 KiB, p50", "get_4096", "p50_us", "us", 45),
    Row("get_into 4 KiB again (16 keys), p50", "get_again_4096", "p50_us", "us", 25),
    Row("get_into 4 KiB, the same key, p50", "get_same_4096", "p50_us", "us", 25),
    Row("get_into 64 KiB, p50", "get_65536", "p50_us", "us", 90),
    Row("get_into 64 KiB again, p50", "get_again_65536", "p50_us", "us"),
    Row("get_into 1 MiB, p50", "get_1048576", "p50_us", "us", 340),
    Row("get_into 1 MiB again, p50", "get_again_1048576", "p50_us", "us"),
    Row("get_into 16 MiB", "get_16777216", "GBps", "GB/s", 2.8),
    Row("put_from 4 KiB, p50", "put_4096", "p50_us", "us", 90),
    Row("put_from 64 KiB, p50", "put_65536", "p50_us", "us"),
    Row("put_from 1 MiB, p50", "put_1048576", "p50_us", "us", 420),
    Row("put_from 16 MiB", "put_16777216", "GBps", "GB/s"),
    Row("batch_put_from 64 x 1 MiB", "batch_put_64x1048576", "GBps", "GB/s", 2.8),
    Row("batch_get_into 64 x 1 MiB", "batch_get_64x1048576", "GBps", "GB/s", 2.8),
    Row("batch_get_into 64 x 1 MiB again", "batch_get_again_64x1048576", "GBps", "GB/s"),
    Row("batch_put_from 128 x 64 KiB", "batch_put_128x65536", "GBps", "GB/s"),
    Row("batch_get_into 128 x 64 KiB", "batch_get_128x65536", "GBps", "GB/s", 2.5),
    Row("batch_get_into 128 x 64 KiB again", "batch_get_again_128x65536", "GBps", "GB/s"),
    Row("batch_put_from 1000 x 64 B", "small_put", "objects_per_s", "k/s", 300, 1e3),
    Row("batch_is_exist, 1000 keys", "batch_exist", "keys_per_s", "M/s", 2.5, 1e6),
    Row("is_exist, one key", "exist", "ops_per_s", "k/s", 35, 1e3),
    Row("import and setup", "setup", "ms", "ms", 100),
    Row("master memory per object", "master_bytes_per_object", "bytes", "B", 300),
]
SHARED = [
    Row("get_into 4 KiB, p50", "get_4096", "p50_us", "us"),
    Row("get_into 4 KiB again (16 keys), p50", "get_again_4096", "p50_us", "us", 10),
    Row("get_into 4 KiB, the same key, p50", "get_same_4096", "p50_us", "us", 10),
    Row("get_into 64 KiB, p50", "get_65536", "p50_us", "us"),
    Row("get_into 64 KiB again, p50", "get_again_65536", "p50_us", "us"),
    Row("get_into 1 MiB", "get_1048576", "GBps", "GB/s", 12),
    Row("get_into 1 MiB again", "get_again_1048576", "GBps", "GB/s", 12),
    Row("get_into 16 MiB", "get_16777216", "GBps", "GB/s"),
    Row("put_from 4 KiB, p50", "put_4096", "p50_us", "us"),
    Row("put_from 1 MiB", "put_1048576", "GBps", "GB/s"),
    Row("put_from 16 MiB", "put_16777216", "GBps", "GB/s"),
    Row("batch_put_from 64 x 1 MiB", "batch_put_64x1048576", "GBps", "GB/s"),
    Row("batch_get_into 64 x 1 MiB", "batch_get_64x1048576", "GBps", "GB/s"),
    Row("batch_get_into 64 x 1 MiB again", "batch_get_again_64x1048576", "GBps", "GB/s"),
    Row("batch_get_into 128 x 64 KiB", "batch_get_128x65536", "GBps", "GB/s"),
]
ALONE = [
    Row("get_into 4 KiB, p50", "alone_get_4096", "p50_us", "us"),
    Row("get_into 4 KiB again (16 keys), p50", "alone_get_again_4096", "p50_us", "us"),
    Row("get_into 1 MiB, p50", "alone_get_1048576", "p50_us", "us"),
    Row("get_into 1 MiB again, p50", "alone_get_again_1048576", "p50_us", "us"),
    Row("get_into 16 MiB", "alone_get_16777216", "GBps", "GB/s"),
    Row("put_from 4 KiB, p50", "alone_put_4096", "p50_us", "us"),
    Row("put_from 1 MiB, p50", "alone_put_1048576", "p50_us", "us"),
    Row("put_from 16 MiB", "alone_put_16777216", "GBps", "GB/s"),
    Row("batch_put_from 64 x 1 MiB", "alone_batch_put_64x1048576", "GBps", "GB/s"),
    Row("batch_get_into 64 x 1 MiB", "alone_batch_get_64x1048576", "GBps", "GB/s"),
]
COST = [
    *(
        Row(f"{work}: {process}", figure, f"{process}_s_per_GB", "s/GB")
        for work, figure in (
            ("batch_put_from 64 x 1 MiB", "cost_put_64x1048576"),
            ("batch_get_into 64 x 1 MiB", "cost_get_64x1048576"),
            ("batch_put_from 128 x 64 KiB", "cost_put_128x65536"),
            ("batch_get_into 128 x 64 KiB", "cost_get_128x65536"),
        )
        for process in ("client", "node", "master")
    ),
    *(Row(f"peak RSS: {process}", "peak_rss", f"{process}_MiB", "MiB") for process in ("client", "node", "master")),
]
TABLES = [
    Table("Over TCP", "rust_tcp", TCP),
    Table("As it comes: shared memory between processes of one host", "rust", SHARED),
    Table("In one process that is client and storage node", "rust", ALONE),
    Table("CPU seconds for each GB that is moved, and peak memory", "rust_tcp", COST),
]


SHARES = [
    Share("get_into 1 MiB, over TCP", "rust_tcp", "get_1048576", "round_trip_1048576"),
    Share("get_into 16 MiB, over TCP", "rust_tcp", "get_16777216", "round_trip_16777216"),
    Share("batch_get_into 64 x 1 MiB, over TCP", "rust_tcp", "batch_get_64x1048576", "stream_67108864"),
    Share("batch_put_from 64 x 1 MiB, over TCP", "rust_tcp", "batch_put_64x1048576", "stream_67108864", 0.9),
    Share("get_into 1 MiB, shared memory", "rust", "get_1048576", "copy_out_1048576", 0.8),
    Share("get_into 16 MiB, shared memory", "rust", "get_16777216", "copy_out_16777216"),
    Share("put_from 1 MiB, shared memory", "rust", "put_1048576", "copy_fresh_1048576", 0.6),
    Share("put_from 1 MiB where bytes lay before, shared memory", "rust", "put_again_1048576", "copy_in_1048576", 0.8),
]


def measure(variant: str, small: int, quick: bool) -> dict[str, dict[str, float]]:
    """Runs peer.py once."""
    name, environment, _ = VARIANTS[variant]
    return figures_of(name, [python_of(environment), PEER, "--small", small], quick, variables_of(variant))


def measure_raw_limits(quick: bool) -> dict[str, dict[str, float]]:
    """Runs raw_limits.py once."""
    return figures_of("the raw limits", [sys.executable, RAW_LIMITS], quick, dict(os.environ))


def figures_of(name: str, command: list[Any], quick: bool, environment: dict[str, str]) -> dict[str, dict[str, float]]:
    """Runs a program that measures, and returns its figures."""
    figures = HOME / "round.json"
    figures.unlink(missing_ok=True)
    quiet = {"stdout": subprocess.DEVNULL, "timeout": ROUND_TIMEOUT_S, "cwd": HOME}
    try:
        run([*command, *(["--quick"] if quick else []), "--json", figures], env=environment, **quiet)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        sys.exit(f"measuring {name} failed: {error}")
    measured: dict[str, dict[str, float]] = json.loads(figures.read_text())
    return measured


def others(variants: Iterable[str]) -> list[str]:
    """The variants that are not of this project."""
    return [variant for variant in variants if VARIANTS[variant][1] != "rust"]


def line(row: Row, figures: Mapping[str, Figures], ours: str) -> list[str]:
    """The cells of a row: each variant's value, how many times better `ours` is than the others, and the goal."""
    values = {variant: row.value(of) for variant, of in figures.items()}
    cells = [row.work, row.unit, *(cell(value) for value in values.values())]
    own = values.get(ours)
    if ours in values:
        ratios = [times_better(own, values[variant], row.unit) for variant in others(figures)]
        cells += ["-" if ratio is None else f"{ratio:.2f}" for ratio in ratios]
    return [*cells, verdict(own, row.goal, row.unit)]


def table(shown: Table, figures: Mapping[str, Figures]) -> str:
    head = ["work", "unit", *(VARIANTS[variant][0] for variant in figures)]
    if shown.ours in figures:
        head += [f"times better than {VARIANTS[variant][0]}" for variant in others(figures)]
    return markdown([[*head, "goal"], *(line(row, figures, shown.ours) for row in shown.rows)])


def report(figures: Mapping[str, Figures], bare: Figures) -> str:
    """All tables, as in docs/performance/beside_cpp.md. Only that of costs shows both transports of this project."""
    parts = []
    for shown in TABLES:
        shows_both = shown.rows is COST
        of = {v: figures[v] for v in figures if shows_both or v in (shown.ours, *others(figures))}
        parts.append(f"### {shown.title}\n\n{table(shown, of)}")
    parts.append(f"### The raw limits\n\n{shares(figures, bare)}\n\n{raw_limits.table(bare)}")
    return "\n\n".join(parts)


def shares(figures: Mapping[str, Figures], bare: Figures) -> str:
    """Our rates, those of the bare programs, and our shares of them."""
    words = {limit.figure: limit.what for limit in raw_limits.LIMITS}
    rows = [["work", "GB/s", "the bare program", "its GB/s", "share", "goal"]]
    for work, variant, figure, limit, goal in SHARES:
        if figure not in figures.get(variant, {}):
            continue
        ours, theirs = figures[variant][figure]["GBps"], bare[limit]["GBps"]
        share = ours / theirs
        said = "-" if goal is None else f">= {goal:.0%}, {'met' if share >= goal else 'missed'}"
        rows.append([work, cell(ours), words[limit], cell(theirs), f"{share:.0%}", said])
    return markdown(rows)


def summary(figures: Mapping[str, Figures]) -> str:
    """One table of all goals: our figure, the C++ package's figure at its better setting, and whether the goal was
    met.
    """
    rows = [["work", "unit", "goal", "Rust", "C++, its better setting", "times better", "met"]]
    for shown in TABLES:
        for row in (row for row in shown.rows if row.goal is not None and shown.ours in figures):
            lower = row.unit in LOWER_IS_BETTER
            ours = row.value(figures[shown.ours])
            known = [value for v in others(figures) if (value := row.value(figures[v])) is not None]
            theirs = (min if lower else max)(known) if known else None
            ratio = times_better(ours, theirs, row.unit)
            said = verdict(ours, row.goal, row.unit).partition(", ")
            way = " (shared memory)" if shown.rows is SHARED else ""
            cells = [said[0], cell(ours), cell(theirs), "-" if ratio is None else f"{ratio:.2f}", said[2] or "-"]
            rows.append([row.work + way, row.unit, *cells])
    return markdown(rows)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, help="rounds, each of all variants [3; 1 if quick]")
    parser.add_argument("--quick", action="store_true", help="a tenth of the calls, in one round: not for publishing")
    parser.add_argument("--small", type=int, help="small objects to store [100000; 10000 if quick]")
    parser.add_argument("--json", type=pathlib.Path, help="figures [.bench/figures.json]")
    parser.add_argument("--from-json", type=pathlib.Path, help="print the tables of an earlier run; measure nothing")
    parser.add_argument("--summary", action="store_true", help="with --from-json: the table of goals alone")
    add_arguments(parser)
    args = parser.parse_args()
    if args.summary and not args.from_json:
        parser.error("--summary goes with --from-json")
    args.rounds = args.rounds if args.rounds is not None else 1 if args.quick else 3
    args.small = args.small or (10_000 if args.quick else 100_000)
    if args.rounds < 1:
        parser.error("--rounds must be at least 1")
    return args


def main() -> None:
    args = parse_arguments()
    if args.from_json:
        stored = json.loads(args.from_json.read_text())
        known = stored["medians"]
        print(summary(known) if args.summary else report(known, stored["raw_limits"]))
        return
    variants = prepare(args)
    rounds: dict[str, list[Figures]] = {variant: [] for variant in variants}
    bare: list[Figures] = []
    for number in range(args.rounds):
        for variant in variants:
            print(f"round {number + 1} of {args.rounds}: {VARIANTS[variant][0]}", file=sys.stderr)
            rounds[variant].append(measure(variant, args.small, args.quick))
        bare.append(measure_raw_limits(args.quick))
    medians_of: dict[str, Figures] = {variant: medians(runs) for variant, runs in rounds.items()}
    print(f"{machine()}. C++: {CPP_PACKAGE}. {memcpy_note()}: only the table of one process has that.")
    print(f"Medians over {args.rounds} round(s), taken in turn{', of a quick run' if args.quick else ''}.\n")
    print(report(medians_of, medians(bare)))
    target = args.json or HOME / "figures.json"
    result: dict[str, Any] = {"machine": machine(), "cpp_package": CPP_PACKAGE, "medians": medians_of}
    result |= {"raw_limits": medians(bare), "rounds": rounds, "rounds_of_raw_limits": bare}
    target.write_text(json.dumps(result, indent=1) + "\n")
    print(f"\nfigures written to {target}", file=sys.stderr)


if __name__ == "__main__":
    main()
