"""The pods of docs/services.md. Each is a network namespace with its own address.

Only their names, commands and environments determine where they find each other.

The test needs network namespaces with a bridge: root, or a kernel that permits user namespaces to every user.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from cluster import COMMANDS, Process
from namespaces import Namespaces, WireError, run

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "services.md"
MASTER_NAME = "s-sglang-demo-mooncake-master"
NODE_IP = "10.244.0.1"
OBJECTS = 100
# For a machine that runs tests; the document's value is for a production machine.
SEGMENT_BYTES = str(64 << 20)


@dataclass(frozen=True)
class Role:
    """The pods of one role, as the document describes them."""

    name: str
    replicas: int
    env: dict[str, str]
    command: str
    # None if the role has no probe.
    port: int | None
    pre_stop: list[str]


def only(pattern: str, text: str) -> str:
    found = re.findall(pattern, text)
    assert len(found) == 1, (pattern, found)
    return str(found[0])


def roles() -> dict[str, Role]:
    """The roles of the document's manifest. The parser understands only its shape, not YAML in general."""
    manifest = only(r"(?s)```yaml\n(apiVersion: .*?)```", DOCUMENT.read_text())
    found = {}
    for text in re.split(r"(?m)^  - name: ", manifest)[1:]:
        name = text.split("\n", 1)[0]
        env = dict(re.findall(r'- name: (\w+)\n +value: "([^"]*)"', text))
        env.update(
            dict.fromkeys(re.findall(r"- name: (\w+)\n +valueFrom:\n +fieldRef:\n +fieldPath: status.podIP", text), "")
        )
        assert len(env) == len(re.findall(r"- name: [A-Z_]+\n", text)), f"{name}: {env}"
        command = only(r'command:\n +- sh\n +- -c\n +- "((?:[^"\\]|\\\n)*)"', text)
        ports = re.findall(r"tcpSocket:\n +port: (\d+)", text)
        hooks = re.findall(r"preStop:\n +exec:\n +command: (\[.*\])", text)
        found[name] = Role(
            name=name,
            replicas=int(only(r"replicas: (\d+)", text)),
            env=env,
            # In YAML, a backslash joins a line with the next, without its indentation.
            command=re.sub(r"\\\n *", "", command),
            port=int(ports[0]) if ports else None,
            pre_stop=json.loads(hooks[0]) if hooks else [],
        )
    return found


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
    found = {**role.env, **env}
    if "POD_IP" in found:
        found["POD_IP"] = address
    return found


def environment(given: dict[str, str]) -> list[str]:
    """A command prefix that sets these variables and unsets all others of the store."""
    unset = [word for name in os.environ if name.startswith(("MOONCAKE_", "MC_")) for word in ("-u", name)]
    path = f"PATH={COMMANDS}:{os.environ['PATH']}"
    return ["env", *unset, path, *(f"{name}={value}" for name, value in given.items())]


class Pod(Process):
    """A role's command as the first process of a pod. A first process ignores signals that it has no handler for."""

    def __init__(self, pods: Pods, role: Role, **env: str) -> None:
        enter, self.address = pods.pod()
        given = variables(role, self.address, **env)
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
            run(["nsenter", "--target", first, "--pid", "--mount", *self.pre_stop])
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


def test_the_manifest_has_the_commands_of_the_projects_that_deploy_it() -> None:
    found = roles()
    assert {name: role.replicas for name, role in found.items()} == {
        "mooncake-master": 1,
        "mooncake-store": 3,
        "sglang-backend": 1,
    }
    assert found["mooncake-master"].command == (
        "mooncake_master --rpc_address $(POD_IP) --rpc_port 50051 "
        "--http_metadata_server_host $(POD_IP) --http_metadata_server_port 8080 --metrics_port 9003"
    )
    assert found["mooncake-store"].command == "python -m mooncake.mooncake_store_service --port 8080"
    assert shlex.split(found["sglang-backend"].command)[:3] == ["python", "-m", "sglang.launch_server"]
    for name, size in (("mooncake-store", "50gb"), ("sglang-backend", "0")):
        assert found[name].env == {
            "MOONCAKE_MASTER": f"{MASTER_NAME}:50051",
            "MOONCAKE_TE_META_DATA_SERVER": f"http://{MASTER_NAME}:8080/metadata",
            "MOONCAKE_GLOBAL_SEGMENT_SIZE": size,
            "MOONCAKE_LOCAL_BUFFER_SIZE": "4194304",
            "MOONCAKE_PROTOCOL": "tcp",
            "MOONCAKE_DEVICE": "",
        }


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[Pods]:
    hosts = tmp_path / "hosts"
    # The address that the first pod will get.
    hosts.write_text(f"127.0.0.1 localhost\n::1 localhost\n10.244.0.11 {MASTER_NAME}\n")
    try:
        pods = Pods(hosts)
    except WireError as error:
        pytest.fail(f"{error}\n{__doc__}")
    with pods:
        yield pods


def test_pods_that_call_themselves_localhost_reach_each_other_and_one_goes_without_loss(pods: Pods) -> None:
    found = roles()
    started: list[Pod | Engine] = []
    try:
        master = Pod(pods, found["mooncake-master"])
        started.append(master)
        stores = []
        for _ in range(found["mooncake-store"].replicas):
            stores.append(Pod(pods, found["mooncake-store"], MOONCAKE_GLOBAL_SEGMENT_SIZE=SEGMENT_BYTES))
            started.append(stores[-1])
        assert "Master Metrics: Storage: " in master.output()
        segments = detail(pods, master)
        assert [host for host, _, _ in segments] == [store.address for store in stores]
        for (host, port, name), store in zip(segments, stores, strict=True):
            assert name == f"localhost:{port}"
            said = [line for line in store.output().splitlines() if f"{host}:{port}" in line]
            assert len(said) == 1, store.output()
            assert name in said[0], said

        engine = Engine(pods, found["sglang-backend"])
        started.append(engine)
        assert engine.ask("put") == [0] * OBJECTS
        assert engine.ask("get") == [True] * OBJECTS
        going = stores[1]
        assert going.delete() == 0
        assert "Other nodes have what lay here" in going.output()
        assert [host for host, _, _ in detail(pods, master)] == [stores[0].address, stores[2].address]
        assert engine.ask("get") == [True] * OBJECTS
    except BaseException:
        for process in started:
            print(f"--- {process.output()}" if isinstance(process, Pod) else "--- engine")
        raise
    finally:
        for process in reversed(started):
            process.kill()


def detail(pods: Pods, master: Pod) -> list[tuple[str, str, str]]:
    """Host, port and name of each segment, sorted by host."""
    segments = json.loads(pods.http(f"{master.address}:9003", "/get_segments_detail"))["segments"]
    return sorted((*segment["te_endpoint"].split(":"), segment["segment_name"]) for segment in segments)
