"""Network namespaces that end with the program, however it ends.

They belong to processes that wait for the end of a pipe. Nothing has a name that could be left behind. As root, only
network namespaces are made. Other users also get a user namespace, if the kernel allows it.
"""

import os
import pathlib
import shutil
import subprocess
from types import TracebackType
from typing import Any, TypeVar

TOOLS = ("ip", "unshare", "nsenter")
WAIT_S = 20


T = TypeVar("T", bound="Namespaces")


class WireError(Exception):
    """The link cannot be made here. The message says what is missing."""


def run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S)
    if done.returncode != 0:
        raise WireError(f"{' '.join(command)} failed: {done.stderr.strip()}")


class Namespaces:
    """The processes that hold the namespaces. Use it in a `with`, or close it."""

    def __init__(self, tools: tuple[str, ...] = TOOLS) -> None:
        if missing := [tool for tool in tools if shutil.which(tool) is None]:
            raise WireError(
                f"{', '.join(missing)} not found; on Debian and Ubuntu: apt-get install iproute2 util-linux"
            )
        self.processes: list[subprocess.Popen[str]] = []
        self.is_root = os.geteuid() == 0

    def namespace(self, hosts: pathlib.Path | None = None) -> tuple[str, ...]:
        """Makes a network namespace, and with `hosts` a mount namespace with that /etc/hosts. Returns the command that
        enters it.
        """
        mount = f"mount --bind {hosts} /etc/hosts && " if hosts else ""
        unshare = ["unshare", "--net", *(["--mount"] if hosts else [])]
        command = [*unshare, "sh", "-c", f"{mount}echo ready; exec cat >&2"]
        if not self.is_root:
            command[1:1] = ["--user", "--map-root-user"]
            if self.processes:
                command = [*self.entrance(self.processes[0].pid, ()), *unshare, *command[-3:]]
        pid = self.start(command).pid
        return self.entrance(pid, ("--net", "--mount") if hosts else ("--net",))

    def entrance(self, pid: int, kinds: tuple[str, ...]) -> tuple[str, ...]:
        command = ["nsenter", "--target", str(pid)]
        if not self.is_root:
            command += ["--user", "--preserve-credentials"]
        return (*command, *kinds)

    def start(self, command: list[str]) -> "subprocess.Popen[str]":
        """Starts a process that prints `ready` and ends when this process does."""
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

    def cable(self, enter: tuple[str, ...], name: str, peer_pid: int, peer_name: str) -> None:
        peer = ["peer", "name", peer_name, "netns", str(peer_pid)]
        run([*enter, "ip", "link", "add", name, "type", "veth", *peer])

    def close(self) -> None:
        for process in reversed(self.processes):
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe:
                    pipe.close()

    def __enter__(self: T) -> T:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()
