"""The containers of `deploy/`, as Helm and the plain manifest describe them, run as pods: commands, environments,
probes, and what happens before a pod ends. Only sizes, folders and the coordinator are of the test.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster import wait_until
from namespaces import WireError
from pods import OBJECTS, Engine, Pod, Pods, Role
from test_manifests import Manifest, argument, of_chart, of_source, workloads


def address(number: int) -> str:
    """The address of the pod that is made as this one, counted from 0."""
    return f"10.244.0.{11 + number}"


class Hosts:
    """Pods that find each other by the names of this file."""

    def __init__(self, folder: Path, names: list[str]) -> None:
        self.folder = folder
        hosts = folder / "hosts"
        lines = [f"{address(number)} {name}" for number, name in enumerate(names)]
        hosts.write_text("127.0.0.1 localhost\n" + "\n".join(lines) + "\n")
        try:
            self.pods = Pods(hosts)
        except WireError as error:
            pytest.fail(str(error))
        self.started: list[Pod | Engine] = []

    def pod(self, container: dict[str, Any], replaced: dict[str, str]) -> Pod:
        """Starts a container of a manifest. It is ready once its readiness probe succeeds."""
        words = [*container["command"], *container["args"]]
        for old, new in replaced.items():
            assert any(old in word for word in words), old
            words = [word.replace(old, new) for word in words]
        env = {it["name"]: "" if it["name"] == "POD_IP" else it.get("value", "x") for it in container.get("env", [])}
        hook = container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", [])
        probe = container["readinessProbe"]["httpGet"]
        (port,) = [it["containerPort"] for it in container["ports"] if it["name"] == probe["port"]]
        quoted = " ".join(f"'{word}'" for word in words)
        # Within quotes, a shell leaves what Kubernetes expanded as it is.
        pod = Pod(self.pods, Role("", 1, env, f"exec {quoted}", port, hook))
        self.started.append(pod)
        pod.wait_ready(lambda: self.is_healthy(pod, port, probe["path"]))
        return pod

    def is_healthy(self, pod: Pod, port: int, path: str) -> bool:
        try:
            return bool(json.loads(self.pods.http(f"{pod.address}:{port}", path)))
        except AssertionError:
            return False

    def engine(self, masters: str) -> Engine:
        env = {"MOONCAKE_MASTER": masters, "MOONCAKE_GLOBAL_SEGMENT_SIZE": "0", "MOONCAKE_LOCAL_BUFFER_SIZE": "64mb"}
        engine = Engine(self.pods, Role("engine", 1, env, "", None, []))
        self.started.append(engine)
        return engine

    def close(self) -> None:
        for process in reversed(self.started):
            process.kill()
        self.pods.close()


def container(manifests: list[Manifest], command: str) -> dict[str, Any]:
    all_of_them = [it["spec"]["template"]["spec"]["containers"][0] for it in workloads(manifests)]
    (found,) = [it for it in all_of_them if it["command"] == [command]]
    return dict(found)


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[list[Hosts]]:
    made: list[Hosts] = []
    try:
        yield made
    finally:
        for each in made:
            for process in each.started:
                print(f"--- {process.output()}" if isinstance(process, Pod) else "--- engine")
            each.close()


def test_a_pool_of_the_chart_elects_a_leader_and_drains_a_node_before_its_pod_ends(
    hosts: list[Hosts], tmp_path: Path
) -> None:
    values = {
        "masters": {"replicas": 2, "coordinator": "etcd", "etcdEndpoints": ["http://etcd:2379"]},
        "nodes": {"replicas": 2, "memory": {"sizeGiB": 1}},
    }
    manifests = of_chart(values)
    masters = [f"pool-mooncake-master-{number}.pool-mooncake-masters.kv.svc" for number in range(2)]
    here = Hosts(tmp_path, ["etcd", *masters])
    hosts.append(here)
    urls = "--listen-client-urls=http://$(POD_IP):2379 --advertise-client-urls=http://$(POD_IP):2379"
    etcd = Role("etcd", 1, {"POD_IP": ""}, f"exec etcd --data-dir={tmp_path / 'etcd'} {urls}", 2379, [])
    here.started.append(Pod(here.pods, etcd))
    master = container(manifests, "mooncake_master")
    leading = [here.pod(master, {}) for _ in masters]
    assert [pod.address for pod in leading] == [address(1), address(2)]
    node = container(manifests, "mooncake_client")
    nodes = []
    for number in range(2):
        # Each pod has a /dev/shm of its own.
        memory = tmp_path / f"shm-{number}"
        memory.mkdir()
        nodes.append(here.pod(node, {"=1GB": "=64MB", "=/dev/shm": f"={memory}"}))
    engine = here.engine(argument(node, "master_server_address") or "")
    assert engine.ask("put") == [0] * OBJECTS
    assert nodes[0].delete() == 0
    assert engine.ask("get") == [True] * OBJECTS
    roles = sorted(here.pods.http(f"{pod.address}:9003", "/role") for pod in leading)
    assert roles == ["leader", "standby"]


def test_a_node_of_the_plain_manifest_hands_its_objects_over(hosts: list[Hosts], tmp_path: Path) -> None:
    manifests = of_source("plain/mooncake.yaml")
    here = Hosts(tmp_path, ["mooncake-master"])
    hosts.append(here)
    master = container(manifests, "mooncake_master")
    here.pod(master, {"/var/lib/mooncake": str(tmp_path / "state")})
    node = container(manifests, "mooncake_client")
    nodes = [here.pod(node, {"=4GB": "=64MB"}) for _ in range(2)]
    engine = here.engine(argument(node, "master_server_address") or "")
    assert engine.ask("put") == [0] * OBJECTS
    assert nodes[0].delete() == 0
    wait_until(lambda: "other nodes have" in nodes[0].output().lower(), 5, "it says what happened to its objects")
    assert engine.ask("get") == [True] * OBJECTS
