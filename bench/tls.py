#!/usr/bin/env python3
"""What TLS costs: gets and puts over TCP on loopback, by a pool with certificates and by one without, in turn.

    python3 bench/tls.py            # two minutes
    python3 bench/tls.py --quick    # a short run

Both pools are the same apart from that, and have a master, a node and a client each. The certificates are made by the
command openssl. A round asks both pools for the same, in an order that alternates. The table has the medians over the
rounds of the median call, and of the bytes a second.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack

from environment import add_arguments, machine, prepare
from table import markdown
from testbed import Answer, Client, Pool

KIB, MIB = 1 << 10, 1 << 20
NODE_BYTES = 1 << 30
# By name: the command, the length of an object, and how many calls a round makes.
WORKS = {
    "get 4 KiB": ("get_one", 4 * KIB, 400),
    "put 4 KiB": ("put", 4 * KIB, 400),
    "get 1 MiB": ("get_one", MIB, 60),
    "put 1 MiB": ("put", MIB, 60),
}

# The most keys of a round.
KEYS = max(calls for _, _, calls in WORKS.values())


def make_certificates(folder: pathlib.Path) -> dict[str, str]:
    """A certificate that is its own authority, for 127.0.0.1. Returns the variables that name it."""
    cert, key = folder / "cert.pem", folder / "key.pem"
    made = ["-keyout", str(key), "-out", str(cert), "-days", "2", "-subj", "/CN=pool", "-nodes"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE"]
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    command = ["openssl", "req", "-x509", *kind, *made, *names]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return {"MOONCAKE_TLS_CERT": str(cert), "MOONCAKE_TLS_KEY": str(key), "MOONCAKE_TLS_CA": str(cert)}


def start(stack: ExitStack, variables: dict[str, str]) -> Client:
    os.environ.update(variables)
    pool = stack.enter_context(Pool("rust_tcp"))
    for name in variables:
        del os.environ[name]
    pool.wait_for_master()
    pool.add_node(NODE_BYTES)
    return pool.add_client()


def ask(client: Client, work: str, first: int) -> Answer:
    do, size, calls = WORKS[work]
    if do == "put":
        return client.ask("put", first=first, count=calls, size=size, batch=1)
    return client.ask("get_one", first=first, count=calls, size=size, span=calls)


def measure(rounds: int) -> dict[str, dict[str, list[Answer]]]:
    """The answers of all rounds, by work and by pool."""
    taken: dict[str, dict[str, list[Answer]]] = {work: {"plain": [], "TLS": []} for work in WORKS}
    with ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        clients = {"plain": start(stack, {}), "TLS": start(stack, make_certificates(folder))}
        # No two works, and no two rounds of puts, have keys in common.
        first = 0
        for work, (do, size, calls) in WORKS.items():
            first += KEYS
            if do == "get_one":
                for client in clients.values():
                    client.ask("put", first=first, count=calls, size=size, batch=1)
            for turn in range(rounds):
                first += KEYS if do == "put" else 0
                names = list(clients)
                for name in names if turn % 2 else reversed(names):
                    taken[work][name].append(ask(clients[name], work, first))
                    print(f"{work}, {name}: {taken[work][name][-1].p50_us:.0f} us", file=sys.stderr, flush=True)
    return taken


def table(taken: dict[str, dict[str, list[Answer]]]) -> str:
    rows = []
    for work, (_, size, _) in WORKS.items():
        plain, tls = (statistics.median(answer.p50_us for answer in taken[work][name]) for name in ("plain", "TLS"))
        rates = [size / us / 1e3 for us in (plain, tls)]
        rows.append([work, f"{plain:.0f} us", f"{tls:.0f} us", f"{tls / plain:.2f}", *(f"{it:.2f}" for it in rates)])
    return markdown([["call", "plain", "TLS", "ratio", "plain, GB/s", "TLS, GB/s"], *rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    parser.add_argument("--quick", action="store_true", help="a short run, not for publishing")
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    args.only = "rust"
    prepare(args)
    taken = measure(3 if args.quick else args.rounds)
    print(f"{machine()}\n\n{table(taken)}")


if __name__ == "__main__":
    main()
