"""The store's REST service as a process: its start, configuration, pool and end."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import socket
import tempfile
from pathlib import Path
from typing import Any

import pytest
from cluster import MIB, Cluster, Process, free_port, wait_until
from mooncake import mooncake_store_service
from rest import OK, ask, error


def service(cluster_address: str, port: int, *flags: str, **variables: str) -> Process:
    env = {
        "MOONCAKE_MASTER": cluster_address,
        "MOONCAKE_GLOBAL_SEGMENT_SIZE": "16mb",
        "MOONCAKE_LOCAL_BUFFER_SIZE": "16mb",
        "MC_RPC_CONNECT_TIMEOUT_MS": "2000",
        **variables,
    }
    return Process(
        "python", "-m", "mooncake.mooncake_store_service", "--host=127.0.0.1", f"--port={port}", *flags, env=env
    )


def listens(port: int, host: str = "127.0.0.1") -> bool:
    try:
        socket.create_connection((host, port), timeout=5).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_service_lends_memory_serves_objects_and_leaves_the_pool(number: signal.Signals) -> None:
    port = free_port()
    with Cluster("--default_kv_lease_ttl=200") as cluster:
        process = service(cluster.master_address, port)
        process.wait_ready(lambda: listens(port))
        assert len(cluster.segments()) == 1
        assert not listens(port, "127.0.0.2")
        value = "v\u00e4lue" * 10_000
        assert ask(port, "PUT", "/api/put", {"key": "a/b", "value": value}) == OK
        assert ask(port, "PUT", "/api/put", {"key": "a/b", "value": "other"}) == OK
        assert ask(port, "GET", "/api/get/a%2Fb") == (200, value.encode())
        assert cluster.store().get("a/b") == value.encode()
        assert ask(port, "GET", "/api/exist/a%2Fb") == (200, {"exists": True})
        wait_until(lambda: ask(port, "DELETE", "/api/remove/a%2Fb") == OK, 10, "the lease ends")
        assert ask(port, "GET", "/api/get/a%2Fb") == error(404, "Key not found")
        assert ask(port, "DELETE", "/api/remove_all") == (200, {"status": "success removed 0 keys"})
        process.process.send_signal(number)
        assert process.process.wait(20) == 0, process.output()
        assert cluster.segments() == []


def test_a_service_mounts_and_unmounts_memory_and_files(cluster: Cluster) -> None:
    port, before = free_port(), len(cluster.segments())
    process = service(cluster.master_address, port)
    process.wait_ready(lambda: listens(port))

    def post(path: str, body: object) -> Any:
        status, answer = ask(port, "POST", path, body)
        assert (status, answer["status"]) == (200, "success"), answer
        return answer

    with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
        file.truncate(16 * MIB)
        allocated = post("/api/mount", {"size": 16 * MIB})
        shared = post("/api/mount_shm", {"name": Path(file.name).name, "size": 8 * MIB})
        decode = {"mode": "decode", "path": file.name, "size": 8 * MIB, "offset": 8 * MIB}
        decoding = post("/api/reconfigure", decode)
        assert allocated["allocated_size"] == 16 * MIB
        assert post("/api/reconfigure", decode) == decoding
        refusal = {"error": "Mount failed, ret=-102; keeping previous decode segments", "mode": "decode"}
        assert ask(port, "POST", "/api/reconfigure", {**decode, "offset": 0}) == (500, refusal)
        detail = json.loads(cluster.http("/get_segments_detail") or "null")
        assert len(detail["segments"]) == before + 4
        post("/api/unmount", {"segment_ids": allocated["segment_ids"]})
        post("/api/unmount_shm", {"segment_ids": shared["segment_ids"], "grace_period_seconds": 0})
        post("/api/reconfigure", {"mode": "prefill"})
        refusal = {"error": "This store lends no SSD to the pool"}
        assert ask(port, "POST", "/api/unmount_local_disk", {}) == (404, refusal)
        detail = json.loads(cluster.http("/get_segments_detail") or "null")
        assert len(detail["segments"]) == before + 1
    assert process.stop() == 0
    assert len(cluster.segments()) == before


def test_a_service_waits_for_its_master_and_settings_win_over_the_environment(tmp_path: Path) -> None:
    port, rpc_port = free_port(), free_port()
    flags = ["-D", f"master_server_address=127.0.0.1:{rpc_port}", "-Dglobal_segment_size=32mb"]
    process = service("127.0.0.1:1", port, *flags)
    wait_until(lambda: "No master listens at" in process.output(), 20, "the service waits")
    cluster = Cluster.__new__(Cluster)
    cluster.master_flags, cluster.nodes, cluster.stores = (), [process], []
    cluster.rpc_port, cluster.http_port = rpc_port, free_port()
    cluster.state = tempfile.TemporaryDirectory(prefix="mooncake-state-")
    cluster.start_master()
    with cluster:
        process.wait_ready(lambda: listens(port))
        detail = json.loads(cluster.http("/get_segments_detail") or "null")
        assert [segment["size_bytes"] for segment in detail["segments"]] == [32 * MIB]


def test_a_signal_ends_the_wait_for_a_master() -> None:
    process = service("127.0.0.1:1", free_port())
    wait_until(lambda: "No master listens at" in process.output(), 20, "the service waits")
    process.process.terminate()
    assert process.process.wait(5) == 0, process.output()


@pytest.mark.parametrize(
    ("flags", "variables", "status", "message"),
    [
        (["--max-wait-time=0.1"], {}, 1, "The store did not start: no master listens at 127.0.0.1:1"),
        ([], {"MOONCAKE_MASTER": ""}, 1, "The configuration is wrong: Neither the environment variable"),
        ([], {"MOONCAKE_LOCAL_BUFFER_SIZE": "big"}, 1, "The configuration is wrong: MOONCAKE_LOCAL_BUFFER_SIZE='big'"),
        (
            ["--config=/nowhere.json"],
            {},
            1,
            "The configuration is wrong: [Errno 2] No such file or directory: '/nowhere",
        ),
        (["-Dcolour=blue"], {}, 1, "The configuration is wrong: -D colour: no such setting"),
        (["-Dclient_http_port=x"], {}, 1, "The configuration is wrong: -D client_http_port='x'"),
        (["-Dnothing"], {}, 2, "'nothing' is not of the form key=value"),
        (["--port=none"], {}, 2, "'none' is not a port from 0 to 65535"),
        (["--drain_timeout_sec=-1"], {}, 2, "'-1' is not a whole number of seconds"),
        ([], {"MOONCAKE_DRAIN_TIMEOUT_SEC": "soon"}, 2, "'soon' is not a whole number of seconds"),
        (["--max-wait-time=nan"], {}, 2, "'nan' is not a number of seconds"),
        (["--max-wait-time=-1"], {}, 2, "'-1' is not a number of seconds"),
    ],
)
def test_a_service_that_cannot_start_says_why(
    flags: list[str], variables: dict[str, str], status: int, message: str
) -> None:
    process = service(variables.pop("MOONCAKE_MASTER", "127.0.0.1:1"), 0, *flags, **variables)
    assert process.process.wait(30) == status, process.output()
    assert message in process.output()


def test_handlers_of_signals_are_replaced_by_a_function_of_two_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    """As callers' tests do it. The signal came before the service looks for its master."""
    calls: list[str] = []

    class Service:
        config = None

        async def start_store_service(self, _: float, stopping: asyncio.Event) -> bool:
            calls.append("start")
            return not stopping.is_set()

        async def stop(self, seconds: int, told_again: asyncio.Event) -> None:
            calls.append(f"stop {seconds} {told_again.is_set()}")

    def install(_: asyncio.AbstractEventLoop, stopping: asyncio.Event) -> None:
        stopping.set()

    arguments = argparse.Namespace(config=None, define=[], max_wait_time=60, port=8080)
    monkeypatch.setattr(mooncake_store_service, "parse_arguments", lambda: arguments)
    monkeypatch.setattr(mooncake_store_service, "MooncakeStoreService", lambda *_: Service())
    monkeypatch.setattr(mooncake_store_service, "_install_shutdown_signal_handlers", install)
    assert asyncio.run(mooncake_store_service.main()) == 0
    assert calls == ["start", "stop 0 False"]


