#!/usr/bin/env python3
"""Measures the tiers below memory: how fast objects move there and are read, beside fio and the C++ package.

    python3 bench/disks.py --folder /nvme            # a quarter of an hour; see --help
    python3 bench/disks.py --gib 1 --rounds 1 --only rust --as-installed

In each round, `fio` (which must be on the PATH) writes and reads the folder past the system's cache. Then each tier
takes what does not fit into 256 MiB of memory. The process that lends the tier reads it, and so does another process.
Every object that is read is compared. The tables show medians of the rounds.

A disk of 1 GiB shows how fast a full one takes objects: most puts evict from it, and it has lost what it evicted.

The object store is a folder (`file://`), and takes only objects that were used again: there, each object is read once
after its put. A refused put is repeated after 5 ms. The C++ package asks for work each second instead of every ten
(MOONCAKE_OFFLOAD_HEARTBEAT_INTERVAL_SECONDS=1).
"""

import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any, NamedTuple

import environment
from table import cell, markdown
from testbed import Pool, PoolError

HERE = pathlib.Path(__file__).resolve().parent
MIB, KIB = 1 << 20, 1 << 10
MB = 1_000_000
LEASE_MS = 100
NAMES = {MIB: "1 MiB", 64 * KIB: "64 KiB"}


class Tier(NamedTuple):
    """A tier below memory, and the settings that enable it. `FOLDER` stands for a new folder."""

    name: str
    variant: str
    master: tuple[str, ...]
    variables: dict[str, str]
    work: tuple[str, ...]


FULL = "disk of 1 GiB"
OFFLOAD = ("--enable_offload=true", "--offload_on_evict=true")
# It asks for offload work every second instead of every ten, and gets the folder of its disk.
CPP_VARIABLES = {"MOONCAKE_OFFLOAD_HEARTBEAT_INTERVAL_SECONDS": "1", "MOONCAKE_OFFLOAD_FILE_STORAGE_PATH": "FOLDER"}
TIERS = (
    Tier("disk", "rust", OFFLOAD, {}, ("--disk", "FOLDER")),
    Tier(FULL, "rust", OFFLOAD, {"MOONCAKE_OFFLOAD_TOTAL_SIZE_LIMIT_BYTES": str(1 << 30)}, ("--disk", "FOLDER")),
    Tier("shared directory", "rust", ("--root_fs_dir=FOLDER",), {}, ()),
    Tier("object store", "rust", OFFLOAD, {"MOONCAKE_OBJECT_STORE_URL": "file://FOLDER"}, ("--twice",)),
    Tier("C++, disk", "cpp", OFFLOAD, CPP_VARIABLES, ("--disk", "FOLDER", "--settle", "15")),
)


def fio(folder: pathlib.Path, how: str, length: int, jobs: int, depth: int) -> dict[str, float]:
    """Throughput in MB/s, and p50 and p99 of the latency in us, with `jobs` x `depth` requests in flight."""
    command = ["fio", "--name=raw", f"--directory={folder}", "--direct=1", f"--bs={length}", "--size=512M"]
    command += [f"--numjobs={jobs}", "--ioengine=libaio", f"--iodepth={depth}", f"--rw={how}", "--group_reporting"]
    command += ["--end_fsync=1"] if "write" in how else ["--time_based", "--runtime=4"]
    told = subprocess.run([*command, "--output-format=json"], check=True, capture_output=True, text=True).stdout
    part = json.loads(told)["jobs"][0]["read" if "read" in how else "write"]
    latencies = part["clat_ns"]["percentile"]
    return {
        "MB/s": part["bw_bytes"] / MB,
        "p50_us": latencies["50.000000"] / 1e3,
        "p99_us": latencies["99.000000"] / 1e3,
    }


def raw(folder: pathlib.Path) -> dict[str, Any]:
    """The figures of the disk itself, in the form that `measure` returns."""
    written = fio(folder, "write", MIB, 4, 1)
    reads: dict[int, dict[str, float]] = {}
    for length in NAMES:
        one, several = fio(folder, "randread", length, 1, 1), fio(folder, "randread", length, 4, 4)
        reads[length] = {**one, "together_MB/s": several["MB/s"]}
    for file in folder.glob("raw.*"):
        file.unlink()
    return {"put": {MIB: written}, "get": reads}


def with_folder(text: str, folder: pathlib.Path) -> str:
    return text.replace("FOLDER", str(folder))


class TierPool(Pool):
    """A master with this tier, and processes of `disk_work.py`. Use it in a `with`."""

    def __init__(self, tier: Tier, folder: pathlib.Path) -> None:
        flags = [with_folder(flag, folder) for flag in tier.master]
        super().__init__(tier.variant, flags=[f"--default_kv_lease_ttl={LEASE_MS}", *flags])
        self.variables |= {name: with_folder(value, folder) for name, value in tier.variables.items()}
        self.tier, self.folder = tier, folder
        self.wait_for_master()

    def work(self, role: str, *arguments: str, told: str | None = None) -> Any:
        """Starts a process, writes `told` to its standard input if given, and returns its figures."""
        own = [with_folder(argument, self.folder) for argument in arguments]
        command = [self.python, str(HERE / "disk_work.py"), role, f"--port={self.ports[0]}", *own]
        process = self.start(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True)
        if told is not None:
            process.stdin.write(told)
            process.stdin.close()
        for line in process.stdout:
            if line.startswith("RESULT "):
                return json.loads(line[7:])
        self.log.seek(0)
        raise PoolError(f"{self.tier.name}, {role}: no figures:\n{self.log.read()[-2000:]}")


def by_length(figures: dict[str, Any]) -> dict[int, Any]:
    """The figures with integer keys: JSON has only texts as keys."""
    return {int(length): figure for length, figure in figures.items()}


