"""`mooncake.engine`: transfers in the order of CUDA streams, on a double of the driver or on a real GPU."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import gpu
import pytest
from cluster import MIB, Memory
from engine_peer import Peer
from gpu import DeviceMemory, Stream
from mooncake.engine import TransferEngine
from test_engine import content


@pytest.fixture(autouse=True)
def driver() -> Iterator[None]:
    gpu.driver()
    gpu.use_device(0)
    yield
    gpu.reset()


@pytest.fixture(scope="module")
def peer() -> Iterator[Peer]:
    with Peer() as peer:
        yield peer


@pytest.fixture(scope="module")
def far(peer: Peer) -> int:
    """The address of 24 MiB of the peer's memory."""
    address: int = peer.call("allocate_managed_buffer", 24 * MIB)
    return address


@pytest.fixture
def engine() -> TransferEngine:
    engine = TransferEngine()
    assert engine.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") == 0
    return engine


@pytest.fixture
def near(engine: TransferEngine) -> Iterator[DeviceMemory]:
    memory = DeviceMemory(24 * MIB)
    assert engine.register_memory(memory.address, memory.size) == 0
    yield memory
    assert engine.unregister_memory(memory.address) == 0


def test_a_stream_reads_and_writes(engine: TransferEngine, peer: Peer, near: DeviceMemory, far: int) -> None:
    sent = content(4, 24 * MIB)
    near.write(0, sent)
    with Stream() as stream:
        engine.transfer_write_on_cuda(peer.session, near.address, far, len(sent), stream.handle)
        stream.finish()
        assert peer.look(far, len(sent)) == sent
        near.write(0, bytes(len(sent)))
        engine.transfer_read_on_cuda(peer.session, near.address, far, len(sent), stream_ptr=stream.handle)
        # What the stream does next finds the bytes.
        seen = stream.read(near.address, 8 * MIB)
        stream.finish()
        assert seen() == sent[: 8 * MIB]
        assert near.read(0, len(sent)) == sent


def test_batches_with_memory_of_both_kinds(engine: TransferEngine, peer: Peer, near: DeviceMemory, far: int) -> None:
    host = Memory(MIB)
    assert engine.register_memory(host.address, host.size) == 0
    sent = content(5, 4 * MIB)
    near.write(0, sent[: 3 * MIB])
    host.write(0, sent[3 * MIB :])
    buffers = [near.address + at * 256 * 1024 for at in range(12)] + [host.address]
    there = [far + at * 256 * 1024 for at in range(13)]
    lengths = [256 * 1024] * 12 + [MIB]
    with Stream() as stream:
        engine.batch_transfer_write_on_cuda(peer.session, buffers, there, lengths, stream.handle)
        stream.finish()
        assert peer.look(far, 4 * MIB) == sent
        near.write(0, bytes(3 * MIB))
        host.write(0, bytes(MIB))
        engine.batch_transfer_read_on_cuda(peer.session, buffers, there, lengths, stream.handle, "", "mlx5_0")
        stream.finish()
    assert near.read(0, 3 * MIB) + host.read(0, MIB) == sent
    assert engine.unregister_memory(host.address) == 0


def test_the_default_stream_is_that_of_the_current_device(
    engine: TransferEngine, peer: Peer, near: DeviceMemory, far: int
) -> None:
    sent = content(6, MIB)
    near.write(0, sent)
    engine.transfer_write_on_cuda(peer.session, near.address, far, MIB)
    gpu.use_device(0)
    assert gpu.driver().cuStreamSynchronize(None) == 0
    assert peer.look(far, MIB) == sent


def test_a_call_returns_before_the_stream_is_there(
    engine: TransferEngine, peer: Peer, near: DeviceMemory, far: int
) -> None:
    peer.fill(far, bytes(MIB))
    near.write(0, content(1, MIB))
    is_free = threading.Event()
    wait = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: is_free.wait(60) and None)
    with Stream() as stream:
        gpu.use_device(0)
        assert gpu.driver().cuLaunchHostFunc(ctypes.c_void_p(stream.handle), wait, None) == 0
        engine.transfer_write_on_cuda(peer.session, near.address, far, MIB, stream.handle)
        near.write(0, content(2, MIB))
        assert peer.look(far, MIB) == bytes(MIB)
        is_free.set()
        stream.finish()
        assert peer.look(far, MIB) == content(2, MIB), "the stream sends what is there when its turn comes"


def test_what_cannot_go_on_a_stream_is_refused(
    engine: TransferEngine, peer: Peer, near: DeviceMemory, far: int
) -> None:
    with Stream() as stream:
        for arguments, named in [
            (("127.0.0.1:1", near.address, far, 8, stream.handle), "127.0.0.1:1"),
            ((peer.session, 8, far, 8, stream.handle), "registered memory"),
            ((peer.session, near.address + near.size, far, 8, stream.handle), "registered memory"),
        ]:
            for method in (engine.transfer_write_on_cuda, engine.transfer_read_on_cuda):
                with pytest.raises(RuntimeError, match=named):
                    method(*arguments)
        for batch in (engine.batch_transfer_write_on_cuda, engine.batch_transfer_read_on_cuda):
            with pytest.raises(RuntimeError, match="differ in length"):
                batch(peer.session, [near.address], [far], [8, 8], stream.handle)
            with pytest.raises(TypeError, match="stream_ptr"):
                batch(peer.session, [near.address], [far], [8], "the first")  # type: ignore[arg-type]
        with pytest.raises(RuntimeError, match="not initialized"):
            TransferEngine().transfer_read_on_cuda(peer.session, near.address, far, 8, stream.handle)
        if not gpu.IS_REAL:
            gpu.driver().double_fail(b"cuLaunchHostFunc", 0, 1)
            with pytest.raises(RuntimeError, match="cuLaunchHostFunc"):
                engine.transfer_read_on_cuda(peer.session, near.address, far, 8, stream.handle)


def run(code: str) -> subprocess.CompletedProcess[str]:
    tests = str(Path(__file__).parent)
    environment = {**os.environ, "PYTHONPATH": tests, "MC_TRANSFER_TIMEOUT": "5"}
    command = [sys.executable, "-c", textwrap.dedent(code)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)


def test_without_a_driver_there_are_no_streams() -> None:
    done = run("""
        from cluster import Memory
        from mooncake.engine import TransferEngine
        engine, memory = TransferEngine(), Memory(100)
        engine.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "")
        engine.register_memory(memory.address, 100)
        try:
            engine.transfer_write_on_cuda(f"127.0.0.1:{engine.get_rpc_port()}", memory.address, memory.address, 8)
        except RuntimeError as error:
            print(error)
    """)
    assert "no CUDA driver" in done.stdout, done.stderr


def test_a_transfer_that_fails_on_a_stream_ends_the_process() -> None:
    done = run("""
        import gpu
        from cluster import Memory
        from mooncake.engine import TransferEngine
        gpu.driver()
        gpu.use_device(0)
        engine, memory = TransferEngine(), Memory(100)
        engine.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "")
        engine.register_memory(memory.address, 100)
        with gpu.Stream() as stream:
            engine.transfer_write_on_cuda(f"127.0.0.1:{engine.get_rpc_port()}", memory.address, 8, 8, stream.handle)
            stream.finish()
        print("it went on")
    """)
    assert done.returncode < 0, done.stdout
    assert "the process ends" in done.stderr
    assert "it went on" not in done.stdout
