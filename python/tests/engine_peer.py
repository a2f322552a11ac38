"""A process with a transfer engine. It reads a JSON list a line from its input, and writes a JSON value for each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from cluster import Memory
from mooncake.engine import TransferEngine

NAME = "127.0.0.1"

# Registered memory of this process.
KEPT: list[Memory] = []


class Peer:
    """The process, from the test's side. Used in a `with`."""

    def __init__(self, metadata: str = "P2PHANDSHAKE", name: str = NAME, protocol: str = "tcp", **env: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__)), metadata, name, protocol],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **env},
            text=True,
        )
        port = self.answer()
        assert port > 0, "the peer's engine could not be initialized"
        self.session = f"{NAME}:{port}" if metadata == "P2PHANDSHAKE" else name

    def answer(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def call(self, method: str, *arguments: Any) -> Any:
        """Calls a method of the peer's engine, and returns the result. Bytes travel as hexadecimal text."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([method, *arguments]) + "\n")
        self.process.stdin.flush()
        return self.answer()

    def fill(self, address: int, value: bytes) -> None:
        assert self.call("fill", address, value.hex()) == 0

    def look(self, address: int, length: int) -> bytes:
        return bytes.fromhex(self.call("look", address, length))

    def kill(self) -> None:
        """Kills the process with SIGKILL."""
        self.process.kill()
        self.process.wait(10)

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        try:
            self.process.wait(40)
        finally:
            self.process.kill()
            self.process.stdout.close()


def perform(engine: TransferEngine, method: str, arguments: list[Any]) -> Any:
    if method == "fill":
        value = bytes.fromhex(arguments[1])
        return engine.write_bytes_to_buffer(arguments[0], value, len(value))
    if method == "look":
        return engine.read_bytes_from_buffer(*arguments).hex()
    if method == "register_adjoining":
        memory, piece, count = Memory(arguments[0] * (arguments[1] + 1)), *arguments
        KEPT.append(memory)
        starts = [memory.address + piece * at for at in range(count)]
        assert engine.batch_register_memory(starts, [piece] * count) == 0
        return memory.address
    if method == "get_notifies":
        return [[notify.name, notify.msg] for notify in engine.get_notifies()]
    return getattr(engine, method)(*arguments)


def main(metadata: str, name: str, protocol: str) -> None:
    engine = TransferEngine()
    code = engine.initialize(name, metadata, protocol, "")
    print(json.dumps(engine.get_rpc_port() if code == 0 else code), flush=True)
    for line in sys.stdin:
        method, *arguments = json.loads(line)
        print(json.dumps(perform(engine, method, arguments)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
