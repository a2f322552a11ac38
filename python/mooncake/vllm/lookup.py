"""Look-ups: the scheduler asks a worker how many blocks of a prompt the pool holds.

Only workers have a store. Worker 0 answers on a Unix socket, and only to processes of its own user. A request is one
byte for its kind, four bytes for the length of the payload, and the payload. An answer is four bytes. All numbers are
big-endian.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence

logger = logging.getLogger(__name__)

LOOKUP, RESET = 1, 2
MAX_HASHES = 1 << 16
MAX_HASH_BYTES = 64
MAX_PAYLOAD_BYTES = 1 + MAX_HASHES * MAX_HASH_BYTES
RESET_TIMEOUT_MS = 30_000
# After a request without a timely answer, the client sends no further request for this long.
QUIET_SECONDS = 1.0
POLL_SECONDS = 0.5
FRAME = struct.Struct(">BI")
ANSWER = struct.Struct(">I")
CREDENTIALS = struct.Struct("iii")


def socket_name(engine_id: str) -> str:
    """The name of an engine's socket. The scheduler and the workers of one engine use the same name; each engine has
    its own.

    The name is in Linux's abstract namespace: if vLLM kills its workers, no file is left.
    """
    return f"\0mooncake-vllm-{hashlib.sha256(engine_id.encode()).hexdigest()[:32]}"


def peer_user(connection: socket.socket) -> int:
    """The user id of the process at the other end of the connection."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    _, user, _ = CREDENTIALS.unpack(credentials)
    return int(user)


def encode_hashes(hashes: Sequence[bytes]) -> bytes:
    """Encodes at most `MAX_HASHES` hashes: the length of one hash, then all of them. Raises ValueError if lengths
    differ.
    """
    if not hashes:
        return b"\0"
    length = len(hashes[0])
    if not 1 <= length <= MAX_HASH_BYTES or any(len(block_hash) != length for block_hash in hashes):
        raise ValueError("block hashes must have one length, from 1 to 64 bytes")
    return bytes([length]) + b"".join(hashes[:MAX_HASHES])


def decode_hashes(payload: bytes) -> list[bytes]:
    """Decodes the result of `encode_hashes`. Raises ValueError for other bytes."""
    length = payload[0] if payload else 0
    body = len(payload) - 1
    if body < 0 or length > MAX_HASH_BYTES or (body % length if length else body):
        raise ValueError("not a list of block hashes")
    return [payload[start : start + length] for start in range(1, len(payload), length or 1)]


def receive(connection: socket.socket, length: int, deadline: float) -> bytes:
    """Receives exactly `length` bytes. Raises EOFError, or OSError, of which TimeoutError is one."""
    received = bytearray()
    while len(received) < length:
        connection.settimeout(max(deadline - time.monotonic(), 0.001))
        part = connection.recv(length - len(received))
        if not part:
            raise EOFError("the connection was closed")
        received += part
    return bytes(received)


class LookupServer:
    """Answers look-ups with `count(hashes)` and resets with `reset()`. The constructor starts it, `close` ends it."""

    def __init__(self, name: str, count: Callable[[list[bytes]], int], reset: Callable[[], bool]) -> None:
        """Raises OSError if the socket cannot be created."""
        self.count = count
        self.reset = reset
        self.closed = False
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(name)
        self.listener.listen(4)
        self.listener.settimeout(POLL_SECONDS)
        self.thread = threading.Thread(target=self._run, name="mooncake-lookup", daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.closed = True
        self.thread.join(2 * POLL_SECONDS)
        self.listener.close()

    def _run(self) -> None:
        while not self.closed:
            try:
                connection, _ = self.listener.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            with connection:
                try:
                    if peer_user(connection) == os.getuid():
                        self._serve(connection)
                except (OSError, EOFError, ValueError) as error:
                    logger.debug("a look-up connection ended: %s", error)
                except Exception:
                    logger.exception("a look-up failed")

    def _serve(self, connection: socket.socket) -> None:
        """Serves one connection at a time: there is one scheduler. It connects again after an answer that was late."""
        while not self.closed:
            connection.settimeout(POLL_SECONDS)
            try:
                if not connection.recv(1, socket.MSG_PEEK):
                    return
            except TimeoutError:
                continue
            deadline = time.monotonic() + POLL_SECONDS
            kind, length = FRAME.unpack(receive(connection, FRAME.size, deadline))
            if length > MAX_PAYLOAD_BYTES:
                raise ValueError(f"a request of {length} bytes")
            payload = receive(connection, length, deadline)
            connection.sendall(ANSWER.pack(self._answer(kind, payload)))

    def _answer(self, kind: int, payload: bytes) -> int:
        if kind == LOOKUP:
            return self.count(decode_hashes(payload))
        if kind == RESET:
            return int(self.reset())
        raise ValueError(f"a request of kind {kind}")


class LookupClient:
    """Sends requests on the scheduler's thread. A look-up therefore takes at most `timeout_ms`. For a second after a
    late answer, the client sends no look-up.
    """

    def __init__(self, name: str, timeout_ms: int) -> None:
        self.name = name
        self.timeout_ms = timeout_ms
        self.connection: socket.socket | None = None
        self.quiet_until = 0.0

    def count(self, hashes: Sequence[bytes]) -> int:
        """How many of these blocks, from the first on without a gap, are in the pool; 0 without an answer in time."""
        if time.monotonic() < self.quiet_until:
            return 0
        answer = self._ask(LOOKUP, encode_hashes(hashes), self.timeout_ms)
        return min(answer or 0, len(hashes))

    def reset(self) -> bool:
        """Removes the blocks of this model from the pool. Returns whether that succeeded."""
        return self._ask(RESET, b"", RESET_TIMEOUT_MS) == 1

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def _ask(self, kind: int, payload: bytes, timeout_ms: int) -> int | None:
        deadline = time.monotonic() + timeout_ms / 1000
        try:
            if self.connection is None:
                self.connection = self._connect(deadline)
            self.connection.settimeout(max(deadline - time.monotonic(), 0.001))
            self.connection.sendall(FRAME.pack(kind, len(payload)) + payload)
            (answer,) = ANSWER.unpack(receive(self.connection, ANSWER.size, deadline))
        except (OSError, EOFError) as error:
            # The connection is closed, or the next request would take the late answer for its own.
            self.close()
            self.quiet_until = time.monotonic() + QUIET_SECONDS
            logger.warning("no answer from the look-up server, so nothing counts as cached: %r", error)
            return None
        return int(answer)

    def _connect(self, deadline: float) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(max(deadline - time.monotonic(), 0.001))
            connection.connect(self.name)
        except OSError:
            with contextlib.suppress(OSError):
                connection.close()
            raise
        return connection
