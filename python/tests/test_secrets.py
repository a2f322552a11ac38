"""Secrets stand in no log at any level, no error, no metrics and no command line, however a process got them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import COMMANDS, Cluster, Process, free_port, wait_until
from guarded import status_of

# Each is another word, so that a test says which of them it has found.
POOL, READER, METADATA, GUESS = "pool-5ecret-a1", "reader-5ecret-b2", "metadata-5ecret-c3", "guess-5ecret-d4"
COORDINATOR, STORE_KEY = "coordinator-5ecret-e5", "store-5ecret-f6"
SECRETS = (POOL, READER, METADATA, GUESS, COORDINATOR, STORE_KEY)

# Prints what its calls return and raise, with the log at its finest.
PROGRAM = """
import json, os, sys
from mooncake.store import MooncakeDistributedStore
address, password = sys.argv[1], os.environ.pop("PASSWORD")
config = {
    "local_hostname": "127.0.0.1", "metadata_server": "P2PHANDSHAKE", "global_segment_size": "16mb",
    "local_buffer_size": "16mb", "master_server_addr": address,
}
store = MooncakeDistributedStore()
told = [store.setup(config), store.put("key", b"value"), store.get("key").decode(), repr(store), str(store)]
for wrong in (
    {**config, "master_server_addr": f"redis://:{password}@127.0.0.1:1"},
    {**config, "master_server_addr": f"etcd://user:{password}@127.0.0.1:1"},
    {**config, "protocol": "none"},
):
    try:
        other = MooncakeDistributedStore()
        told += [other.setup(wrong), repr(other)]
    except Exception as error:
        told.append(repr(error))
os.environ["MOONCAKE_AUTH_TOKEN"] = os.environ.pop("WRONG")
told.append(MooncakeDistributedStore().setup(config))
print(json.dumps(told))
"""


def command_lines(pid: int) -> str:
    """What `ps` shows of a process and of those that it has started."""
    shown = Path(f"/proc/{pid}/cmdline").read_text()
    for task in Path(f"/proc/{pid}/task").iterdir():
        shown += (task / "comm").read_text()
        shown += "".join(command_lines(int(child)) for child in (task / "children").read_text().split())
    return shown


class Evidence:
    """What was seen of a pool, by where it was seen."""

    def __init__(self) -> None:
        self.seen: dict[str, str] = {}

    def of(self, where: str, text: str) -> None:
        assert text, where
        self.seen[where] = text

    def check(self) -> None:
        found = [(where, secret) for where, text in self.seen.items() for secret in SECRETS if secret in text]
        assert found == []


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(f"{POOL}\n")
    path.chmod(0o600)
    return path


@pytest.fixture
def cluster(token_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    roles = tmp_path / "roles"
    roles.write_text(f"read {READER}\n")
    roles.chmod(0o600)
    # The tests' own requests to the admin server show no token: its health is open.
    monkeypatch.delenv("MOONCAKE_AUTH_TOKEN", raising=False)
    metadata = free_port()
    monkeypatch.setenv("MC_METADATA_HTTP_TOKEN", METADATA)
    flags = (
        f"--auth_token_file={token_file}",
        f"--auth_roles_file={roles}",
        "--log_level=trace",
        f"--http_metadata_server_port={metadata}",
        "--http_metadata_server_host=127.0.0.1",
    )
    with Cluster(*flags) as cluster:
        yield cluster


def ask(url: str, token: str) -> str:
    """Head and body of an answer, whatever its status."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=5) as reply:
            return f"{reply.headers}{reply.read().decode()}"
    except urllib.error.HTTPError as error:
        return f"{error.headers}{error.read().decode()}"


def node(cluster: Cluster, token_file: Path, port: int) -> Process:
    """A node at the finest log level, which reads its token from a file, and the keys of an object store."""
    made = Process(
        "mooncake_client",
        "--host=127.0.0.1",
        f"--master_server_address={cluster.master_address}",
        "--global_segment_size=32MB",
        f"--auth_token_file={token_file}",
        "--log_level=trace",
        "--enable_http_server",
        "--http_host=127.0.0.1",
        f"--http_port={port}",
        env={"AWS_SECRET_ACCESS_KEY": STORE_KEY},
    )
    cluster.nodes.append(made)
    made.wait_ready(lambda: "the storage node is ready" in made.output())
    return made


