#!/usr/bin/env python3
"""The raw limit of small operations: one TCP round trip of 32 bytes on loopback between two Python processes.

python3 bench/round_trip.py
"""

import os
import socket
import statistics
import time

ROUND_TRIPS = 5_000


def echo(server: socket.socket) -> None:
    connection, _ = server.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while data := connection.recv(64):
        connection.send(data)


def measure() -> float:
    """The median in microseconds."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        child = os.fork()
        if child == 0:
            echo(server)
            os._exit(0)
        with socket.create_connection(server.getsockname()) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            spent = []
            for _ in range(ROUND_TRIPS):
                start = time.perf_counter()
                connection.send(b"x" * 32)
                connection.recv(64)
                spent.append(time.perf_counter() - start)
        os.waitpid(child, 0)
    return statistics.median(spent) * 1e6


if __name__ == "__main__":
    print("round trip, median of each of three runs: " + ", ".join(f"{measure():.1f} us" for _ in range(3)))
