#!/usr/bin/env python3
"""The raw limits of one machine: two Python processes that talk over TCP on loopback, and plain copies of memory.

    python3 bench/raw_limits.py               # a table of one round; compare.py measures these beside the packages
    python3 bench/raw_limits.py --json FILE   # and the figures

- A round trip sends 32 bytes, and receives an answer of some length into the same memory each time.
- A stream sends bytes one way, and waits for one byte when the last one has arrived.
- A copy goes out of a block of 512 MiB, which no cache holds, to one place; or from one place into such a block; or
  from one place into fresh pages of a memory file, as segments have them.

Nothing is checked or looked up.
"""

import argparse
import json
import mmap
import os
import pathlib
import socket
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import NamedTuple

from peer import timed
from table import Figures, cell, markdown

MIB = 1 << 20
BLOCK_BYTES = 512 * MIB
# A quick run makes this fraction of the calls.
QUICK = 10


class Limit(NamedTuple):
    """Something that is measured: its name in the figures, in words, how often, and how many bytes each time."""

    figure: str
    what: str
    count: int
    length: int
    measure: Callable[[int, int], list[float]]


def memory(length: int) -> memoryview:
    """Memory whose pages have been touched."""
    block = mmap.mmap(-1, length)
    for at in range(0, length, mmap.PAGESIZE):
        block[at] = 1
    return memoryview(block)


def windows(length: int) -> Iterator[int]:
    """Offsets in the block, one after the other, without end."""
    at = 0
    while True:
        yield at
        at = (at + length) % (BLOCK_BYTES - length + 1)


def beside(child: Callable[[socket.socket], None], parent: Callable[[socket.socket], list[float]]) -> list[float]:
    """Runs `child` in a process of its own at the other end of a connection, and returns what `parent` returns."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        process = os.fork()
        if process == 0:
            connection, _ = server.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            child(connection)
            os._exit(0)
        with socket.create_connection(server.getsockname()) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            spent = parent(connection)
        os.waitpid(process, 0)
    return spent


def receive(connection: socket.socket, into: memoryview) -> None:
    got = 0
    while got < len(into):
        got += connection.recv_into(into[got:])


def round_trips(length: int, count: int) -> list[float]:
    def answer(connection: socket.socket) -> None:
        block, places = memory(BLOCK_BYTES), windows(length)
        connection.send(b"!")
        while connection.recv(64):
            at = next(places)
            connection.sendall(block[at : at + length])

    def ask(connection: socket.socket) -> list[float]:
        into = memory(length)
        connection.recv(1)

        def once() -> None:
            connection.send(b"x" * 32)
            receive(connection, into)

        return timed(repeat(once, count))

    return beside(answer, ask)


def streams(length: int, count: int) -> list[float]:
    def take(connection: socket.socket) -> None:
        into = memory(length)
        connection.send(b"!")
        for _ in range(count):
            receive(connection, into)
            connection.send(b"!")

    def give(connection: socket.socket) -> list[float]:
        block = memory(length)
        connection.recv(1)

        def once() -> None:
            connection.sendall(block)
            connection.recv(1)

        return timed(repeat(once, count))

    return beside(take, give)


def copies_out(length: int, count: int) -> list[float]:
    block, into, places = memory(BLOCK_BYTES), memory(length), windows(length)

    def copy() -> None:
        at = next(places)
        into[:] = block[at : at + length]

    return timed(repeat(copy, count))


def copies_in(length: int, count: int) -> list[float]:
    block, out_of, places = memory(BLOCK_BYTES), memory(length), windows(length)

    def copy() -> None:
        at = next(places)
        block[at : at + length] = out_of

    return timed(repeat(copy, count))


def copies_into_fresh_pages(length: int, count: int) -> list[float]:
    file = os.memfd_create("raw_limits")
    os.ftruncate(file, length * count)
    with mmap.mmap(file, length * count) as fresh:
        out_of, places = memory(length), iter(range(0, length * count, length))

        def copy() -> None:
            at = next(places)
            fresh[at : at + length] = out_of

        spent = timed(repeat(copy, count))
    os.close(file)
    return spent


LIMITS = [
    *(
        Limit(f"round_trip_{length}", f"TCP round trip, an answer of {name}", count, length, round_trips)
        for name, length, count in (
            ("32 B", 32, 5_000),
            ("4 KiB", 4 << 10, 5_000),
            ("64 KiB", 64 << 10, 2_000),
            ("1 MiB", MIB, 500),
            ("16 MiB", 16 * MIB, 40),
        )
    ),
    Limit("stream_67108864", "TCP stream of 64 MiB one way", 10, 64 * MIB, streams),
    Limit("copy_out_1048576", "copy of 1 MiB out of memory that no cache holds", 500, MIB, copies_out),
    Limit("copy_out_16777216", "copy of 16 MiB out of memory that no cache holds", 40, 16 * MIB, copies_out),
    Limit("copy_in_1048576", "copy of 1 MiB into memory that no cache holds", 500, MIB, copies_in),
    Limit("copy_fresh_1048576", "copy of 1 MiB into fresh pages", 500, MIB, copies_into_fresh_pages),
]


def measure(quick: bool) -> dict[str, dict[str, float]]:
    """The figures, in the form of peer.py's."""
    figures = {}
    for limit in LIMITS:
        spent = sorted(limit.measure(limit.length, max(2, limit.count // (QUICK if quick else 1))))
        rate = limit.length * len(spent) / sum(spent) / 1e9
        figures[limit.figure] = {"p50_us": spent[len(spent) // 2] * 1e6, "GBps": rate}
    return figures


def table(figures: Figures) -> str:
    rows = [["what", "us, p50", "GB/s"]]
    for limit in LIMITS:
        rate = cell(figures[limit.figure]["GBps"]) if limit.length >= 64 << 10 else "-"
        rows.append([limit.what, cell(figures[limit.figure]["p50_us"]), rate])
    return markdown(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the calls")
    parser.add_argument("--json", type=pathlib.Path, help="write the figures here")
    args = parser.parse_args()
    figures = measure(args.quick)
    print(table(figures))
    if args.json:
        args.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
