#!/usr/bin/env python3
"""Relays packets between two interfaces, both ways, each after a delay: for kernels without netem.

    relay.py LEFT RIGHT DELAY_MS

`link.py` runs it in a network namespace of its own. It keeps the packets' offload headers (virtio), so packets that
still need segmentation or a checksum pass unchanged.
"""

import collections
import select
import socket
import sys
import time

ALL_PROTOCOLS = 3
SOL_PACKET, PACKET_VNET_HDR, PACKET_IGNORE_OUTGOING = 263, 15, 23
SO_RCVBUFFORCE, SO_SNDBUFFORCE = 33, 32
BUFFER_BYTES = 32 << 20
PACKET_BYTES = 70_000
# The most packets that are received in a row before due packets are sent.
BURST = 64


def open_interface(name: str) -> socket.socket:
    packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    packets.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    packets.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    for forced, plain in ((SO_RCVBUFFORCE, socket.SO_RCVBUF), (SO_SNDBUFFORCE, socket.SO_SNDBUF)):
        try:
            packets.setsockopt(socket.SOL_SOCKET, forced, BUFFER_BYTES)
        except PermissionError:
            packets.setsockopt(socket.SOL_SOCKET, plain, BUFFER_BYTES)
    packets.bind((name, ALL_PROTOCOLS))
    packets.setblocking(False)
    return packets


def take(packets: socket.socket, due: "collections.deque[tuple[float, bytes]]", delay_s: float) -> None:
    """Queues the packets that have arrived."""
    for _ in range(BURST):
        try:
            packet = packets.recv(PACKET_BYTES)
        except BlockingIOError:
            return
        due.append((time.monotonic() + delay_s, packet))


def relay(left: socket.socket, right: socket.socket, delay_s: float) -> None:
    queues = {left: collections.deque[tuple[float, bytes]](), right: collections.deque[tuple[float, bytes]]()}
    other = {left: right, right: left}
    while True:
        heads = [queue[0][0] for queue in queues.values() if queue]
        wait = max(0.0, min(heads) - time.monotonic()) if heads else None
        readable, _, _ = select.select([left, right, sys.stdin], [], [], wait)
        if sys.stdin in readable:
            # Standard input is readable only at its end: the program that made the link has ended.
            return
        for packets in readable:
            take(packets, queues[packets], delay_s)
        for packets, queue in queues.items():
            while queue and queue[0][0] <= time.monotonic():
                # A packet without room in the buffer is dropped, as on any link.
                try:
                    other[packets].send(queue.popleft()[1])
                except OSError as error:
                    print(f"a packet was lost: {error}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sides = [open_interface(name) for name in sys.argv[1:3]]
    print("ready", flush=True)
    relay(sides[0], sides[1], float(sys.argv[3]) / 1000)
