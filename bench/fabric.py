#!/usr/bin/env python3
"""One-sided reads and writes over libfabric's software providers, beside a bare loop and fi_pingpong.

    python3 bench/fabric.py                       # tcp on loopback, and shm
    python3 bench/fabric.py --provider efa        # a NIC, with both processes on this host
    python3 bench/fabric.py --quick               # a tenth of the rounds

Needs libfabric-dev and libfabric-bin (`make servers`) and a C compiler. In each round two programs run one after the
other, with the same requests: `fabric_raw.c`, a bare loop in C on the library, and `fabric_transfers`, the same through
this project's crate. A table shows medians over the rounds. `fi_pingpong` exchanges messages: half a round trip.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import time

from environment import ROOT
from table import cell, markdown

KIB, MIB = 1 << 10, 1 << 20
# Bytes of a request, requests in flight, and rounds.
CASES = [
    (4 * KIB, 1, 4000),
    (64 * KIB, 1, 2000),
    (MIB, 1, 400),
    (16 * MIB, 1, 40),
    (4 * KIB, 64, 200),
    (64 * KIB, 64, 60),
    (MIB, 16, 40),
]
OURS = ROOT / "target" / "release" / "fabric_transfers"
RAW = ROOT / "target" / "release" / "fabric_raw"
# The interface of providers that would choose another one.
DEVICES = {"tcp": "lo", "sockets": "lo", "udp": "lo"}


def build() -> None:
    package = ["--package", "mooncake-fabric", "--bin", "fabric_transfers"]
    subprocess.run(["cargo", "build", "--locked", "--release", *package], cwd=ROOT, check=True)
    subprocess.run(["cc", "-O2", "-o", RAW, ROOT / "bench" / "fabric_raw.c", "-lfabric"], check=True)


def run(program: pathlib.Path, provider: str, cases: list[str]) -> dict[str, list[float]]:
    """The numbers that a program prints for each case."""
    command = [program, provider, DEVICES.get(provider, ""), *cases]
    output = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600).stdout
    lines = [line.split() for line in output.splitlines()]
    return {line[0]: [float(word) for word in line[1:]] for line in lines}


def pingpong(provider: str, length: int, count: int) -> float | None:
    """Half the time of a round trip of messages, in us."""
    environment = dict(os.environ, FI_TCP_IFACE="lo")
    endpoint = ["-e", "rdm", "-p", provider, "-S", str(length), "-I", str(count)]
    with subprocess.Popen(["fi_pingpong", *endpoint], env=environment, stdout=subprocess.DEVNULL) as server:
        time.sleep(1)
        client = ["fi_pingpong", *endpoint, "localhost"]
        try:
            done = subprocess.run(client, env=environment, capture_output=True, text=True, timeout=60)
        except subprocess.TimeoutExpired:
            return None
        finally:
            server.kill()
    # bytes, #sent, #ack, total, time, MB/sec, usec/xfer, Mxfers/sec
    rows = [line.split() for line in done.stdout.splitlines()]
    return float(rows[-1][6]) if rows and len(rows[-1]) == 8 and rows[-1][6][0].isdigit() else None


def name(length: int) -> str:
    return f"{length // MIB} MiB" if length >= MIB else f"{length // KIB} KiB"


def table(provider: str, rounds: int, part: int) -> str:
    cases = {
        f"{operation}:{length}:{requests}:{max(10, count // part)}": (operation, length, requests)
        for operation in ("read", "write")
        for length, requests, count in CASES
    }
    raw, ours = [], []
    for _ in range(rounds):
        raw.append(run(RAW, provider, list(cases)))
        ours.append(run(OURS, provider, list(cases)))
    rows = [
        ["", "bare loop, us", "us", "bare loop, GB/s", "GB/s", "share", "lender's processor, ms/GB", "fi_pingpong, us"]
    ]
    for case, (operation, length, requests) in cases.items():
        bare = [statistics.median(run[case][at] for run in raw) for at in range(2)]
        median, rate, lent = (statistics.median(run[case][at] for run in ours) for at in range(3))
        messages = pingpong(provider, length, 1000 // part) if requests == 1 and operation == "read" else None
        what = f"{operation} {name(length)}" + (f", {requests} at once" if requests > 1 else "")
        shares = f"{bare[0] / median:.0%}"
        rows.append([what, cell(bare[0]), cell(median), cell(bare[1]), cell(rate), shares, cell(lent), cell(messages)])
    return markdown(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--provider", nargs="+", default=["tcp", "shm"], help="libfabric's name; tcp and shm")
    parser.add_argument("--rounds", type=int, default=5, help="how often each program runs; 5")
    parser.add_argument("--quick", action="store_true", help="a tenth of the requests, once: not for publishing")
    args = parser.parse_args()
    build()
    for provider in args.provider:
        rounds, part = (1, 10) if args.quick else (args.rounds, 1)
        print(f"**{provider}**\n\n{table(provider, rounds, part)}\n", flush=True)


if __name__ == "__main__":
    main()
