"""Look-ups: the scheduler asks a worker how many blocks of a prompt the pool holds.

Only workers have a store. Worker 0 answers on a Unix socket, and only to processes of its own user. A request is one
byte for its kind, four bytes for the length of the payload, and the payload. An answer is four bytes. All numbers are
big-endian. The payload of a look-up is the position of the first block that would be loaded, then the hashes.
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
MAX_PAYLOAD_BYTES = 4 + 1 + MAX_HASHES * MAX_HASH_BYTES
RESET_TIMEOUT_MS = 30_000
# The request id under which the client remembers a reset. vLLM's own are never empty.
RESET_REQUEST = ""
# After a connection that failed, the client tries no other for this long.
QUIET_SECONDS = 1.0
# The least time in which a question must have been sent.
SEND_SECONDS = 0.01
# The most answers that are received at once.
MAX_ANSWERS = 1024
POLL_SECONDS = 0.5
FRAME = struct.Struct(">BI")
ANSWER = struct.Struct(">I")
PLACE = struct.Struct(">I")
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
    """Answers look-ups with `count(hashes, first)` and resets with `reset()`. The constructor starts it, `close` ends
    it.
    """

    def __init__(self, name: str, count: Callable[[list[bytes], int], int], reset: Callable[[], bool]) -> None:
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
            if len(payload) < PLACE.size:
                raise ValueError("a look-up without a position")
            (first,) = PLACE.unpack_from(payload)
            return self.count(decode_hashes(payload[PLACE.size :]), first)
        if kind == RESET:
            return int(self.reset())
        raise ValueError(f"a request of kind {kind}")


class LookupClient:
    """Asks on the scheduler's thread, which waits at most `wait_ms` for answers in one step. If an answer takes longer,
    the scheduler asks for it again in a later step. After `timeout_ms`, nothing counts as cached.

    While an answer is overdue, nothing more is asked: a server that does not answer costs a step nothing.
    """

    def __init__(self, name: str, timeout_ms: int, wait_ms: int) -> None:
        self.name = name
        self.timeout = timeout_ms / 1000
        self.wait = wait_ms / 1000
        self.quiet_until = 0.0
        self._connection: socket.socket | None = None
        self._received = bytearray()
        # The seconds that are left to wait in this step.
        self._left = self.wait
        # The requests whose questions have no answer, in the order of the answers to come.
        self._asked: dict[str, None] = {}
        # Since when the server is busy with the first of them.
        self._since = 0.0
        self._answers: dict[str, int] = {}
        self._wanted: set[str] = set()
        self._is_down = False

    def begin_step(self) -> None:
        """Begins a step of the scheduler, with its own time to wait."""
        self._left = self.wait

    def count(self, request_id: str, hashes: Sequence[bytes], first: int = 0) -> int | None:
        """How many of a request's blocks, from the first on without a gap, are in the pool. None if that is not known
        yet: call it again in a later step. Those from position `first` on are to be loaded: the pool keeps them for
        the length of a lease.
        """
        deadline = time.monotonic() + self._left
        self._wanted.add(request_id)
        self._receive(0)
        if request_id not in self._answers and request_id not in self._asked:
            self._ask(LOOKUP, request_id, PLACE.pack(min(first, MAX_HASHES)) + encode_hashes(hashes))
        self._await(request_id, deadline)
        self._left = max(0.0, deadline - time.monotonic())
        if request_id in self._asked and not self._is_overdue():
            return None
        self._wanted.discard(request_id)
        return min(self._answers.pop(request_id, 0), len(hashes))

    def forget(self, request_id: str) -> None:
        """Drops what was asked for a request that has ended."""
        self._wanted.discard(request_id)
        self._answers.pop(request_id, None)

    def reset(self) -> bool:
        """Removes the blocks of this model from the pool. Returns whether that succeeded."""
        self._wanted.add(RESET_REQUEST)
        self._ask(RESET, RESET_REQUEST, b"")
        deadline = time.monotonic() + RESET_TIMEOUT_MS / 1000
        while RESET_REQUEST in self._asked and (left := deadline - time.monotonic()) > 0:
            self._receive(left)
        self._wanted.discard(RESET_REQUEST)
        return self._answers.pop(RESET_REQUEST, 0) == 1

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._received.clear()
        self._asked.clear()

    def _await(self, request_id: str, deadline: float) -> None:
        while request_id in self._asked and not self._is_overdue():
            left = deadline - time.monotonic()
            if left <= 0:
                return
            self._receive(left)

    def _is_overdue(self) -> bool:
        """Whether the first question should have been answered by now."""
        is_overdue = bool(self._asked) and time.monotonic() - self._since >= self.timeout
        if is_overdue:
            self._note_down("no answer in time")
        return is_overdue

    def _ask(self, kind: int, request_id: str, payload: bytes) -> None:
        """Sends a question, unless there is no server, or an answer is overdue."""
        if time.monotonic() < self.quiet_until or self._is_overdue():
            return
        seconds = max(self._left, SEND_SECONDS)
        try:
            if self._connection is None:
                self._connection = self._connect(seconds)
            self._connection.settimeout(seconds)
            self._connection.sendall(FRAME.pack(kind, len(payload)) + payload)
        except OSError as error:
            self._lose(error)
            return
        if not self._asked:
            self._since = time.monotonic()
        self._asked[request_id] = None

    def _receive(self, seconds: float) -> None:
        """Takes the answers that are there, or the first that comes within `seconds`."""
        if self._connection is None:
            return
        try:
            self._connection.settimeout(seconds)
            part = self._connection.recv(ANSWER.size * MAX_ANSWERS)
            if not part:
                raise EOFError("the connection was closed")
        except (BlockingIOError, TimeoutError):
            return
        except (OSError, EOFError) as error:
            self._lose(error)
            return
        self._received += part
        while len(self._received) >= ANSWER.size and self._asked:
            (answer,) = ANSWER.unpack_from(self._received)
            del self._received[: ANSWER.size]
            request_id = next(iter(self._asked))
            del self._asked[request_id]
            self._since = time.monotonic()
            if request_id in self._wanted:
                self._answers[request_id] = int(answer)
        if self._is_down:
            self._is_down = False
            logger.warning("the look-up server answers again")

    def _lose(self, error: Exception) -> None:
        """Closes the connection. Its questions will not be answered."""
        self.close()
        self.quiet_until = time.monotonic() + QUIET_SECONDS
        self._note_down(repr(error))

    def _note_down(self, why: str) -> None:
        if not self._is_down:
            self._is_down = True
            logger.warning("the look-up server does not answer, so nothing counts as cached: %s", why)

    def _connect(self, seconds: float) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(seconds)
            connection.connect(self.name)
        except OSError:
            with contextlib.suppress(OSError):
                connection.close()
            raise
        return connection
