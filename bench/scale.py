#!/usr/bin/env python3
"""What an operation costs as the work grows: objects in the pool, segments, client processes, length of an object.

    python3 bench/scale.py                   # about ten minutes; `make bench-scale` does the same
    python3 bench/scale.py --quick           # two minutes, less of everything, nothing written to docs/

Varies one axis at a time, from a base of 100,000 objects of 4 KiB in one segment and one client. Batches have 1,000
keys, or as many as fit 64 MiB if objects are long. Gets and look-ups use another order of keys than puts, and the
bytes that are read are checked. Goal: an operation costs at most 1.3 times as much at 1 M objects as at 10 k, and at
16 segments as at one. Writes the figures as JSON, a table in Markdown, and a plot.
"""

import argparse
import json
import pathlib
import signal
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from environment import HOME, ROOT, VARIANTS, add_arguments, machine, prepare
from plot import Panel, length, lines, number
from table import cell, growth, markdown
from testbed import Answer, Client, Pool, PoolError

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
IMAGES = ROOT / "docs" / "images"
BATCH = 1000
BASE_BYTES = 4 * KIB
BUFFER_BYTES = 64 * MIB
MOST_GROWTH = 1.3
# The axes that are compared with MOST_GROWTH, each with its two points.
BOUNDS = (("objects", 10_000, 1_000_000), ("segments", 1, 16))
# By work: its description and unit in tables. Each point measures all of them.
WORKS = {
    "put": "batch_put_from, us a key",
    "get": "batch_get_into, us a key",
    "exist": "batch_is_exist, us a key",
    "get_one": "get_into, us, p50",
    "exist_one": "is_exist, us, p50",
    "cpu": "CPU of all processes, Python included, us a key put and got",
    "master_cpu": "CPU of the master, us a key put and got",
}


class Scope(NamedTuple):
    """The points of each axis."""

    objects: list[int]
    segments: list[int]
    clients: list[int]
    sizes: list[int]
    base_objects: int
    # The number of bytes that are moved per length, and the number of calls of one key.
    size_bytes: int
    ones: int


FULL = Scope(
    objects=[10_000, 30_000, 100_000, 300_000, 1_000_000, 2_000_000],
    segments=[1, 2, 4, 8, 16],
    clients=[1, 2, 4, 8],
    sizes=[4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB],
    base_objects=100_000,
    size_bytes=GIB,
    ones=1000,
)
QUICK = Scope([3_000, 10_000, 30_000], [1, 4], [1, 2], [4 * KIB, MIB, 64 * MIB], 5_000, 128 * MIB, 200)

Point = dict[str, float]


def room(wanted: int) -> int:
    """The length of a segment in which `wanted` bytes stay below the watermark of eviction."""
    return max(256 * MIB, int(wanted / 0.75)) // MIB * MIB


