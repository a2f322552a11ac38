"""A process with its output in a file, a limit for every wait, and an end for its whole process group."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

STOP_SECONDS = 20.0


def free_port() -> int:
    """A port of 127.0.0.1 that is free now, outside of the range that the system assigns by itself."""
    while True:
        port = random.randint(20_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def wait_until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Polls until the condition holds. Raises TimeoutError with `what` if it does not within `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:.0f} s: {what}")
        time.sleep(0.05)


def end_on_sigterm() -> None:
    """Makes SIGTERM raise SystemExit, so that every `with` block stops the processes that it started."""

    def leave(*_: object) -> None:
        raise SystemExit(128 + signal.SIGTERM)

    signal.signal(signal.SIGTERM, leave)


class EngineProcess:
    """A command in a session of its own, so that its children can be ended with it."""

    def __init__(self, command: Sequence[str], log: Path, env: dict[str, str] | None = None) -> None:
        self.name = Path(command[0]).name
        self.log = log
        with log.open("w") as output:
            self.process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(env or {})},
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    def cpu_seconds(self) -> float:
        """The processor time of the living processes in its session so far, in seconds."""
        ticks = 0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            # A process may end while its file is read.
            with contextlib.suppress(OSError):
                # The fields after the name, which is in brackets: state, parent, group, session, ...
                fields = stat.read_text().rpartition(")")[2].split()
                if int(fields[3]) == self.pid:
                    ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def ended(self) -> bool:
        return self.process.poll() is not None

    def wait_ready(self, ready: Callable[[], bool], seconds: float) -> None:
        """Waits until `ready` returns true. Raises RuntimeError if the process ends first, and TimeoutError after
        `seconds`.
        """

        def is_ready() -> bool:
            if self.ended():
                raise RuntimeError(f"{self.name} ended with status {self.process.returncode}, see {self.log}")
            return ready()

        wait_until(is_ready, seconds, f"{self.name} is ready, see {self.log}")

    def wait(self, seconds: float) -> int:
        """The exit status. Raises TimeoutError after `seconds`, and leaves the process running."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"{self.name} ran longer than {seconds:.0f} s, see {self.log}") from None

    def kill(self) -> None:
        """Sends SIGKILL to the whole group."""
        self._signal(signal.SIGKILL)
        self.process.wait(STOP_SECONDS)

    def stop(self, patience_seconds: float = STOP_SECONDS) -> None:
        """Sends SIGTERM to the command, then SIGKILL to what is left of its group."""
        if not self.ended():
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(patience_seconds)
        self.kill()

    def _signal(self, number: int) -> None:
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            return
