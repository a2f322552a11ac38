#!/usr/bin/env python3
"""One bare TCP stream, the raw limit of a link. Used by link.py.

stream.py serve HOST             prints a port; sends zeros to each client, as many as the client asks for
stream.py pull HOST PORT BYTES   prints how many seconds BYTES bytes took
"""

import socket
import sys
import time

BLOCK_BYTES = 1 << 20


def serve(host: str) -> None:
    with socket.create_server((host, 0)) as server:
        print(server.getsockname()[1], flush=True)
        while True:
            connection, _ = server.accept()
            with connection:
                left = int.from_bytes(connection.recv(8, socket.MSG_WAITALL), "little")
                block = bytes(BLOCK_BYTES)
                while left > 0:
                    left -= connection.send(block[: min(left, BLOCK_BYTES)])
                connection.recv(1)


def pull(host: str, port: int, wanted: int) -> float:
    into = bytearray(BLOCK_BYTES)
    with socket.create_connection((host, port), timeout=60) as connection:
        begin = time.perf_counter()
        connection.sendall(wanted.to_bytes(8, "little"))
        while wanted > 0:
            got = connection.recv_into(into, min(wanted, BLOCK_BYTES))
            if got == 0:
                sys.exit("the stream ended early")
            wanted -= got
        return time.perf_counter() - begin


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    else:
        print(pull(sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
