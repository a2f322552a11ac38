"""The commands, environments and probes of deployments that others publish for the C++ package, as pods.

They are those of RBG in API v1alpha2, of RBG's production example, of llm-d's kustomizations, and of the Foretoken
operator. Only sizes and folders are smaller here, and no engine runs a model.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from cluster import wait_until
from namespaces import WireError
from pods import FIRST_IP, OBJECTS, Engine, Pod, Pods, Role

# For a machine that runs tests.
SEGMENT = "64MB"
POD_IP = {"POD_IP": ""}


def exec_form(*words: str) -> str:
    """A command that Kubernetes starts without a shell."""
    return "exec " + " ".join(words)


@dataclass(frozen=True)
class Deployment:
    """A master, its nodes, and the environment of engines. The files have the names that commands use."""

    host: str
    master: Role
    nodes: Role
    engine: dict[str, str]
    # Commands that probe the master, and then a node, from inside of their containers.
    master_probe: str = ""
    node_probe: str = ""
    files: dict[str, str] = field(default_factory=dict)
    http_probe: str = "/health"


RBG = Deployment(
    host="s-mooncake-service-mooncake-master",
    master=Role(
        "mooncake-master",
        1,
        POD_IP,
        exec_form(
            "mooncake_master --rpc_address $(POD_IP) --rpc_port 50051 --http_metadata_server_host $(POD_IP)",
            "--http_metadata_server_port 8080 --enable_http_metadata_server --metrics_port 9003",
        ),
        8080,
        [],
    ),
    nodes=Role(
        "mooncake-store",
        3,
        {
            **POD_IP,
            "MOONCAKE_MASTER": "s-mooncake-service-mooncake-master:50051",
            "MOONCAKE_TE_META_DATA_SERVER": "http://s-mooncake-service-mooncake-master:8080/metadata",
            "MOONCAKE_GLOBAL_SEGMENT_SIZE": "10gb",
            "MOONCAKE_LOCAL_BUFFER_SIZE": "0",
            "MOONCAKE_PROTOCOL": "tcp",
        },
        exec_form("python3 -m mooncake.mooncake_store_service --port 8088"),
        8088,
        [],
    ),
    engine={
        "MOONCAKE_MASTER": "s-mooncake-service-mooncake-master:50051",
        "MOONCAKE_TE_META_DATA_SERVER": "http://s-mooncake-service-mooncake-master:8080/metadata",
        "MOONCAKE_PROTOCOL": "tcp",
        "MOONCAKE_GLOBAL_SEGMENT_SIZE": "0",
        "MOONCAKE_LOCAL_BUFFER_SIZE": "67108864",
    },
)

RBG_PRODUCTION = Deployment(
    host="s-qwen3-0-master",
    master=Role(
        "master",
        1,
        {**POD_IP, "NVIDIA_VISIBLE_DEVICES": "void"},
        "ulimit -n 1024\nmooncake_master --rpc_address=$(POD_IP) --rpc_port=50051"
        " --eviction_high_watermark_ratio=0.9 --default_kv_lease_ttl=10000\n",
        50051,
        [],
    ),
    nodes=Role(
        "store-1000gb",
        2,
        {
            "MOONCAKE_LOCAL_HOSTNAME": "$(POD_IP)",
            "MOONCAKE_MASTER": "s-qwen3-0-master:50051",
            "MOONCAKE_TE_META_DATA_SERVER": "P2PHANDSHAKE",
            "MOONCAKE_GLOBAL_SEGMENT_SIZE": "1000gb",
            "MOONCAKE_LOCAL_BUFFER_SIZE": "67108864",
            "MOONCAKE_PROTOCOL": "rdma",
            "MOONCAKE_DEVICE": "mlx5_0,mlx5_1",
            "MC_ENABLE_DEST_DEVICE_AFFINITY": "1",
            "MOONCAKE_ENABLE_CLIENT_HTTP_SERVER": "true",
            "MOONCAKE_CLIENT_HTTP_PORT": "9300",
        },
        exec_form("python3 -m mooncake.mooncake_store_service --port=8099"),
        8099,
        [],
    ),
    engine={
        "MOONCAKE_LOCAL_HOSTNAME": "$(POD_IP)",
        "MOONCAKE_TE_META_DATA_SERVER": "P2PHANDSHAKE",
        "MOONCAKE_MASTER": "s-qwen3-0-master:50051",
        "MOONCAKE_PROTOCOL": "rdma",
        "MOONCAKE_DEVICE": "mlx5_0,mlx5_1",
        "MOONCAKE_GLOBAL_SEGMENT_SIZE": "0",
        "MC_TE_METRIC": "true",
    },
    master_probe="pgrep -x mooncake_master >/dev/null",
    node_probe="exec 3<>/dev/tcp/127.0.0.1/8099 && exec 4<>/dev/tcp/127.0.0.1/9300",
)

# The settings of the file that llm-d's ConfigMap holds.
LLM_D_MASTER = {
    "rpc_port": 50051,
    "rpc_thread_num": 4,
    "rpc_address": "0.0.0.0",
    "rpc_conn_timeout_seconds": 0,
    "rpc_enable_tcp_no_delay": True,
    "enable_metric_reporting": True,
    "metrics_port": 9003,
    "enable_http_metadata_server": True,
    "http_metadata_server_host": "0.0.0.0",
    "http_metadata_server_port": 8080,
    "default_kv_lease_ttl": 5000,
    "default_kv_soft_pin_ttl": 1800000,
    "allow_evict_soft_pinned_objects": True,
    "eviction_ratio": 0.2,
    "eviction_high_watermark_ratio": 0.7,
    "memory_allocator": "offset",
    "allocation_strategy": "random",
    "cluster_id": "mooncake_cluster",
    "root_fs_dir": "/data/mooncake-offload",
    "enable_snapshot": True,
    "enable_snapshot_restore": True,
    "snapshot_interval_seconds": 60,
    "snapshot_retention_count": 3,
    "snapshot_object_store_type": "local",
}
LLM_D = Deployment(
    host="mooncake-master-store.mooncake.svc.cluster.local",
    master=Role(
        "mooncake-master-store",
        1,
        {"MOONCAKE_SNAPSHOT_LOCAL_PATH": "/data/snapshots"},
        exec_form("mooncake_master --config_path=/etc/mooncake/master.yaml --enable_offload"),
        50051,
        [],
    ),
    nodes=Role(
        "mooncake-client",
        2,
        {
            **POD_IP,
            "MOONCAKE_OFFLOAD_FILE_STORAGE_PATH": "/data/mooncake-offload",
            "MOONCAKE_OFFLOAD_STORAGE_BACKEND_DESCRIPTOR": "bucket_storage_backend",
            "MOONCAKE_OFFLOAD_TOTAL_SIZE_LIMIT_BYTES": "1099511627776",
        },
        exec_form(
            "mooncake_client --master_server_address=mooncake-master-store.mooncake.svc.cluster.local:50051",
            "--host=$(POD_IP) --port=50052 --protocol=rdma --global_segment_size=80GB --enable_offload=true",
            "--metadata_server=P2PHANDSHAKE",
        ),
        50052,
        [],
    ),
    # vLLM reads a file of its own, and calls `setup` with these.
    engine={
        "MOONCAKE_LOCAL_HOSTNAME": "$(POD_IP)",
        "MOONCAKE_TE_META_DATA_SERVER": "P2PHANDSHAKE",
        "MOONCAKE_MASTER": "mooncake-master-store.mooncake.svc.cluster.local:50051",
        "MOONCAKE_GLOBAL_SEGMENT_SIZE": "0",
        "MOONCAKE_LOCAL_BUFFER_SIZE": "67108864B",
        "MOONCAKE_PROTOCOL": "rdma",
        "PYTHONHASHSEED": "42",
    },
    files={"/etc/mooncake/master.yaml": json.dumps(LLM_D_MASTER)},
)

FORETOKEN = replace(
    LLM_D,
    files={
        "/etc/mooncake/master.yaml": "\n".join(
            f"{name}: {json.dumps(LLM_D_MASTER[name])}"
            for name in LLM_D_MASTER
            if not name.startswith(("default_", "evict", "allo", "memory", "rpc_c", "rpc_e", "rpc_t"))
        ).replace("snapshot_interval_seconds: 60", "snapshot_interval_seconds: 300"),
    },
    http_probe="/kv_events/status",
)

DEPLOYMENTS = {"rbg": RBG, "rbg production": RBG_PRODUCTION, "llm-d": LLM_D, "foretoken": FORETOKEN}


class World:
    """The pods of a deployment, with its files in a folder of the test."""

    def __init__(self, deployment: Deployment, folder: Path) -> None:
        self.deployment, self.folder = deployment, folder
        hosts = folder / "hosts"
        hosts.write_text(f"127.0.0.1 localhost\n{FIRST_IP} {deployment.host}\n")
        for name, text in deployment.files.items():
            path = Path(self.here(name))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self.here(text))
        self.pods = Pods(hosts)
        self.started: list[Pod | Engine] = []

    def here(self, text: str) -> str:
        """The text with folders of the test in place of those of the deployment, and smaller segments."""
        for folder in ("/etc/mooncake", "/data/"):
            text = text.replace(folder, f"{self.folder}{folder}")
        for size in ("80GB", "1000gb", "10gb"):
            text = text.replace(size, SEGMENT)
        return text.replace("1099511627776", "67108864")

    def role(self, role: Role) -> Role:
        env = {name: self.here(value) for name, value in role.env.items()}
        return replace(role, env=env, command=self.here(role.command))

    def pod(self, role: Role, **folders: str) -> Pod:
        pod = Pod(self.pods, self.role(role), **folders)
        self.started.append(pod)
        return pod

    def engine(self) -> Engine:
        engine = Engine(self.pods, self.role(Role("engine", 1, self.deployment.engine, "", None, [])))
        self.started.append(engine)
        return engine

    def close(self) -> None:
        for process in reversed(self.started):
            process.kill()
        self.pods.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Callable[[Deployment], World]]:
    made: list[World] = []

    def make(deployment: Deployment) -> World:
        try:
            made.append(World(deployment, tmp_path))
        except WireError as error:
            pytest.fail(str(error))
        return made[-1]

    try:
        yield make
    except BaseException:
        for process in made[-1].started:
            print(f"--- {process.output()}" if isinstance(process, Pod) else "--- engine")
        raise
    finally:
        for each in made:
            each.close()


def succeeds_inside(pod: Pod, command: str) -> bool:
    (first,) = Path(f"/proc/{pod.pid}/task/{pod.pid}/children").read_text().split()
    enter = ["nsenter", "--target", first, "--pid", "--mount", "--net", "bash", "-c", command]
    return subprocess.run(enter, capture_output=True, timeout=20).returncode == 0


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_a_deployment_of_the_cpp_package_runs_as_it_is(name: str, world: Callable[[Deployment], World]) -> None:
    deployment = DEPLOYMENTS[name]
    here = world(deployment)
    # A pod is ready once its own probe has succeeded.
    master = here.pod(deployment.master)
    assert here.pods.http(f"{master.address}:9003", deployment.http_probe)
    nodes = []
    for number in range(deployment.nodes.replicas):
        folder = here.folder / f"data/node-{number}"
        folder.mkdir(parents=True)
        has_disk = "MOONCAKE_OFFLOAD_FILE_STORAGE_PATH" in deployment.nodes.env
        folders = {"MOONCAKE_OFFLOAD_FILE_STORAGE_PATH": str(folder)} if has_disk else {}
        nodes.append(here.pod(deployment.nodes, **folders))
    for probe, pods in ((deployment.master_probe, [master]), (deployment.node_probe, nodes)):
        for pod in pods if probe else []:
            assert succeeds_inside(pod, probe), probe

    def segments() -> list[str]:
        return here.pods.http(f"{master.address}:9003", "/get_all_segments").split()

    wait_until(lambda: len(segments()) >= len(nodes), 20, "all nodes lend memory")
    engine = here.engine()
    assert engine.ask("put") == [0] * OBJECTS
    assert engine.ask("get") == [True] * OBJECTS
    assert nodes[0].delete() == 0
    assert engine.ask("get") == [True] * OBJECTS


def test_two_masters_of_the_foretoken_operator_are_elected_by_etcd(
    world: Callable[[Deployment], World], tmp_path: Path
) -> None:
    """They are started as its StatefulSet does, with an operation log that there is no need of here."""
    here = world(FORETOKEN)
    urls = "--listen-client-urls=http://$(POD_IP):2379 --advertise-client-urls=http://$(POD_IP):2379"
    etcd = here.pod(Role("etcd", 1, POD_IP, exec_form("etcd", f"--data-dir={tmp_path / 'etcd'}", urls), 2379, []))
    command = exec_form(
        "mooncake_master --enable_ha=true --ha_backend_type=etcd",
        f"--ha_backend_connstring={etcd.address}:2379 --enable_oplog=true --rpc_address=$(POD_IP)",
    )
    masters = [here.pod(Role("master", 2, POD_IP, command, 9003, [])) for _ in range(2)]

    def roles() -> list[str]:
        return sorted(here.pods.http(f"{master.address}:9003", "/role") for master in masters)

    wait_until(lambda: roles() == ["leader", "standby"], 20, "one of two leads")
    for master in masters:
        assert here.pods.http(f"{master.address}:9003", "/kv_events/status")
