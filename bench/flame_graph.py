#!/usr/bin/env python3
"""Draws where the master's time goes under load: docs/images/master.svg, a flame graph.

    cargo install --locked inferno           # once; also needs perf (Debian: apt-get install linux-perf)
    python3 bench/flame_graph.py             # a build with symbols in target/profiled, then a quarter of a minute

Loads three masters, with existence checks, with look-ups and with puts, in batches of 1,000 keys (with `master_load`,
a program of crates/bench). perf samples their stacks 999 times a second.
"""

import argparse
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

import peer
from environment import ROOT
from table import markdown

TARGET = ROOT / "target" / "profiled"
# Frame pointers that perf can follow, and names. Optimization is unchanged.
SETTINGS = {
    "RUSTFLAGS": "-C force-frame-pointers=yes",
    "CARGO_PROFILE_RELEASE_STRIP": "false",
    "CARGO_PROFILE_RELEASE_DEBUG": "1",
    "CARGO_TARGET_DIR": str(TARGET),
}
BUILD = ["cargo", "build", "--release", "--locked", "--quiet"]
PARTS = [
    ["--package", "mooncake-cli", "--bins"],
    ["--package", "mooncake-bench", "--bin", "master_load"],
]
WORKS = ["exist", "get", "put"]
TITLE = "mooncake_master: existence checks, look-ups and puts of 1,000 keys a request"


def require(*programs: str) -> None:
    missing = [program for program in programs if not shutil.which(program)]
    if missing:
        sys.exit(
            f"not on the PATH: {', '.join(missing)}. perf is in Debian's linux-perf; `cargo install --locked inferno`"
        )


def record(work: str, seconds: int, folder: pathlib.Path) -> pathlib.Path:
    """The samples of a master under one kind of load, as perf wrote them."""
    rpc, metrics = str(peer.free_port()), str(peer.free_port())
    listen = ["--rpc_port", rpc, "--metrics_port", metrics, "--state_dir", "none"]
    master = subprocess.Popen([TARGET / "release" / "mooncake_master", *listen], stderr=subprocess.DEVNULL)
    stacks = folder / work
    try:
        peer.wait_for_port(int(rpc), master)
        perf = ["perf", "record", "--quiet", "-e", "cpu-clock", "-F", "999", "-g", "-p", str(master.pid), "-o", stacks]
        taken = subprocess.Popen(perf)
        load = [TARGET / "release" / "master_load", "--master", f"127.0.0.1:{rpc}", "--work", work]
        options = ["--keys", "1000", "--connections", "2", "--in-flight", "4", "--objects", "100000"]
        subprocess.run([*load, *options, "--seconds", str(seconds)], check=True, stdout=subprocess.DEVNULL)
        taken.send_signal(signal.SIGINT)
        taken.wait()
    finally:
        peer.stop([master])
    return stacks


def folded(stacks: pathlib.Path) -> str:
    script = subprocess.run(["perf", "script", "-i", stacks], check=True, capture_output=True, text=True).stdout
    return subprocess.run(["inferno-collapse-perf"], input=script, check=True, capture_output=True, text=True).stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=4, help="how long each of the three kinds of load lasts [4]")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs" / "images" / "master.svg")
    args = parser.parse_args()
    require("perf", "inferno-collapse-perf", "inferno-flamegraph")
    for part in PARTS:
        subprocess.run([*BUILD, *part], cwd=ROOT, env={**os.environ, **SETTINGS}, check=True)
    with tempfile.TemporaryDirectory() as folder:
        lines = "".join(folded(record(work, args.seconds, pathlib.Path(folder))) for work in WORKS)
    graph = ["inferno-flamegraph", "--title", TITLE, "--minwidth", "0.3"]
    args.out.write_text(subprocess.run(graph, input=lines, check=True, capture_output=True, text=True).stdout)
    print(f"written to {args.out}\n\n{shares(lines)}")


def shares(lines: str) -> str:
    """A table of the functions that are on most stacks of the master's own code."""
    total, seen = 0, dict[str, int]()
    for line in lines.splitlines():
        stack, _, count = line.rpartition(" ")
        total += int(count)
        for name in {frame.split("::{closure")[0] for frame in stack.split(";") if "mooncake_" in frame}:
            seen[name] = seen.get(name, 0) + int(count)
    most = sorted(seen.items(), key=lambda item: -item[1])[:16]
    return markdown([["function, with what it calls", "share"], *([name, f"{n / total:.1%}"] for name, n in most)])


if __name__ == "__main__":
    main()
