"""A process that puts and gets until it is killed, and reports that on its standard output.

Each line is a JSON list: event, key, version, and the seconds that the call took. `put`, `remove` and `get` come
before the call; `done`, `failed`, `hit`, `miss` and `wrong` come after it.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from mooncake.store import MooncakeDistributedStore
from values import stamped, version_of

KEYS = [f"k{i}" for i in range(24)]
LENGTHS = [8, 1000, 64 << 10, 1 << 20, 4 << 20, 4 << 20]
MISSING = -704
Said = tuple[str, str, int, float]


@dataclass(frozen=True)
class End:
    """When to kill a worker: this long after it has said `what`, once it has written enough lines."""

    what: str
    lines: int
    delay: float


class Worker:
    """The process, from the test's side."""

    def __init__(self, master: str, seed: int, first_version: int, end: End | None = None) -> None:
        arguments = [sys.executable, str(Path(__file__)), master, str(seed), str(first_version)]
        self.process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        self.said: list[Said] = []
        self.end = end
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            # The kill may cut the last line short; its event then does not count.
            if line.endswith(b"\n"):
                what, key, version, seconds = json.loads(line)
                self.said.append((what, key, version, seconds))
                if self.end and what == self.end.what and len(self.said) >= self.end.lines:
                    time.sleep(self.end.delay)
                    self.process.kill()
                    self.end = None

    def wait(self) -> list[Said]:
        """All that the worker said until its planned end."""
        assert (self.process.wait(10), self.end) == (-signal.SIGKILL, None), self.said[-3:]
        self.reader.join(10)
        return self.said

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait(10)
        self.reader.join(10)
        assert self.process.stdout is not None
        self.process.stdout.close()


def say(what: str, key: str, version: int, seconds: float = 0.0) -> None:
    """Writes the line in one call, so that a kill leaves all of it or none."""
    os.write(1, json.dumps([what, key, version, seconds]).encode() + b"\n")


def replace(store: MooncakeDistributedStore, key: str, version: int, length: int) -> None:
    value = stamped(key, version, length)
    say("remove", key, version)
    begin = time.monotonic()
    code = store.remove(key, True)
    if code not in (0, MISSING):
        return say("failed", key, version, time.monotonic() - begin)
    say("put", key, version, time.monotonic() - begin)
    begin = time.monotonic()
    code = store.put(key, value)
    return say("done" if code == 0 else "failed", key, version, time.monotonic() - begin)


def check(store: MooncakeDistributedStore, key: str) -> None:
    say("get", key, 0)
    begin = time.monotonic()
    value = store.get(key)
    seconds = time.monotonic() - begin
    version = version_of(key, value)
    if value == b"":
        say("miss", key, 0, seconds)
    elif version is None:
        say("wrong", key, len(value), seconds)
    else:
        say("hit", key, version, seconds)


def main(master: str, seed: int, version: int) -> None:
    chance, store = random.Random(seed), MooncakeDistributedStore()
    assert store.setup("localhost", "P2PHANDSHAKE", 0, 64 << 20, "tcp", "", master) == 0
    while True:
        key = chance.choice(KEYS)
        if chance.random() < 0.6:
            version += 1
            replace(store, key, version, chance.choice(LENGTHS))
        else:
            check(store, key)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
