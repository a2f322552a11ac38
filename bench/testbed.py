"""A master, nodes and clients of either package, which a benchmark controls. All of them end with the pool."""

import ctypes
import json
import pathlib
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, NamedTuple

import peer
from environment import VARIANTS, python_of, variables_of

HERE = pathlib.Path(__file__).resolve().parent
NOBODY: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
ANSWER_DEADLINE_S = 600
PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Makes the kernel kill this process when the benchmark has ended."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Place(NamedTuple):
    """The place of a process: its address, and, unless it is here, the command that enters the place."""

    host: str = "127.0.0.1"
    enter: tuple[str, ...] = ()


HERE_PLACE = Place()


class Answer(NamedTuple):
    """A client's answer to one command."""

    # The time of all calls together, of the median call, and of the fastest call.
    seconds: float
    p50_us: float
    best_us: float
    calls: int


class PoolError(Exception):
    """A process of the pool did not start, has ended, or has answered with an error."""


class Client:
    """A process of `load.py`."""

    def __init__(self, process: "subprocess.Popen[str]", log: Any) -> None:
        self.process = process
        self.log = log

    @property
    def pid(self) -> int:
        return self.process.pid

    def tell(self, do: str, **arguments: int) -> None:
        """Sends a command. `answer` waits for the answer."""
        assert self.process.stdin
        try:
            self.process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise PoolError(self.why(f"the client ended before {do}")) from None

    def line(self) -> str:
        assert self.process.stdout
        watchdog = threading.Timer(ANSWER_DEADLINE_S, self.process.kill)
        watchdog.start()
        try:
            for line in self.process.stdout:
                if line.startswith("RESULT "):
                    return line[7:].strip()
        finally:
            watchdog.cancel()
        raise PoolError(self.why("the client ended"))

    def why(self, what: str) -> str:
        self.log.seek(0)
        return f"{what}:\n{self.log.read()[-2000:]}"

    def answer(self) -> Answer:
        return Answer(**json.loads(self.line()))

    def ask(self, do: str, **arguments: int) -> Answer:
        self.tell(do, **arguments)
        return self.answer()


class Pool:
    """A master, its nodes and its clients. Use it in a `with`."""

    def __init__(
        self, variant: str, server: Place = HERE_PLACE, python: str | None = None, flags: Sequence[str] = ()
    ) -> None:
        """`python` is the interpreter of another environment than the variant's. `flags` are further flags of the
        master.
        """
        # A state folder of its own: a master of an earlier pool, by chance at the same port, may have left a
        # membership record.
        self.state = tempfile.TemporaryDirectory()
        self.variables, self.server = {**variables_of(variant), "XDG_STATE_HOME": self.state.name}, server
        self.python = python or str(python_of(VARIANTS[variant][1]))
        self.log = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115
        self.processes: list[subprocess.Popen[Any]] = []
        self.clients: list[Client] = []
        self.ports = [peer.free_port() for _ in range(3)]
        rpc, http, metrics = self.ports
        listen = [f"--rpc_port={rpc}", f"--http_metadata_server_port={http}", f"--metrics_port={metrics}"]
        program = str(pathlib.Path(self.python).with_name("mooncake_master"))
        command = [*server.enter, program, *listen, "--enable_http_metadata_server=true", *flags]
        self.master = self.start(command, **NOBODY)

    def start(self, command: list[str], **kwargs: Any) -> "subprocess.Popen[Any]":
        process = subprocess.Popen(command, env=self.variables, preexec_fn=die_with_parent, **kwargs)
        self.processes.append(process)
        return process

    def role(self, script: str, place: Place, *arguments: str) -> list[str]:
        rpc, http, _ = map(str, self.ports)
        where = ["--host", place.host, "--master-host", self.server.host, "--master-port", rpc, "--http-port", http]
        return [*place.enter, self.python, str(HERE / script), *arguments, *where]

    def add_node(self, segment_bytes: int) -> None:
        """Starts a node in its own process, where the master runs."""
        self.wait_for_master()
        command = self.role("peer.py", self.server, "node", "--segment", str(segment_bytes))
        process = self.start(command, stdout=subprocess.PIPE, stderr=self.log, text=True)
        peer.wait_for_node(process, self.log)

    def add_client(self, place: Place = HERE_PLACE, buffer_bytes: int = 64 << 20) -> Client:
        command = self.role("load.py", place, "--buffer-bytes", str(buffer_bytes))
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self.log, "text": True}
        client = Client(self.start(command, **pipes), self.log)
        client.line()
        self.clients.append(client)
        return client

    def wait_for_master(self) -> None:
        """Waits until the master listens. Checks that from the master's place."""
        probe = "import socket, sys; sys.exit(socket.socket().connect_ex((sys.argv[1], int(sys.argv[2]))))"
        command = [*self.server.enter, self.python, "-c", probe, self.server.host, str(self.ports[0])]
        deadline = time.monotonic() + peer.START_DEADLINE_S
        while subprocess.run(command, **NOBODY).returncode != 0:
            if self.master.poll() is not None or time.monotonic() > deadline:
                raise PoolError("the master does not listen")
            time.sleep(0.05)

    def cpu_seconds(self) -> float:
        """The CPU seconds of all processes of the pool so far, including clients."""
        return sum(float(peer.cpu_seconds(process.pid)) for process in self.processes if process.poll() is None)

    def master_cpu_seconds(self) -> float:
        """The CPU seconds of the master so far."""
        return float(peer.cpu_seconds(self.master.pid))

    def ask_all(self, do: str, arguments: list[dict[str, int]]) -> tuple[float, list[Answer]]:
        """Runs one command per client, all at once. Returns the seconds until the last answer, and the answers."""
        begin = time.monotonic()
        for client, own in zip(self.clients, arguments, strict=True):
            client.tell(do, **own)
        answers = [client.answer() for client in self.clients]
        return time.monotonic() - begin, answers

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        for client in self.clients:
            assert client.process.stdin
            client.process.stdin.close()
        peer.stop(self.processes)
        self.log.close()
        self.state.cleanup()