def test_settings_of_the_command_line_need_no_environment(tmp_path: Path) -> None:
    with Cluster() as cluster:
        port = free_port()
        flags = ["-D", f"master_server_address={cluster.master_address}", "-Dglobal_segment_size=32MiB"]
        process = service("", port, *flags)
        process.wait_ready(lambda: listens(port))
        detail = json.loads(cluster.http("/get_segments_detail") or "null")
        assert [segment["size_bytes"] for segment in detail["segments"]] == [32 * MIB]
        assert process.stop() == 0
        (tmp_path / "c.json").write_text('{"local_hostname": "localhost", "metadata_server": "P2PHANDSHAKE"}')
        flags = ["--config=~/c.json", *flags]
        process = service("", port, *flags, HOME=str(tmp_path))
        process.wait_ready(lambda: listens(port))
        assert process.stop() == 0


def test_a_refused_configuration_and_a_taken_port_end_the_service(cluster: Cluster) -> None:
    before = len(cluster.segments())
    refused = service(cluster.master_address, 0, "-Dlocal_buffer_size=1")
    assert refused.process.wait(30) == 1
    assert "The store did not start: setup returned -600" in refused.output()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        late = service(cluster.master_address, port)
        assert late.process.wait(30) == 1
        assert f"The REST API cannot listen on 127.0.0.1:{port}" in late.output()
    nowhere = service(cluster.master_address, 0, "--host=a..b")
    assert nowhere.process.wait(30) == 1
    assert "The REST API cannot listen on a..b:0" in nowhere.output()
    wait_until(lambda: len(cluster.segments()) == before, 10, "its segment has left the pool")
