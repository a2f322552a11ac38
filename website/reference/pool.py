"""A small pool of installed programs, which has moved one object: to see which metrics they export."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import ExitStack
from pathlib import Path

SECONDS = 20.0
QUOTAS = "version: 1\ntenants:\n  - name: default\n    quota: 16MB\n"


def free_ports(count: int) -> list[int]:
    """Ports that are free at this moment."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for it in sockets:
            it.bind(("127.0.0.1", 0))
        return [it.getsockname()[1] for it in sockets]


def exported(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=SECONDS) as reply:
        return str(reply.read().decode())


def wait(process: subprocess.Popen[bytes], port: int) -> None:
    """Waits until the program serves its metrics."""
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            exported(port)
            return
        except (urllib.error.URLError, ConnectionError) as error:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{process.args!r} does not serve /metrics") from error
            time.sleep(0.05)


def metrics_of_a_pool(programs: Path) -> tuple[str, str]:
    """What `/metrics` of a master and of a node say."""
    rpc, admin, http = free_ports(3)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "quotas.yaml").write_text(QUOTAS)

        def start(name: str, port: int, *flags: str) -> None:
            process = subprocess.Popen([programs / name, *flags], stderr=subprocess.DEVNULL)
            stack.callback(process.wait)
            stack.callback(process.kill)
            wait(process, port)

        quotas = ("--enable_multi_tenants", f"--tenant_quota_connector_uri={folder / 'quotas.yaml'}")
        master = (f"--rpc_port={rpc}", f"--metrics_port={admin}", "--state_dir=none", "--rpc_address=127.0.0.1")
        start("mooncake_master", admin, *master, *quotas)
        node = (
            "--host=127.0.0.1",
            "--port=0",
            f"--master_server_address=127.0.0.1:{rpc}",
            "--global_segment_size=64MB",
        )
        start("mooncake_client", http, *node, "--enable_http_server", "--http_host=127.0.0.1", f"--http_port={http}")
        pool = {**os.environ, "MOONCAKE_MASTER": f"127.0.0.1:{rpc}", "MOONCAKE_MASTER_HTTP": f"127.0.0.1:{admin}"}
        for command in (["put", "key", "-"], ["get", "key", "--output", str(folder / "value")]):
            subprocess.run([programs / "mooncake", *command], env=pool, input=b"value", check=True)
        return exported(admin), exported(http)
