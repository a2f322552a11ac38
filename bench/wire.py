"""A link between two network namespaces, with a rate and a delay, that is gone when the program ends, however it ends.

The namespaces belong to processes that wait for the end of a pipe; nothing has a name that could be left behind. As
root, namespaces of the network alone; otherwise also one of users, where the kernel lets everybody have one.
"""

import os
import pathlib
import shutil
import subprocess
import sys
from types import TracebackType
from typing import Any

RELAY = pathlib.Path(__file__).resolve().parent / "relay.py"
HOSTS = ("10.77.0.1", "10.77.0.2")
TOOLS = ("ip", "tc", "unshare", "nsenter")
# What may leave at once after a pause: a few packets as senders hand them on, and what a late timer has to make up for.
BURST_BYTES, BURST_S = 128 << 10, 0.004
LATENCY_MS = 50
WAIT_S = 20


class WireError(Exception):
    """The link cannot be made here; the message says what is missing."""


def run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S)
    if done.returncode != 0:
        raise WireError(f"{' '.join(command)} failed: {done.stderr.strip()}")


class Wire:
    """The link. `enter` of a side is the command that runs another one there; `delayed_by` says what delays packets."""

    def __init__(self, rate_mbit: int, delay_ms: float) -> None:
        if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
            raise WireError(
                f"{', '.join(missing)} not found; on Debian and Ubuntu: apt-get install iproute2 util-linux"
            )
        self.rate_mbit, self.delay_ms = rate_mbit, delay_ms
        self.processes: list[subprocess.Popen[str]] = []
        self.is_root = os.geteuid() == 0
        self.delayed_by = "nothing"
        try:
            self.enter = [self.namespace(), self.namespace()]
            self.lay()
        except BaseException:
            self.close()
            raise

    @property
    def bytes_per_s(self) -> float:
        return self.rate_mbit * 1e6 / 8

    def namespace(self) -> tuple[str, ...]:
        """A new namespace of the network; the command that runs another one in it."""
        command = ["unshare", "--net", "sh", "-c", "echo ready; exec cat >&2"]
        if not self.is_root:
            command[1:1] = ["--user", "--map-root-user"]
            if self.processes:
                command = [*self.entrance(self.processes[0].pid, user_only=True), "unshare", *command[3:]]
        pid = self.start(command).pid
        return self.entrance(pid)

    def entrance(self, pid: int, user_only: bool = False) -> tuple[str, ...]:
        command = ["nsenter", "--target", str(pid)]
        if not self.is_root:
            command += ["--user", "--preserve-credentials"]
        return (*command, *(() if user_only else ("--net",)))

    def start(self, command: list[str]) -> "subprocess.Popen[str]":
        """A process that says `ready` and ends when this one does."""
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process: subprocess.Popen[str] = subprocess.Popen(command, text=True, **pipes)
        self.processes.append(process)
        assert process.stdout
        assert process.stderr
        if process.stdout.readline().strip() != "ready":
            why = process.stderr.read().strip()
            who = "" if self.is_root else " Without root the kernel must allow user namespaces; try as root."
            raise WireError(f"{' '.join(command)} failed: {why}.{who}")
        return process

    def lay(self) -> None:
        """Cables, addresses, rate and delay."""
        is_direct = self.delay_ms == 0 or self.has_netem()
        if is_direct:
            self.cable(self.enter[0], "link0", self.processes[1].pid, "link0")
        else:
            middle = self.namespace()
            self.cable(middle, "left", self.processes[0].pid, "link0")
            self.cable(middle, "right", self.processes[1].pid, "link0")
            for name in ("left", "right"):
                run([*middle, "ip", "link", "set", name, "up"])
        for enter, host in zip(self.enter, HOSTS, strict=True):
            run([*enter, "ip", "address", "add", f"{host}/24", "dev", "link0"])
            for name in ("lo", "link0"):
                run([*enter, "ip", "link", "set", name, "up"])
            self.shape(enter, with_delay=is_direct and self.delay_ms > 0)
        if not is_direct:
            self.start([*middle, sys.executable, str(RELAY), "left", "right", str(self.delay_ms)])
            self.delayed_by = "a relay in user space, since this kernel has no netem"

    def cable(self, enter: tuple[str, ...], name: str, peer_pid: int, peer_name: str) -> None:
        peer = ["peer", "name", peer_name, "netns", str(peer_pid)]
        run([*enter, "ip", "link", "add", name, "type", "veth", *peer])

    def has_netem(self) -> bool:
        tried = [*self.enter[0], "tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"]
        if subprocess.run(tried, capture_output=True, timeout=WAIT_S).returncode != 0:
            return False
        run([*self.enter[0], "tc", "qdisc", "del", "dev", "lo", "root"])
        return True

    def shape(self, enter: tuple[str, ...], with_delay: bool) -> None:
        """The rate, for what leaves a side; the delay too where netem has it, each way."""
        qdisc = [*enter, "tc", "qdisc", "add", "dev", "link0"]
        burst = max(BURST_BYTES, round(self.bytes_per_s * BURST_S))
        rate = ["tbf", "rate", f"{self.rate_mbit}mbit", "burst", str(burst), "latency", f"{LATENCY_MS}ms"]
        try:
            run([*qdisc, "root", "handle", "1:", *rate])
        except WireError as error:
            raise WireError(f"{error}\nThis kernel has no tbf (CONFIG_NET_SCH_TBF), which sets the rate.") from None
        if with_delay:
            run([*qdisc, "parent", "1:1", "handle", "2:", "netem", "delay", f"{self.delay_ms}ms", "limit", "100000"])
            self.delayed_by = "netem"

    def close(self) -> None:
        for process in reversed(self.processes):
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe:
                    pipe.close()

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()
