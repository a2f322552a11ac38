"""A pool on free ports of 127.0.0.1: one master and its storage nodes. It stops only the processes that it started."""

from __future__ import annotations

import json
import shutil
import urllib.error
import urllib.request
from pathlib import Path

from process import EngineProcess, free_port
from store_package import OURS, Package

MIB = 1 << 20
START_SECONDS = 60.0
LOCAL_BUFFER_BYTES = 256 * MIB
# Variables that keep the store's processes and the engines on the loopback interface.
LOOPBACK = {"MC_TCP_BIND_ADDRESS": "127.0.0.1", "MOONCAKE_REQUESTER_LOCAL_HOSTNAME": "127.0.0.1"}


class Pool:
    """A pool that runs inside a `with` block. Logs go to the folder `logs`.

    With `disk`, each node also lends a folder there. Objects move to it when memory is full.
    """

    def __init__(self, logs: Path, node_bytes: list[int], package: Package = OURS, disk: bool = False) -> None:
        self.logs = logs
        self.node_bytes = node_bytes
        self.package = package
        self.disk = disk
        self.rpc_port, self.http_port = free_port(), free_port()
        self.nodes: list[EngineProcess] = []
        self.masters: list[EngineProcess] = []

    @property
    def master_address(self) -> str:
        return f"127.0.0.1:{self.rpc_port}"

    def start_master(self) -> None:
        """Starts a master, also after the last one was killed: always on the same ports."""
        master = EngineProcess(
            [
                str(self.package.commands / "mooncake_master"),
                f"--rpc_port={self.rpc_port}",
                "--rpc_address=127.0.0.1",
                f"--metrics_port={self.http_port}",
                "--metrics_host=127.0.0.1",
                *(("--enable_offload=true", "--offload_on_evict=true") if self.disk else ()),
            ],
            self.logs / f"master-{self.rpc_port}-{len(self.masters)}.log",
            self._env(),
        )
        self.masters.append(master)
        master.wait_ready(lambda: self.http("/health") is not None, START_SECONDS)

    def start_node(self, segment_bytes: int) -> EngineProcess:
        """Starts a storage node, and waits until its segment is mounted."""
        before = set(self.segments())
        node = EngineProcess(
            [
                str(self.package.commands / "mooncake_client"),
                "--host=127.0.0.1",
                f"--port={free_port()}",
                "--metadata_server=P2PHANDSHAKE",
                "--protocol=tcp",
                f"--master_server_address={self.master_address}",
                f"--global_segment_size={segment_bytes}",
                *(("--enable_offload=true",) if self.disk else ()),
            ],
            self.logs / f"node-{self.rpc_port}-{len(self.nodes)}.log",
            self._env(),
        )
        self.nodes.append(node)
        node.wait_ready(lambda: bool(set(self.segments()) - before), START_SECONDS)
        return node

    def _disk_folder(self) -> Path:
        folder = self.logs / f"disk-{self.rpc_port}"
        folder.mkdir(exist_ok=True)
        return folder

    def _env(self) -> dict[str, str]:
        disk = {"MOONCAKE_OFFLOAD_FILE_STORAGE_PATH": str(self._disk_folder())} if self.disk else {}
        return {**LOOPBACK, "XDG_STATE_HOME": str(self.logs / "state"), **disk, **self.package.variables}

    def http(self, path: str) -> str | None:
        """The answer of the master's admin server; None if it does not answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}{path}", timeout=5) as reply:
                text: str = reply.read().decode()
                return text
        except (urllib.error.URLError, OSError):
            return None

    def segments(self) -> list[str]:
        return (self.http("/get_all_segments") or "").split()

    def keys(self) -> list[str]:
        """The keys of all complete objects."""
        return (self.http("/get_all_keys") or "").split()

    def write_config(self, embedded_bytes: int) -> Path:
        """Writes a file for `MOONCAKE_CONFIG_PATH`. Each engine lends `embedded_bytes`; with 0, engines only use the
        nodes.
        """
        path = self.logs / f"mooncake-{self.rpc_port}-{embedded_bytes}.json"
        config = {
            "metadata_server": "P2PHANDSHAKE",
            "master_server_address": self.master_address,
            "protocol": "tcp",
            "device_name": "",
            "mode": "embedded" if embedded_bytes else "standalone-store",
            "global_segment_size": embedded_bytes,
            "local_buffer_size": LOCAL_BUFFER_BYTES,
        }
        path.write_text(json.dumps(config, indent=1))
        return path

    def __enter__(self) -> Pool:
        try:
            self.start_master()
            for segment_bytes in self.node_bytes:
                self.start_node(segment_bytes)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in [*self.nodes, *self.masters]:
            process.stop()
        if self.disk:
            shutil.rmtree(self._disk_folder())
