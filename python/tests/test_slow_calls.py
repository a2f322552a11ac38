"""Slow and failed calls: where their time went, and the id by which all logs name them."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping

from cluster import MIB, Cluster

SETUP = """
import os, sys
from mooncake.store import MooncakeDistributedStore
store = MooncakeDistributedStore()
config = {"local_hostname": "127.0.0.1", "global_segment_size": "0", "slow_call_ms": sys.argv[2]}
assert store.setup({**config, "metadata_server": "P2PHANDSHAKE", "master_server_addr": sys.argv[1]}) == 0
"""


def run(cluster: Cluster, slow_ms: int, program: str, env: Mapping[str, str] | None = None) -> str:
    """Runs Python code with a store whose calls are slow from so many milliseconds on. Returns its log."""
    command = ["env", *(f"{name}={value}" for name, value in (env or {}).items())]
    command += [sys.executable, "-c", SETUP + program, cluster.master_address, str(slow_ms)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr


def fields(log: str, message: str, **wanted: str) -> dict[str, str]:
    """The fields of the only line with this message, and with the wanted fields."""
    found = []
    for line in log.splitlines():
        if message in line:
            values = {name: value.strip('"') for name, value in re.findall(r'(\w+)=("[^"]*"|\S+)', line)}
            if wanted.items() <= values.items():
                found.append(values)
    assert len(found) == 1, log
    return found[0]


FILL = f"""
keys = [f"k{{number}}" for number in range(16)]
assert store.put_batch(keys, [bytes({MIB})] * 16) == 0
assert all(store.get_batch(keys))
assert store.put("new", bytes({MIB})) == 0
"""


def test_a_put_that_waits_for_room_says_so_and_the_master_names_it_too() -> None:
    with Cluster("--default_kv_lease_ttl=1000", "--log_level=debug") as cluster:
        cluster.start_node(16 * MIB)
        log = run(cluster, 200, FILL, {"MOONCAKE_PUT_WAIT_MS": "20000"})
        slow = fields(log, "a call was slow", call="put")
        assert int(slow["room_ms"]) >= 100, slow
        assert int(slow["room_ms"]) <= int(slow["took_ms"]), slow
        assert int(slow["master_requests"]) >= 3, slow
        refused = cluster.master.output().splitlines()
        refused = [line for line in refused if "a request was refused" in line and f"request={slow['request']}" in line]
        assert refused, cluster.master.output()
        assert all('call="put_start"' in line for line in refused)


def test_a_slow_transfer_names_the_node_and_the_node_names_the_call() -> None:
    with Cluster() as cluster:
        node = cluster.start_node(128 * MIB, "--slow_call_ms=1")
        program = f'assert store.put("k", bytes({64 * MIB})) == 0'
        slow = fields(run(cluster, 1, program, {"MOONCAKE_TRANSPORTS": "tcp"}), "a call was slow")
        assert (slow["call"], slow["items"], slow["bytes"]) == ("put", "1", str(64 * MIB))
        assert 1 <= int(slow["tcp_ms"]) <= int(slow["took_ms"]), slow
        assert slow["slowest_peer"] in cluster.segments()
        served = fields(node.output(), "this node was slow to serve a request", call="write")
        assert served["request"] == slow["request"]


def test_a_call_that_waits_for_the_master_says_so() -> None:
    with Cluster() as cluster:
        paused = f"""
import signal, threading
os.kill({cluster.master.pid}, signal.SIGSTOP)
threading.Timer(0.4, os.kill, [{cluster.master.pid}, signal.SIGCONT]).start()
assert store.is_exist("k") == 0
"""
        slow = fields(run(cluster, 100, paused), "a call was slow", call="exist")
        assert int(slow["master_ms"]) >= 100, slow


def test_no_call_is_slow_if_the_limit_is_zero() -> None:
    with Cluster("--slow_call_ms=0") as cluster:
        node = cluster.start_node(128 * MIB, "--slow_call_ms=0")
        program = f'assert store.put("k", bytes({64 * MIB})) == 0'
        log = run(cluster, 0, program, {"MOONCAKE_TRANSPORTS": "tcp"})
        assert "slow" not in log + node.output() + cluster.master.output()


def test_a_failure_that_the_caller_does_not_see_names_its_call() -> None:
    with Cluster() as cluster:
        program = f"""
import signal
os.kill({cluster.master.pid}, signal.SIGKILL)
assert store.get("k") == b""
"""
        failed = fields(run(cluster, 0, program), 'get: "k": ')
        assert re.fullmatch("[0-9a-f]{12}", failed["request"])


def test_a_limit_that_is_no_number_is_refused() -> None:
    with Cluster() as cluster:
        program = """
other = MooncakeDistributedStore()
wrong = {"local_hostname": "localhost", "metadata_server": "P2PHANDSHAKE", "slow_call_ms": "soon"}
assert other.setup({**wrong, "master_server_addr": sys.argv[1]}) == -600
"""
        assert "slow_call_ms is not a whole number of milliseconds" in run(cluster, 0, program)
