"""The pods of docs/rest_on_kubernetes.md. Each is a network namespace with its own address.

Only their names, commands and environments determine where they find each other.

The test needs network namespaces with a bridge: root, or a kernel that permits user namespaces to every user.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from namespaces import WireError
from pods import FIRST_IP, OBJECTS, Engine, Pod, Pods, Role

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "rest_on_kubernetes.md"
MASTER_NAME = "s-sglang-demo-mooncake-master"
# For a machine that runs tests; the document's value is for a production machine.
SEGMENT_BYTES = str(64 << 20)


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
    hosts.write_text(f"127.0.0.1 localhost\n::1 localhost\n{FIRST_IP} {MASTER_NAME}\n")
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
