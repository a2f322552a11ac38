"""Pods of Kubernetes, each a network namespace with its own address behind a bridge, with a process as PID 1.

They need network namespaces with a bridge: root, or a kernel that permits user namespaces to every user.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from cluster import COMMANDS, Process
from namespaces import Namespaces, run

NODE_IP = "10.244.0.1"
# The address of the pod that is made first.
FIRST_IP = "10.244.0.11"
OBJECTS = 100


@dataclass(frozen=True)
class Role:
    """The pods of one role, as a manifest describes them."""

    name: str
    replicas: int
    env: dict[str, str]
    command: str
    # None if the role has no probe.
    port: int | None
    pre_stop: list[str]


class Pods(Namespaces):
    """A bridge, and a namespace behind it for each pod."""

    def __init__(self, hosts: Path) -> None:
        super().__init__()
        self.hosts, self.pods = hosts, 0
        try:
            self.node = self.namespace()
            run([*self.node, "ip", "link", "add", "bridge", "type", "bridge"])
            run([*self.node, "ip", "address", "add", f"{NODE_IP}/24", "dev", "bridge"])
            for name in ("lo", "bridge"):
                run([*self.node, "ip", "link", "set", name, "up"])
        except BaseException:
            self.close()
            raise

    def pod(self) -> tuple[tuple[str, ...], str]:
        """The command that enters a new pod, and the pod's address."""
        self.pods += 1
        enter, link = self.namespace(self.hosts), f"pod{self.pods}"
        address = f"10.244.0.{10 + self.pods}"
        self.cable(self.node, link, self.processes[-1].pid, "eth0")
        run([*self.node, "ip", "link", "set", link, "master", "bridge", "up"])
        run([*enter, "ip", "address", "add", f"{address}/24", "dev", "eth0"])
        for name in ("lo", "eth0"):
            run([*enter, "ip", "link", "set", name, "up"])
        return enter, address

    def listens(self, address: str, port: int) -> bool:
        """Whether a probe from the node's agent succeeds."""
        code = f"import socket; socket.create_connection(({address!r}, {port}), 2)"
        probed = subprocess.run([*self.node, sys.executable, "-c", code], capture_output=True, timeout=20)
        return probed.returncode == 0

    def http(self, address: str, path: str) -> str:
        code = f"import urllib.request as r; print(r.urlopen('http://{address}{path}', timeout=5).read().decode())"
        asked = subprocess.run([*self.node, sys.executable, "-c", code], capture_output=True, text=True, timeout=20)
        assert asked.returncode == 0, asked.stderr
        return asked.stdout.strip()


def variables(role: Role, address: str, **env: str) -> dict[str, str]:
    """The environment of a container. The field `status.podIP` is written as an empty `POD_IP`, or as `$(POD_IP)`."""
    found = {**role.env, **env}
    if "POD_IP" in found:
        found["POD_IP"] = address
    return {name: value.replace("$(POD_IP)", address) for name, value in found.items()}


def environment(given: dict[str, str]) -> list[str]:
    """A command prefix that sets these variables and unsets all others of the store."""
    unset = [word for name in os.environ if name.startswith(("MOONCAKE_", "MC_")) for word in ("-u", name)]
    path = f"PATH={COMMANDS}:{os.environ['PATH']}"
    return ["env", *unset, path, *(f"{name}={value}" for name, value in given.items())]


class Pod(Process):
    """A role's command as the first process of a pod. A first process ignores signals that it has no handler for."""

    def __init__(self, pods: Pods, role: Role, **env: str) -> None:
        enter, self.address = pods.pod()
        self.given = given = variables(role, self.address, **env)
        # Kubernetes expands variables that a command names.
        line = re.sub(r"\$\((\w+)\)", lambda found: given[found[1]], role.command)
        nsenter = shutil.which(enter[0])
        assert nsenter is not None
        first = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
        super().__init__(nsenter, *enter[1:], *environment(given), *first, "sh", "-c", line)
        self.pre_stop = role.pre_stop
        port = role.port
        assert port is not None
        self.wait_ready(lambda: pods.listens(self.address, port))

    def delete(self) -> int:
        """Ends the pod as Kubernetes does, and returns the exit status."""
        (first,) = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        if self.pre_stop:
            enter = ["nsenter", "--target", first, "--pid", "--mount", "--net"]
            run([*enter, *environment(self.given), *self.pre_stop])
        os.kill(int(first), signal.SIGTERM)
        return self.process.wait(60)


class Engine:
    """A program with the environment of a role. It puts and gets on command."""

    def __init__(self, pods: Pods, role: Role) -> None:
        enter, address = pods.pod()
        command = [*enter, *environment(variables(role, address)), sys.executable, "-c", ENGINE]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, what: str) -> list[object]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{what} {OBJECTS}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, "the engine ended"
        answer: list[object] = json.loads(line)
        return answer

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


ENGINE = """
import hashlib, json, sys
from mooncake.mooncake_config import MooncakeConfig
from mooncake.store import MooncakeDistributedStore

config, store = MooncakeConfig.load_from_env(), MooncakeDistributedStore()
code = store.setup(config.local_hostname, config.metadata_server, config.global_segment_size, config.local_buffer_size,
                   config.protocol, config.device_name or "", config.master_server_address)
assert code == 0, code
content = lambda n: hashlib.shake_128(f"object-{n}".encode()).digest((n + 1) * 4096)
for line in sys.stdin:
    what, count = line.split()
    if what == "put":
        codes = [store.put(f"object-{n}", content(n)) for n in range(int(count))]
        print(json.dumps(codes), flush=True)
    else:
        right = [bytes(store.get(f"object-{n}")) == content(n) for n in range(int(count))]
        print(json.dumps(right), flush=True)
"""