def rest(cluster: Cluster, port: int) -> Process:
    """A REST service, which reads its token from the environment."""
    env = {
        "MOONCAKE_MASTER": cluster.master_address,
        "MOONCAKE_GLOBAL_SEGMENT_SIZE": "16mb",
        "MOONCAKE_LOCAL_BUFFER_SIZE": "16mb",
        "MOONCAKE_AUTH_TOKEN": POOL,
        "MC_LOG_LEVEL": "trace",
    }
    flags = ("--host=127.0.0.1", f"--port={port}")
    made = Process("python", "-m", "mooncake.mooncake_store_service", *flags, env=env)
    cluster.nodes.append(made)

    def is_ready() -> bool:
        try:
            return status_of(f"127.0.0.1:{port}", "GET /health")[0] == 200
        except OSError:
            return False

    made.wait_ready(is_ready)
    return made


def test_secrets_are_seen_nowhere(cluster: Cluster, token_file: Path) -> None:
    evidence = Evidence()
    of_node, of_rest = free_port(), free_port()
    processes = {"master": cluster.master, "node": node(cluster, token_file, of_node), "rest": rest(cluster, of_rest)}
    for name, port in (("master", cluster.http_port), ("node", of_node), ("rest", of_rest)):
        for path in ("/metrics", "/metrics/summary", "/health", "/version", "/nonsense", "/api/v1/live?turns=1"):
            for token in (POOL, READER, GUESS):
                evidence.of(f"{name}{path} with {token[:6]}", ask(f"http://127.0.0.1:{port}{path}", token))
    told = subprocess.run(
        [sys.executable, "-c", PROGRAM, cluster.master_address],
        env={
            **os.environ,
            "MOONCAKE_AUTH_TOKEN": POOL,
            "WRONG": GUESS,
            "PASSWORD": COORDINATOR,
            "MC_LOG_LEVEL": "trace",
            "MC_RPC_CONNECT_TIMEOUT_MS": "300",
        },
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert told.returncode == 0, told.stderr
    results = json.loads(told.stdout)
    assert results[:3] == [0, 0, "value"], results
    assert results[-1] != 0, "a guess is no token"
    evidence.of("what calls of a client return", told.stdout)
    evidence.of("the log of a client", told.stderr)
    for token in (READER, GUESS):
        run = subprocess.run(
            [COMMANDS / "mooncake", "put", f"--master={cluster.master_address}", "key", str(token_file)],
            env={**os.environ, "MOONCAKE_AUTH_TOKEN": token, "MC_LOG_LEVEL": "trace"},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert run.returncode != 0
        evidence.of(f"a command with {token[:6]}", run.stdout + run.stderr)
    wait_until(lambda: "DEBUG" in cluster.master.output() or "TRACE" in cluster.master.output(), 20, "it logs all")
    for name, process in processes.items():
        assert process.process.poll() is None, name
        evidence.of(f"ps of {name}", command_lines(process.pid))
        evidence.of(f"the log of {name}", process.output())
    # The logs are at their finest: what peers do is in them.
    assert "connected" in evidence.seen["the log of master"]
    evidence.check()


def test_what_is_wrong_with_a_secret_is_said_without_it(cluster: Cluster, tmp_path: Path) -> None:
    evidence = Evidence()
    roles, token = tmp_path / "wrong-roles", tmp_path / "long"
    roles.write_text(f"write {READER}\n{GUESS}\n")
    token.write_text(POOL * 100)
    common = ("mooncake_client", f"--master_server_address={cluster.master_address}", "--global_segment_size=16MB")
    master = ("mooncake_master", "--rpc_port=0", "--metrics_port=0", "--state_dir=none")
    for name, command in {
        "a node with another token": (*common, "--host=127.0.0.1", f"--auth_token={GUESS}"),
        "a node with a long token": (*common, f"--auth_token_file={token}"),
        "a node with two tokens": (*common, f"--auth_token={POOL}", f"--auth_token_file={token}"),
        "a node with a wrong file of roles": (*common, f"--auth_token={POOL}", f"--auth_roles_file={roles}"),
        "a master with a wrong file of roles": (*master, f"--auth_token={POOL}", f"--auth_roles_file={roles}"),
        "a master with a wrong address": (*master, f"--auth_token={POOL}", "--rpc_address=nowhere.invalid"),
        "a master whose coordinator is away": (
            *master,
            f"--auth_token={POOL}",
            "--enable_ha",
            "--ha_backend_type=redis",
            f"--ha_backend_connstring=redis://:{COORDINATOR}@127.0.0.1:1",
            "--rpc_address=nowhere.invalid",
        ),
    }.items():
        run = subprocess.run(
            [COMMANDS / command[0], *command[1:]],
            env={**os.environ, "MC_RPC_CONNECT_TIMEOUT_MS": "300"},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert run.returncode != 0, name
        evidence.of(name, run.stdout + run.stderr)
    evidence.check()