class Meter:
    """Measures the CPU time of a pool's processes from its creation on."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.begin = pool.cpu_seconds(), pool.master_cpu_seconds()

    def per_key(self, keys: int) -> Point:
        """The CPU time per key in microseconds."""
        spent = self.pool.cpu_seconds() - self.begin[0], self.pool.master_cpu_seconds() - self.begin[1]
        return {"cpu": spent[0] / keys * 1e6, "master_cpu": spent[1] / keys * 1e6}


def per_key(answer: Answer, batch: int, count: int) -> float:
    """The microseconds per key, from the median of the calls."""
    return answer.p50_us / min(batch, count)


def look(client: Client, count: int, size: int, span: int, ones: int) -> Point:
    """The times of one client's gets and look-ups, in microseconds."""
    batch = max(1, min(BATCH, BUFFER_BYTES // size))
    reads = {"first": 0, "count": min(span, count), "span": span}
    get = client.ask("get", **reads, size=size, batch=batch)
    exist = client.ask("exist", **reads, batch=BATCH)
    few = {**reads, "count": min(span, ones)}
    return {
        "get": per_key(get, batch, reads["count"]),
        "exist": per_key(exist, BATCH, reads["count"]),
        "get_one": client.ask("get_one", **few, size=size).p50_us,
        "exist_one": client.ask("exist_one", **few).p50_us,
    }


def objects_axis(variant: str, scope: Scope) -> Iterator[tuple[int, Point]]:
    """Measures one pool while it is filled further and further."""
    with Pool(variant) as pool:
        pool.add_node(room(scope.objects[-1] * BASE_BYTES))
        client, stored = pool.add_client(), 0
        for objects in scope.objects:
            more = min(objects - stored, 20_000)
            client.ask("put", first=stored, count=objects - stored - more, size=BASE_BYTES, batch=BATCH)
            meter = Meter(pool)
            put = client.ask("put", first=objects - more, count=more, size=BASE_BYTES, batch=BATCH)
            client.ask("get", first=0, count=more, size=BASE_BYTES, batch=BATCH, span=objects)
            cpu = meter.per_key(more)
            stored = objects
            figures = look(client, 20_000, BASE_BYTES, objects, scope.ones)
            yield objects, {"put": per_key(put, BATCH, more), **figures, **cpu}


def fresh_point(pool: Pool, client: Client, count: int, size: int, ones: int) -> Point:
    """Measures puts and gets of one client in an empty pool."""
    batch, meter = max(1, min(BATCH, BUFFER_BYTES // size)), Meter(pool)
    put = client.ask("put", first=0, count=count, size=size, batch=batch)
    client.ask("get", first=0, count=count, size=size, batch=batch, span=count)
    cpu = meter.per_key(count)
    return {"put": per_key(put, batch, count), **look(client, count, size, count, ones), **cpu}


def segments_axis(variant: str, scope: Scope) -> Iterator[tuple[int, Point]]:
    for segments in scope.segments:
        with Pool(variant) as pool:
            for _ in range(segments):
                pool.add_node(room(scope.base_objects * BASE_BYTES * 2 // segments))
            yield segments, fresh_point(pool, pool.add_client(), scope.base_objects, BASE_BYTES, scope.ones)


def clients_axis(variant: str, scope: Scope) -> Iterator[tuple[int, Point]]:
    """Measures several clients at once, each with its own keys. Times are wall-clock microseconds over all keys."""
    for clients in scope.clients:
        each = max(BATCH, scope.base_objects // clients // BATCH * BATCH)
        total = each * clients
        with Pool(variant) as pool:
            pool.add_node(room(total * BASE_BYTES))
            for _ in range(clients):
                pool.add_client()
            own: list[dict[str, Any]] = [{"first": at * each, "count": each, "batch": BATCH} for at in range(clients)]
            meter = Meter(pool)
            put, _ = pool.ask_all("put", [{**one, "size": BASE_BYTES} for one in own])
            get, _ = pool.ask_all("get", [{**one, "size": BASE_BYTES, "span": each} for one in own])
            cpu = meter.per_key(total)
            exist, _ = pool.ask_all("exist", [{**one, "span": each} for one in own])
            wall = {"put": put, "get": get, "exist": exist}
            yield clients, {**{work: seconds / total * 1e6 for work, seconds in wall.items()}, **cpu}


def sizes_axis(variant: str, scope: Scope) -> Iterator[tuple[int, Point]]:
    """Measures one pool, emptied between the lengths. Touches its pages first, so that no length pays for that."""
    counts = {size: min(20_000, max(8, scope.size_bytes // size)) for size in scope.sizes}
    most = max(size * count for size, count in counts.items())
    with Pool(variant) as pool:
        pool.add_node(room(most))
        client = pool.add_client()
        client.ask("put", first=0, count=most // MIB, size=MIB, batch=BUFFER_BYTES // MIB)
        client.ask("remove", first=0, count=most // MIB)
        for size, count in counts.items():
            point = fresh_point(pool, client, count, size, min(scope.ones, count))
            yield size, {work: value for work, value in point.items() if not work.startswith("exist")}
            client.ask("remove", first=0, count=count)


AXES = {"objects": objects_axis, "segments": segments_axis, "clients": clients_axis, "sizes": sizes_axis}
HEADS = {"objects": "objects", "segments": "segments", "clients": "client processes", "sizes": "length of an object"}

# By axis and variant: the points, each with its position on the axis.
Figures = dict[str, dict[str, list[tuple[int, Point]]]]


def points_table(axis: str, by_variant: dict[str, list[tuple[int, Point]]]) -> str:
    """The table of one axis: a line per point and variant."""
    works = [work for work in WORKS if any(work in point for points in by_variant.values() for _, point in points)]
    rows = [[HEADS[axis], "package", *(WORKS[work] for work in works)]]
    for variant, points in by_variant.items():
        for at, point in points:
            place = length(at) if axis == "sizes" else f"{at:,}"
            rows.append([place, VARIANTS[variant][0], *(cell(point.get(work)) for work in works)])
    return markdown(rows)


def growth_table(figures: Figures) -> str:
    """How many times as much each work costs at the far point as at the near one."""
    rows = [["from", "to", "package", *WORKS.values(), f"goal: <= {MOST_GROWTH}"]]
    for axis, near, far in BOUNDS:
        for variant, points in figures.get(axis, {}).items():
            at = dict(points)
            if near not in at or far not in at:
                continue
            grown = {work: growth([at[near][work], at[far][work]]) for work in WORKS if work in at[near]}
            met = all(value is None or value <= MOST_GROWTH for value in grown.values())
            ends = [f"{number(near)} {axis}", f"{number(far)} {axis}"]
            cells = [cell(value) for value in grown.values()]
            rows.append([*ends, VARIANTS[variant][0], *cells, "met" if met else "missed"])
    return markdown(rows) if len(rows) > 1 else "No axis went far enough to be held against the goal."


def plot(figures: Figures) -> str:
    """The SVG document: the cost of a key along every axis, and the throughput along the lengths."""
    panels = []
    for axis, work in (("objects", "get"), ("objects", "exist"), ("segments", "put"), ("clients", "get")):
        if axis in figures:
            series = {VARIANTS[v][0]: [(at, p[work]) for at, p in points] for v, points in figures[axis].items()}
            panels.append(Panel(WORKS[work].split(",")[0], HEADS[axis], "us a key", series))
    for work, what in (("put", "batch_put_from"), ("get", "batch_get_into")):
        if "sizes" in figures:
            rates = {
                VARIANTS[v][0]: [(at, at / p[work] / 1e3) for at, p in points] for v, points in figures["sizes"].items()
            }
            panels.append(Panel(what, HEADS["sizes"], "GB/s", rates, x_bytes=True))
    return lines("What an operation costs as the work grows", panels)


def report(figures: Figures) -> str:
    tables = [f"### By {HEADS[axis]}\n\n{points_table(axis, points)}" for axis, points in figures.items()]
    return "\n\n".join([*tables, f"### Growth\n\n{growth_table(figures)}"])


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="less of everything")
    parser.add_argument("--axes", nargs="+", choices=AXES, default=list(AXES))
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=["cpp", "rust_tcp", "rust"])
    parser.add_argument("--json", type=pathlib.Path, default=HOME / "scale.json", help="figures [.bench/scale.json]")
    parser.add_argument("--svg", type=pathlib.Path, help="plot [docs/images/scale.svg; .bench/scale.svg if quick]")
    parser.add_argument("--from-json", type=pathlib.Path, help="print and plot an earlier run; measure nothing")
    add_arguments(parser)
    return parser.parse_args()


def measure(variants: list[str], axes: list[str], scope: Scope) -> Figures:
    figures: Figures = {}
    for axis in axes:
        for variant in variants:
            points = figures.setdefault(axis, {}).setdefault(variant, [])
            for at, point in AXES[axis](variant, scope):
                shown = "  ".join(f"{work} {cell(value)}" for work, value in point.items())
                print(f"{HEADS[axis]} {at:,}, {VARIANTS[variant][0]}: {shown}", file=sys.stderr, flush=True)
                points.append((at, point))
    return figures


def main() -> None:
    args = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped by SIGTERM"))
    if args.from_json:
        figures = json.loads(args.from_json.read_text())["figures"]
    else:
        variants = [variant for variant in prepare(args) if variant in args.variants]
        try:
            figures = measure(variants, args.axes, QUICK if args.quick else FULL)
        except PoolError as error:
            sys.exit(str(error))
        args.json.write_text(json.dumps({"machine": machine(), "figures": figures}, indent=1) + "\n")
    print(f"{machine()}.{' A quick run.' if args.quick else ''}\n\n{report(figures)}")
    target = args.svg or (HOME if args.quick else IMAGES) / "scale.svg"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(plot(figures))
    if target.parent == IMAGES:
        print("\n![Cost by objects, segments, clients and lengths](../images/scale.svg)")
    print(f"\nfigures in {args.json}, plot in {target}", file=sys.stderr)


if __name__ == "__main__":
    main()
