#!/usr/bin/env python3
"""The raw limits of one machine: TCP round trips on loopback between two Python processes, and plain copies.

    python3 bench/round_trip.py

A round trip sends 32 bytes, and receives an answer of some length into the same memory each time. A copy goes from a
block of 512 MiB, which no cache holds, to one place. Nothing is checked or looked up.
"""

import mmap
import os
import socket
import statistics
import time
from collections.abc import Callable, Iterator

from table import cell, markdown

ROUNDS = 3
MIB = 1 << 20
# By length of the answer: the number of round trips in a round.
ANSWERS = {32: 5_000, 4 << 10: 5_000, 64 << 10: 2_000, MIB: 500, 16 * MIB: 40}
BLOCK_BYTES = 512 * MIB


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


def answer(server: socket.socket, length: int) -> None:
    connection, _ = server.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    block, places = memory(BLOCK_BYTES), windows(length)
    connection.send(b"!")
    while connection.recv(64):
        at = next(places)
        connection.sendall(block[at : at + length])


def timed(call: Callable[[], object], count: int) -> list[float]:
    spent = []
    for _ in range(count):
        start = time.perf_counter()
        call()
        spent.append(time.perf_counter() - start)
    return spent


def round_trips(length: int, count: int) -> list[float]:
    """The seconds of each round trip."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        child = os.fork()
        if child == 0:
            answer(server, length)
            os._exit(0)
        with socket.create_connection(server.getsockname()) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            into = memory(length)
            connection.recv(1)

            def ask() -> None:
                connection.send(b"x" * 32)
                got = 0
                while got < length:
                    got += connection.recv_into(into[got:])

            spent = timed(ask, count)
        os.waitpid(child, 0)
    return spent


def copies(length: int, count: int, block: memoryview) -> list[float]:
    into, places = memory(length), windows(length)

    def copy() -> None:
        at = next(places)
        into[:] = block[at : at + length]

    return timed(copy, count)


def row(what: str, length: int, runs: list[list[float]]) -> list[str]:
    seconds = statistics.median(statistics.median(run) for run in runs)
    rate = cell(length / seconds / 1e9) if length >= 64 << 10 else "-"
    return [what, cell(seconds * 1e6), rate]


def main() -> None:
    rows = [["what", "us, p50", "GB/s"]]
    for length, count in ANSWERS.items():
        runs = [round_trips(length, count) for _ in range(ROUNDS)]
        rows.append(row(f"TCP round trip, an answer of {name(length)}", length, runs))
    block = memory(BLOCK_BYTES)
    for length in (MIB, 16 * MIB):
        runs = [copies(length, ANSWERS[length], block) for _ in range(ROUNDS)]
        rows.append(row(f"copy of {name(length)} in one thread", length, runs))
    print(markdown(rows))


def name(length: int) -> str:
    for unit, of in (("MiB", MIB), ("KiB", 1 << 10)):
        if length >= of:
            return f"{length // of} {unit}"
    return f"{length} B"


if __name__ == "__main__":
    main()
