"""Masters, storage nodes and stores as processes on free ports. The tests stop them by their process ids."""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import json
import mmap
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

from mooncake.store import MooncakeDistributedStore
from typing_extensions import Self

COMMANDS = Path(sys.executable).parent
MIB = 1 << 20
# The variables of processes that reach each other one-sided over libfabric, by a provider that needs no NIC.
FABRIC = {"MOONCAKE_TRANSPORTS": "fabric", "MOONCAKE_FABRIC_PROVIDER": "tcp", "FI_TCP_IFACE": "lo"}
START_SECONDS = 20.0
STOP_SECONDS = 10.0


def content(key: str, length: int) -> bytes:
    """Bytes generated from the key, so that a test recognises the bytes of another key."""
    return hashlib.shake_128(key.encode()).digest(length)


def ports_of_this_process() -> Iterator[int]:
    """Shuffled ports below the range of stores. Test processes on the same machine draw from disjoint sets."""
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    own = range(20_000 + number, 32_000, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))
    return itertools.cycle(random.sample(own, len(own)))


PORTS = ports_of_this_process()


def free_port() -> int:
    """A port that is free at this moment."""
    while True:
        port = next(PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def wait_until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Polls until the condition holds; fails with `what` if it does not within `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.02)


def pause(pid: int) -> None:
    """Pauses a child process with SIGSTOP, and waits until all its threads are paused: they go on for a moment."""
    os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED)


def resume(pid: int) -> None:
    """Lets a process that was paused go on."""
    os.kill(pid, signal.SIGCONT)


class Memory:
    """Mapped memory with an address, for calls that take one. It is unmapped when it is collected."""

    def __init__(self, size: int) -> None:
        self.bytes = mmap.mmap(-1, size)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.bytes))
        self.size = size

    def write(self, offset: int, value: bytes) -> int:
        """Writes the bytes at this offset, and returns their address."""
        self.bytes[offset : offset + len(value)] = value
        return self.address + offset

    def read(self, offset: int, length: int) -> bytes:
        return self.bytes[offset : offset + length]


# Masters store their membership records here while the tests run.
STATE_HOME = tempfile.TemporaryDirectory(prefix="mooncake-state-")


class Process:
    """A command of the wheel, with its output in a file."""

    def __init__(self, command: str, *arguments: str, env: dict[str, str] | None = None) -> None:
        self.command = command
        self.log = tempfile.NamedTemporaryFile("w+", prefix=f"{command}-", suffix=".log")  # noqa: SIM115
        self.process = subprocess.Popen(
            [str(COMMANDS / command), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "XDG_STATE_HOME": STATE_HOME.name, **(env or {})},
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def output(self) -> str:
        return Path(self.log.name).read_text(errors="replace")

    def wait_ready(self, ready: Callable[[], bool]) -> None:
        def is_ready() -> bool:
            assert self.process.poll() is None, f"{self.command} ended early:\n{self.output()}"
            return ready()

        wait_until(is_ready, START_SECONDS, f"{self.command} is ready")

    def kill(self) -> None:
        """Kills the process with SIGKILL."""
        self.process.kill()
        self.process.wait(STOP_SECONDS)

    def stop(self) -> int:
        """Sends SIGTERM, waits for the end, and returns the exit status."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise


class Cluster:
    """One master, its nodes, and stores connected to it. Use it in a `with`."""

    def __init__(self, *master_flags: str) -> None:
        self.master_flags = master_flags
        self.rpc_port, self.http_port = free_port(), free_port()
        # Other clusters may reuse the ports; this master must not wait for the members that their records name.
        self.state = tempfile.TemporaryDirectory(prefix="mooncake-state-")
        self.nodes: list[Process] = []
        self.stores: list[MooncakeDistributedStore] = []
        self.start_master()

    @property
    def master_address(self) -> str:
        return f"127.0.0.1:{self.rpc_port}"

    def start_master(self) -> None:
        self.master = Process(
            "mooncake_master",
            f"--rpc_port={self.rpc_port}",
            "--rpc_address=127.0.0.1",
            f"--metrics_port={self.http_port}",
            "--metrics_host=127.0.0.1",
            f"--state_dir={self.state.name}",
            *self.master_flags,
        )
        self.master.wait_ready(lambda: self.http("/health") is not None)

    def http(self, path: str) -> str | None:
        """The admin server's answer to this path, or None if there is none."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}{path}", timeout=5) as reply:
                text: str = reply.read().decode()
                return text
        except (urllib.error.URLError, OSError):
            return None

    def segments(self) -> list[str]:
        return (self.http("/get_all_segments") or "").split()

    def start_node(self, segment_bytes: int, *flags: str, env: dict[str, str] | None = None) -> Process:
        """Starts a `mooncake_client`, and waits until its segment is mounted."""
        before = len(self.segments())
        node = Process(
            "mooncake_client",
            "--host=127.0.0.1",
            f"--master_server_address={self.master_address}",
            f"--global_segment_size={segment_bytes}",
            *flags,
            env=env,
        )
        self.nodes.append(node)
        node.wait_ready(lambda: len(self.segments()) > before)
        return node

    def setup(self, store: MooncakeDistributedStore, segment_bytes: int = 0, buffer_bytes: int = 64 * MIB) -> int:
        arguments = ("localhost", "P2PHANDSHAKE", segment_bytes, buffer_bytes, "tcp", "", self.master_address)
        return store.setup(*arguments)

    def store(self, segment_bytes: int = 0, buffer_bytes: int = 64 * MIB) -> MooncakeDistributedStore:
        """Sets a store up. It is closed with the cluster."""
        store = MooncakeDistributedStore()
        assert self.setup(store, segment_bytes, buffer_bytes) == 0
        self.stores.append(store)
        return store

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for store in self.stores:
            store.close()
        for process in [*self.nodes, self.master]:
            process.stop()


def in_other_process(code: str, *arguments: str, timeout: float = 60) -> object:
    """Runs Python code in another process, which prints one JSON value. Returns that value."""
    run = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=timeout, check=False
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)