def measure(tier: Tier, folder: pathlib.Path, gib: int) -> dict[str, Any]:
    """The figures of one tier in one round."""
    objects = [f"{MIB}:{gib * 1024}", f"{64 * KIB}:{8192 if tier.variant == 'rust' else 4096}"]
    with tempfile.TemporaryDirectory(dir=folder) as own, TierPool(tier, pathlib.Path(own)) as pool:
        lent = pool.work("lend", *tier.work, "--objects", *objects)
        elsewhere = pool.work("read", told=json.dumps(lent["cold"]))
    figures = {name: by_length(figure) for name, figure in lent.items()}
    return {**figures, "elsewhere": by_length(elsewhere["get"])}


def seed_run(variant: Tier, folder: pathlib.Path) -> str:
    """Puts 100 objects of 1 MB into 50 MB of memory."""
    with tempfile.TemporaryDirectory(dir=folder) as own, TierPool(variant, pathlib.Path(own)) as pool:
        lent = pool.work("lend", *variant.work, f"--segment={50 * MB}", "--objects", f"{MB}:100")
    put, lost = lent["put"][str(MB)], lent["lost"][str(MB)]
    given_up = f", {put['given_up']:.0f} puts given up" if put["given_up"] else ""
    return f"- {variant.name}: {put['s']:.2f} s, {put['refused']:.0f} puts refused{given_up}, {lost:.0f} objects lost"


def middle(rounds: Sequence[dict[str, Any]], *path: Any) -> float | None:
    """The median of one figure over the rounds; None if a round lacks it."""
    found = []
    for figures in rounds:
        at: Any = figures
        for name in path:
            at = at.get(name) if at is not None else None
        if at is None:
            return None
        found.append(float(at))
    return statistics.median(found)


def share(ours: float | None, theirs: float | None) -> str:
    return "-" if ours is None or not theirs else f"{ours / theirs:.0%}"


def written(taken: dict[str, list[dict[str, Any]]]) -> str:
    rows = [["objects of 1 MiB", "MB/s", "of fio", "CPU s a GB", "puts refused", "lost", "wrong bytes"]]
    limit = middle(taken["fio"], "put", MIB, "MB/s")
    for name, rounds in taken.items():
        rate = middle(rounds, "put", MIB, "MB/s")
        cells = [middle(rounds, "put", MIB, "cpu_s_per_GB"), middle(rounds, "put", MIB, "refused")]
        wrong = None if name == "fio" else sum(told["wrong"] for it in rounds for told in reads_of(it))
        cells += [middle(rounds, "lost", MIB), wrong]
        rows.append([name, cell(rate), share(rate, limit), *(cell(it) for it in cells)])
    return markdown(rows)


def reads_of(figures: dict[str, Any]) -> list[dict[str, float]]:
    return [read for where in ("get", "elsewhere") for read in figures[where].values()]


def read(taken: dict[str, list[dict[str, Any]]], length: int) -> str:
    """The table for one length of the objects."""
    head = [f"get of {NAMES[length]} below memory", "p50, us", "p99, us", "MB/s, 16 at a time", "of fio", "not read"]
    rows, limit = [head], middle(taken["fio"], "get", length, "together_MB/s")
    # A full disk has evicted most of the objects of one length by the time the other is put.
    for name, rounds in ((name, rounds) for name, rounds in taken.items() if name != FULL):
        for where in ("get", "elsewhere"):
            if name == "fio" and where == "elsewhere":
                continue
            who = {"get": ", by the lender", "elsewhere": ", by another process"}[where] if name != "fio" else ""
            rate = middle(rounds, where, length, "together_MB/s")
            times = [cell(middle(rounds, where, length, field)) for field in ("p50_us", "p99_us")]
            missing = cell(middle(rounds, where, length, "missing"))
            rows.append([f"{name}{who}", *times, cell(rate), share(rate, limit), missing])
    return markdown(rows)


def tiers_of(args: argparse.Namespace) -> list[Tier]:
    names = {environment.VARIANTS[variant][1] for variant in environment.prepare(args)}
    return [tier for tier in TIERS if tier.variant in names and (not args.tiers or tier.name in args.tiers)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path, help="on the disk to be measured; a temporary one by default")
    parser.add_argument("--gib", type=int, default=4, help="how much is put (4)")
    parser.add_argument("--rounds", type=int, default=3, help="how often all of it is done (3)")
    parser.add_argument("--tiers", nargs="+", choices=[tier.name for tier in TIERS], help="some of the tiers")
    environment.add_arguments(parser)
    args = parser.parse_args()
    if not shutil.which("fio"):
        sys.exit("fio is not on the PATH. On Debian and Ubuntu: apt-get install fio")
    tiers = tiers_of(args)
    taken: dict[str, list[dict[str, Any]]] = {"fio": [], **{tier.name: [] for tier in tiers}}
    with tempfile.TemporaryDirectory(dir=args.folder) as place:
        folder = pathlib.Path(place)
        for number in range(args.rounds):
            print(f"round {number + 1} of {args.rounds}", file=sys.stderr, flush=True)
            taken["fio"].append(raw(folder))
            for tier in tiers:
                print(f"  {tier.name}", file=sys.stderr, flush=True)
                taken[tier.name].append(measure(tier, folder, args.gib))
        seeds = [seed_run(tier, folder) for tier in tiers if "disk" in tier.name and tier.name != FULL]
    print(f"{environment.machine()}. {args.gib} GiB put into 256 MiB of memory, medians of {args.rounds} rounds\n")
    print(written(taken), *(read(taken, length) for length in NAMES), sep="\n\n")
    print("\n100 puts of 1 MB into 50 MB of memory:\n", *seeds, sep="\n")


if __name__ == "__main__":
    main()
