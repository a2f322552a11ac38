"""A process that holds views of objects and runs commands, and that tests pause and kill.

It reads a JSON list a line, a command and its arguments, and answers each with a JSON value.
"""

from __future__ import annotations

import json
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from cluster import pause
from mooncake.store import BufferHandle, MooncakeDistributedStore
from values import stamped, version_of

ANSWER_SECONDS = 10.0
SEGMENT = "mooncake-segment"


class Holder:
    """The process, from the test's side."""

    def __init__(self, master: str, segment_bytes: int = 0) -> None:
        command = [sys.executable, str(Path(__file__)), master, str(segment_bytes)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.answer() == "ready"

    def ask(self, *command: object) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command).encode() + b"\n")
        self.process.stdin.flush()
        return self.answer()

    def answer(self) -> Any:
        assert self.process.stdout is not None
        said, _, _ = select.select([self.process.stdout], [], [], ANSWER_SECONDS)
        assert said, f"no answer within {ANSWER_SECONDS} s"
        line = self.process.stdout.readline()
        assert line, f"it ended with {self.process.wait(ANSWER_SECONDS)}"
        return json.loads(line)

    def pause(self) -> None:
        pause(self.process.pid)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(ANSWER_SECONDS)

    def end(self) -> int:
        """Lets the process end, and returns its exit status."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(ANSWER_SECONDS)

    def segments(self) -> set[str]:
        """The inodes of the segments that the process has mapped."""
        lines = Path(f"/proc/{self.process.pid}/maps").read_text().splitlines()
        return {line.split()[4] for line in lines if SEGMENT in line}

    def __enter__(self) -> Holder:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


def is_in_place(handle: BufferHandle) -> bool:
    """Whether the bytes lie in a mapped page of a segment, and not in a copy."""
    with open("/proc/self/maps") as maps:
        for line in maps:
            start, end = (int(at, 16) for at in line.split()[0].split("-"))
            if start <= handle.ptr() < end:
                return SEGMENT in line
    return False


class Views:
    """The commands of the process."""

    def __init__(self, master: str, segment_bytes: int) -> None:
        self.store = MooncakeDistributedStore()
        self.held: dict[str, BufferHandle] = {}
        arguments = ("localhost", "P2PHANDSHAKE", segment_bytes, 16 << 20, "tcp", "", master)
        assert self.store.setup(*arguments) == 0

    def put(self, key: str, version: int, length: int) -> int:
        return self.store.put(key, stamped(key, version, length))

    def get(self, key: str) -> int | None:
        """The version under the key."""
        return version_of(key, self.store.get(key))

    def look(self, key: str) -> bool:
        """Gets the object and holds it. Returns whether the view is of the segment itself."""
        handle = self.store.get_buffer(key)
        assert handle is not None
        self.held[key] = handle
        return is_in_place(handle)

    def seen(self) -> dict[str, int | None]:
        """The version of each held object, or None where a byte is wrong."""
        return {key: version_of(key, bytes(handle)) for key, handle in self.held.items()}

    def release(self) -> int:
        count = len(self.held)
        self.held.clear()
        return count


def main(master: str, segment_bytes: int) -> None:
    views = Views(master, segment_bytes)
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        command, *arguments = json.loads(line)
        print(json.dumps(getattr(views, command)(*arguments)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
