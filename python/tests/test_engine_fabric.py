"""`mooncake.engine` and its benchmark with the protocol `rdma`, over libfabric's provider `tcp`."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest
from cluster import COMMANDS, FABRIC, MIB, Memory, content, free_port
from engine_peer import Peer
from mooncake.engine import TransferEngine


@pytest.fixture(scope="module", autouse=True)
def variables() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in FABRIC.items():
            patch.setenv(name, value)
        yield


def test_bytes_go_there_and_back_and_short_ones_by_message() -> None:
    engine = TransferEngine()
    assert engine.initialize("127.0.0.1", "P2PHANDSHAKE", "rdma", "lo") == 0
    near = Memory(8 * MIB)
    assert engine.register_memory(near.address, near.size) == 0
    with Peer(protocol="rdma") as peer:
        far = peer.call("allocate_managed_buffer", 8 * MIB)
        for length in [1, 65_536, 100_001, 8 * MIB]:
            sent = content(str(length), length)
            near.write(0, sent)
            assert engine.transfer_sync_write(peer.session, near.address, far, length) == 0
            assert peer.look(far, length) == sent
            near.write(0, bytes(length))
            assert engine.transfer_sync_read(peer.session, near.address, far, length) == 0
            assert near.read(0, length) == sent
        there = [far + n * 200_000 for n in range(40)]
        here = [near.write(n * 200_000, content(str(n), 150_000)) for n in reversed(range(40))]
        lengths = [150_000] * 40
        assert engine.batch_transfer_sync_write(peer.session, here, there, lengths) == 0
        assert peer.look(there[39], 150_000) == content("0", 150_000)
        assert engine.transfer_sync_read(peer.session, near.address, far + 8 * MIB, 65_536) != 0, "it is not there"
    assert engine.unregister_memory(near.address) == 0


def test_a_peer_that_has_no_device_is_told_apart() -> None:
    engine = TransferEngine()
    assert engine.initialize("127.0.0.1", "P2PHANDSHAKE", "rdma", "lo") == 0
    with Peer(protocol="tcp") as peer:
        far = peer.call("allocate_managed_buffer", MIB)
        near = engine.allocate_managed_buffer(MIB)
        assert engine.transfer_sync_write(peer.session, near, far, MIB) != 0


def test_a_provider_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOONCAKE_FABRIC_PROVIDER", "carrier-pigeon")
    assert TransferEngine().initialize("127.0.0.1", "P2PHANDSHAKE", "rdma", "") == -1
    monkeypatch.setenv("MOONCAKE_TRANSPORTS", "fabric,tcp")
    assert TransferEngine().initialize("127.0.0.1", "P2PHANDSHAKE", "rdma", "") == 0, "tcp is allowed"


def test_the_benchmark_moves_bytes_one_sided() -> None:
    port = free_port()
    environment = {**os.environ, "MC_MIN_PRC_PORT": str(port), "MC_MAX_PRC_PORT": str(port)}
    common = ["--metadata_server=P2PHANDSHAKE", "--protocol=rdma", "--local_server_name=127.0.0.1"]
    program = str(COMMANDS / "transfer_engine_bench")
    target = subprocess.Popen(
        [program, "--mode=target", *common],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert target.stdout is not None
        assert any("127.0.0.1" in line for line in target.stdout), "it serves"
        initiator = [program, "--mode=initiator", *common, f"--segment_id=127.0.0.1:{port}", "--duration=1"]
        done = subprocess.run(initiator, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    finally:
        target.kill()
        target.wait()
