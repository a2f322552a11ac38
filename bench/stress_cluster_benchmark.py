"""A prefill node puts objects, and a decode node gets and checks them. A sample, and a first test of a cluster.

On one host, one command does it all: it starts a master and both roles.

    python bench/stress_cluster_benchmark.py

On two hosts, with a `mooncake_master` that both reach:

    ROLE=prefill MASTER_SERVER=10.0.0.1:50051 LOCAL_HOSTNAME=10.0.0.1 python bench/stress_cluster_benchmark.py
    ROLE=decode MASTER_SERVER=10.0.0.1:50051 LOCAL_HOSTNAME=10.0.0.2 python bench/stress_cluster_benchmark.py

The environment sets the rest: PROTOCOL, DEVICE_NAME, METADATA_ADDR; VALUE_LENGTH and MAX_REQUESTS, the length of an
object and the number of objects; SEGMENT_SIZE and BUFFER_SIZE, in bytes; RUN, part of all keys, so that a later run
finds none of an earlier one; WAIT_SECONDS, how long a role waits for the other. The exit status is 0 if every byte was
right.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import subprocess
import sys
import time
from array import array
from dataclasses import dataclass
from pathlib import Path

from mooncake.store import MooncakeDistributedStore

POLL_SECONDS = 0.02
ROLES = ("prefill", "decode")


class RunError(Exception):
    """The run cannot go on."""


@dataclass(frozen=True)
class Settings:
    """What the environment says."""

    master: str
    hostname: str
    metadata: str
    protocol: str
    device: str
    length: int
    count: int
    segment_bytes: int
    buffer_bytes: int
    run: str
    wait_seconds: float

    @staticmethod
    def from_environment() -> Settings:
        length, count = number("VALUE_LENGTH", 1 << 20), number("MAX_REQUESTS", 1000)
        return Settings(
            master=os.environ.get("MASTER_SERVER", "127.0.0.1:50051"),
            hostname=os.environ.get("LOCAL_HOSTNAME", "localhost"),
            metadata=os.environ.get("METADATA_ADDR", "P2PHANDSHAKE"),
            protocol=os.environ.get("PROTOCOL", "tcp"),
            device=os.environ.get("DEVICE_NAME", ""),
            length=length,
            count=count,
            # Room for all objects, and some more.
            segment_bytes=number("SEGMENT_SIZE", max(64 << 20, length * count * 5 // 4)),
            buffer_bytes=number("BUFFER_SIZE", max(64 << 20, 8 * length)),
            run=os.environ.get("RUN", "1"),
            wait_seconds=float(number("WAIT_SECONDS", 600)),
        )

    def key(self, index: int) -> str:
        return f"stress/{self.run}/{index}"

    @property
    def done_key(self) -> str:
        """The key under which decode says that it has finished."""
        return f"stress/{self.run}/done"


def number(name: str, default: int) -> int:
    text = os.environ.get(name, str(default))
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise RunError(f"{name} is {text!r}; it must be a number above zero")
    return int(text)


class Values:
    """The bytes of each object, which follow from its key and the offset."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.counters = int.from_bytes(array("Q", range(length // 8 + 1)).tobytes()[:length], "big")

    def of(self, key: str) -> bytes:
        digest = hashlib.sha256(key.encode()).digest()
        repeated = int.from_bytes((digest * (self.length // len(digest) + 1))[: self.length], "big")
        return (repeated ^ self.counters).to_bytes(self.length, "big")


def opened(settings: Settings, segment_bytes: int) -> MooncakeDistributedStore:
    store = MooncakeDistributedStore()
    code = store.setup(
        settings.hostname,
        settings.metadata,
        segment_bytes,
        settings.buffer_bytes,
        settings.protocol,
        settings.device,
        settings.master,
    )
    if code != 0:
        raise RunError(f"the store does not start: setup returned {code}")
    return store


def report(role: str, what: str, settings: Settings, seconds: list[float]) -> None:
    total, ranked = sum(seconds), sorted(seconds)
    at = [1e3 * ranked[min(len(ranked) - 1, len(ranked) * share // 100)] for share in (50, 99)]
    speed = settings.length * len(seconds) / total / (1 << 20)
    print(
        f"{role}: {what} {len(seconds)} objects of {settings.length} bytes in {total:.2f} s: {speed:.0f} MiB/s, "
        f"p50 {at[0]:.2f} ms, p99 {at[1]:.2f} ms",
        flush=True,
    )


def await_key(store: MooncakeDistributedStore, key: str, until: float) -> None:
    while store.is_exist(key) != 1:
        if time.monotonic() > until:
            raise RunError(f"{key} was not put in time: is the other role running?")
        time.sleep(POLL_SECONDS)


def prefill(settings: Settings) -> None:
    """Puts all objects, and keeps them until decode has got them."""
    store, values, seconds = opened(settings, settings.segment_bytes), Values(settings.length), []
    for index in range(settings.count):
        key = settings.key(index)
        value = values.of(key)
        begun = time.perf_counter()
        code = store.put(key, value)
        seconds.append(time.perf_counter() - begun)
        if code != 0:
            raise RunError(f"the put of {key} returned {code}")
    report("prefill", "put", settings, seconds)
    await_key(store, settings.done_key, time.monotonic() + settings.wait_seconds)
    store.close()


def decode(settings: Settings) -> None:
    """Gets all objects as they appear, and checks every byte."""
    # The first object may be there long before the last, so the time runs anew for each.
    store, values, seconds, wrong = opened(settings, 0), Values(settings.length), [], []
    for index in range(settings.count):
        key = settings.key(index)
        await_key(store, key, time.monotonic() + settings.wait_seconds)
        begun = time.perf_counter()
        value = store.get(key)
        seconds.append(time.perf_counter() - begun)
        if value != values.of(key):
            wrong.append(key)
    report("decode", "got", settings, seconds)
    code = store.put(settings.done_key, b"done")
    store.close()
    if wrong:
        raise RunError(f"{len(wrong)} objects do not have the bytes that were put, {wrong[0]} first")
    if code != 0:
        raise RunError(f"the put of {settings.done_key} returned {code}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def both() -> None:
    """Runs both roles on this host, with a master of their own unless MASTER_SERVER names one."""
    children: list[subprocess.Popen[bytes]] = []
    environment = dict(os.environ)
    try:
        if "MASTER_SERVER" not in environment:
            command = shutil.which("mooncake_master", path=str(Path(sys.executable).parent)) or "mooncake_master"
            port = free_port()
            environment["MASTER_SERVER"] = f"127.0.0.1:{port}"
            flags = [f"--rpc_port={port}", "--rpc_address=127.0.0.1", "--metrics_port=0", "--metrics_host=127.0.0.1"]
            children.append(subprocess.Popen([command, *flags, "--state_dir=none"]))
        roles = [subprocess.Popen([sys.executable, __file__], env={**environment, "ROLE": role}) for role in ROLES]
        children += roles
        # Decode ends first, and prefill after it. A role that fails leaves the other waiting.
        failed = False
        while not failed and any(role.poll() is None for role in roles):
            failed = any(role.poll() not in (None, 0) for role in roles)
            time.sleep(POLL_SECONDS)
        if failed or any(role.returncode != 0 for role in roles):
            raise RunError("one of the roles has failed")
    finally:
        for child in reversed(children):
            child.terminate()
            child.wait()
    print("every byte was right", flush=True)


def main() -> int:
    role = os.environ.get("ROLE", "")
    try:
        if role == "":
            both()
        elif role in ROLES:
            {"prefill": prefill, "decode": decode}[role](Settings.from_environment())
        else:
            raise RunError(f"ROLE is {role!r}; it must be prefill or decode, or absent for both")
    except RunError as failure:
        print(f"{role or 'stress_cluster_benchmark'}: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
