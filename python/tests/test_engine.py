"""`mooncake.engine`: two processes that transfer bytes between registered memory."""

from __future__ import annotations

import ctypes
import hashlib
import http.server
import inspect
import json
import mmap
import os
import subprocess
import sys
import textwrap
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator

import mooncake.engine
import pytest
from cluster import MIB, Memory, wait_until
from engine_peer import Peer
from mooncake.engine import TransferEngine, TransferNotify, TransferOpcode

UNKNOWN_PEER, SILENT_PEER = -200, -102
FAILED, NOT_REGISTERED, OVERLAPS, NO_MEMORY = -1, -3, -7, -302


def content(seed: int, length: int) -> bytes:
    return hashlib.shake_128(str(seed).encode()).digest(length)


@pytest.fixture(scope="module")
def shared_peer() -> Iterator[Peer]:
    with Peer() as peer:
        yield peer


@pytest.fixture(scope="module")
def far(shared_peer: Peer) -> int:
    """The address of 8 MiB of the peer's memory."""
    address: int = shared_peer.call("allocate_managed_buffer", 8 * MIB)
    assert address > 0
    return address


@pytest.fixture
def peer(shared_peer: Peer, far: int) -> Peer:
    """The peer, with its memory cleared."""
    shared_peer.fill(far, bytes(64 << 10))
    return shared_peer


@pytest.fixture(scope="module")
def engine() -> TransferEngine:
    engine = TransferEngine()
    assert engine.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") == 0
    return engine


@pytest.fixture
def near(engine: TransferEngine) -> Iterator[Memory]:
    """8 MiB of registered memory."""
    memory = Memory(8 * MIB)
    assert engine.register_memory(memory.address, memory.size) == 0
    yield memory
    assert engine.unregister_memory(memory.address) == 0


@pytest.mark.parametrize("length", [1, 4096, 100_000, 8 * MIB])
def test_bytes_go_there_and_back(engine: TransferEngine, peer: Peer, near: Memory, far: int, length: int) -> None:
    sent = content(length, length)
    near.write(0, sent)
    assert engine.transfer_sync_write(peer.session, near.address, far, length) == 0
    assert peer.look(far, length) == sent
    near.write(0, bytes(length))
    assert engine.transfer_sync_read(peer.session, near.address, far, length) == 0
    assert near.read(0, length) == sent


@pytest.mark.parametrize("opcode", [TransferOpcode.Write, 1, mooncake.engine.Write])
def test_a_batch_goes_at_once(engine: TransferEngine, peer: Peer, near: Memory, far: int, opcode: int) -> None:
    lengths = [1 + 7 * n for n in range(64)]
    sent = [content(n, length) for n, length in enumerate(lengths)]
    here = [near.write(n * 1000, value) for n, value in enumerate(sent)]
    there = [far + (63 - n) * 1000 for n in range(64)]
    assert engine.batch_transfer_sync(peer.session, here, there, lengths, opcode) == 0
    assert [peer.look(there[n], lengths[n]) for n in range(0, 64, 9)] == sent[::9]
    for call in (engine.batch_transfer_sync_write, engine.batch_transfer_sync_read):
        near.write(0, near.read(0, 64_000) if call == engine.batch_transfer_sync_write else bytes(64_000))
        assert call(peer.session, here, there, lengths) == 0
    assert [near.read(n * 1000, lengths[n]) for n in range(64)] == sent


def ended(engine: TransferEngine, batch: int) -> int:
    """The final status of a transfer in the background."""
    assert batch != 0
    code = 0

    def has_ended() -> bool:
        nonlocal code
        code = engine.transfer_check_status(batch)
        return code != 0

    wait_until(has_ended, 30, "the transfer ends")
    return code


def test_transfers_in_the_background(engine: TransferEngine, peer: Peer, near: Memory, far: int) -> None:
    sent = content(5, 4 * MIB)
    near.write(0, sent)
    batch = engine.transfer_submit_write(peer.session, near.address, far, len(sent))
    assert ended(engine, batch) == 1
    assert engine.transfer_check_status(batch) == FAILED, "its end was told"
    near.write(0, bytes(len(sent)))
    parts = [n * MIB for n in range(4)]
    here, there, lengths = [near.address + n for n in parts], [far + n for n in parts], [MIB] * 4
    reads = [engine.batch_transfer_async_read(peer.session, [h], [t], [MIB]) for h, t in zip(here, there, strict=True)]
    assert engine.get_batch_transfer_status(reads) == 0
    assert engine.get_batch_transfer_status(reads) == FAILED
    assert near.read(0, len(sent)) == sent
    assert ended(engine, engine.batch_transfer_async_write(peer.session, here, there, lengths)) == 1
    assert ended(engine, engine.batch_transfer_async(peer.session, here, there, lengths, TransferOpcode.Read)) == 1
    refused = engine.batch_transfer_async_write(peer.session, [near.address], [8], [8])
    assert ended(engine, refused) == FAILED
    assert engine.get_batch_transfer_status([]) == 0


def test_a_notification_follows_its_bytes(engine: TransferEngine, peer: Peer, near: Memory, far: int) -> None:
    notify = TransferNotify("chunk", "1 done")
    arguments = (peer.session, near.address, far, 100, TransferOpcode.Write, notify)
    assert engine.transfer_sync(*arguments) == 0
    assert engine.batch_transfer_sync(peer.session, [], [], [], TransferOpcode.Read, TransferNotify()) == 0
    assert peer.call("get_notifies") == [["chunk", "1 done"], ["", ""]]
    assert peer.call("get_notifies") == []
    notify.msg = "x" * 100_000
    assert engine.transfer_sync(*arguments) == FAILED, "it is too long"
    assert (notify.name, len(notify.msg), engine.get_notifies()) == ("chunk", 100_000, [])


def test_addresses_outside_of_registered_memory(engine: TransferEngine, peer: Peer, near: Memory, far: int) -> None:
    here, session, last = near.address, peer.session, near.size - 1
    for local, remote, length in [
        (here, far + 8 * MIB, 1),
        (here, far - 1, 1),
        (here, far, 8 * MIB + 1),
        (here, 0, 1),
        (here, 2**64 - 1, 2),
        (here + last, far, 2),
        (here - 1, far, 1),
        (0, far, 1),
        (2**64 - 1, far, 2**64 - 1),
    ]:
        for call in (engine.transfer_sync_read, engine.transfer_sync_write):
            assert call(session, local, remote, length) == FAILED, (local - here, remote - far, length)
    assert engine.batch_transfer_sync_write(session, [here, here], [far], [1]) == FAILED
    assert engine.batch_transfer_async_read(session, [here], [far], [1, 1]) == 0
    assert engine.transfer_submit_write(session, 8, far, 8) == 0
    assert engine.transfer_sync_read(session, 0, 0, 0) == 0, "nothing lies nowhere"


def test_ranges_that_adjoin_are_one(engine: TransferEngine, peer: Peer, far: int) -> None:
    memory, session = Memory(3 * 4096), peer.session
    pieces = [memory.address + at for at in (0, 4096, 8192)]
    assert engine.batch_register_memory(pieces, [4096] * 3) == 0
    sent = content(7, 3 * 4096)
    memory.write(0, sent)
    assert engine.transfer_sync_write(session, memory.address, far, 3 * 4096) == 0
    assert peer.look(far, 3 * 4096) == sent
    theirs: int = peer.call("register_adjoining", 4096, 3)
    assert engine.transfer_sync_write(session, memory.address + 10, theirs + 100, 8192) == 0
    assert peer.look(theirs + 100, 8192) == sent[10:8202]
    assert engine.transfer_sync_read(session, memory.address, theirs + 100, 8192) == 0
    assert memory.read(0, 8192) == sent[10:8202]
    assert engine.transfer_sync_write(session, memory.address, theirs + 1, 3 * 4096) == FAILED, "it runs past the last"
    assert engine.batch_unregister_memory(pieces) == 0


def test_buffers_of_the_engines_own(engine: TransferEngine) -> None:
    address = engine.allocate_managed_buffer(1000)
    assert engine.read_bytes_from_buffer(address, 1000) == bytes(1000)
    assert engine.write_bytes_to_buffer(address, b"abcdef", 3) == 0
    assert engine.write_bytes_to_buffer(address + 997, "äx", 3) == 0
    assert engine.write_bytes_to_buffer(address + 10, memoryview(b"lent"), 4) == 0
    assert engine.read_bytes_from_buffer(address, 14) == b"abc" + bytes(7) + b"lent"
    assert engine.read_bytes_from_buffer(address + 997, 3) == "äx".encode()
    for start, length in [(address + 998, 3), (address - 1, 2), (0, 1), (8, 8), (2**64 - 1, 1)]:
        assert engine.write_bytes_to_buffer(start, b"xyz", length) == FAILED
        with pytest.raises(ValueError, match="registered memory"):
            engine.read_bytes_from_buffer(start, length)
    assert engine.write_bytes_to_buffer(address, b"xyz", 4) == FAILED, "there are not as many"
    assert engine.free_managed_buffer(address, 999) == NOT_REGISTERED
    assert engine.unregister_memory(address) == NOT_REGISTERED
    assert engine.free_managed_buffer(address, 1000) == 0
    assert engine.free_managed_buffer(address, 1000) == NOT_REGISTERED
    assert (engine.allocate_managed_buffer(0), engine.allocate_managed_buffer(1 << 62)) == (0, 0)


def test_more_bytes_than_there_is_memory_for(engine: TransferEngine) -> None:
    no_reserve = 0x4000  # Python names this constant from 3.13 on.
    with mmap.mmap(-1, 1 << 45, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | no_reserve) as endless:
        view = ctypes.c_char.from_buffer(endless)
        start = ctypes.addressof(view)
        assert engine.register_memory(start, 1 << 45) == 0
        with pytest.raises(ValueError, match="read_bytes_from_buffer"):
            engine.read_bytes_from_buffer(start, 1 << 45)
        assert engine.unregister_memory(start) == 0
        del view


def test_registering(engine: TransferEngine) -> None:
    memory = Memory(MIB)
    half = memory.address + MIB // 2
    assert engine.batch_register_memory([memory.address, half], [MIB // 2, MIB // 2]) == 0
    assert engine.register_memory(memory.address, 10) == OVERLAPS
    assert engine.register_memory(half - 1, 10, "cpu:0") == OVERLAPS
    assert engine.batch_unregister_memory([memory.address, half]) == 0
    assert engine.batch_unregister_memory([memory.address, half]) == NOT_REGISTERED
    assert engine.batch_register_memory([memory.address, memory.address], [10, 10]) == OVERLAPS
    assert engine.unregister_memory(memory.address) == NOT_REGISTERED, "all of a batch, or none"
    assert engine.batch_register_memory([memory.address], []) == FAILED
    for address, length, code in [
        (memory.address, 0, FAILED),
        (0, 10, FAILED),
        (2**64 - 1, 10, FAILED),
        (8, 8, NO_MEMORY),
        (memory.address, 1 << 62, NO_MEMORY),
    ]:
        assert engine.register_memory(address, length) == code


def test_a_peer_that_is_not_there(engine: TransferEngine, near: Memory) -> None:
    for session, code in [("127.0.0.1:9", SILENT_PEER), ("unreachable_peer:9", SILENT_PEER), ("nobody", UNKNOWN_PEER)]:
        assert engine.send_probe(session) == code
        assert engine.get_first_buffer_address(session) == 0
        assert engine.transfer_sync_write(session, near.address, 8, 8) == FAILED
        assert engine.batch_transfer_async_write(session, [near.address], [8], [8]) == 0
        assert engine.transfer_submit_write(session, 0, 0, 16) == 0


def test_a_peer_that_is_killed(engine: TransferEngine, near: Memory) -> None:
    with Peer() as peer:
        far = peer.call("allocate_managed_buffer", MIB)
        assert engine.get_first_buffer_address(peer.session) == far
        assert engine.transfer_sync_read(peer.session, near.address, far, MIB) == 0
        peer.kill()
        assert engine.transfer_sync_read(peer.session, near.address, far, MIB) == FAILED
        assert engine.send_probe(peer.session) == SILENT_PEER


def test_a_tensor_that_was_unregistered_is_not_touched(peer: Peer, engine: TransferEngine, far: int) -> None:
    memory, marked = Memory(8 * MIB), content(1, 8 * MIB)
    for _ in range(5):
        assert engine.register_memory(memory.address, memory.size) == 0
        batch = engine.batch_transfer_async_read(peer.session, [memory.address], [far], [memory.size])
        assert engine.unregister_memory(memory.address) == 0
        memory.write(0, marked)
        assert ended(engine, batch) == 1
        assert memory.read(0, memory.size) == marked


def test_other_threads_run_during_a_transfer(engine: TransferEngine, peer: Peer, near: Memory, far: int) -> None:
    counts = [0, 0]
    stop = threading.Event()

    def move() -> None:
        while not stop.is_set():
            assert engine.transfer_sync_read(peer.session, near.address, far, near.size) == 0
            counts[0] += 1

    thread = threading.Thread(target=move)
    thread.start()
    deadline = time.monotonic() + 20
    while counts[0] < 5 and time.monotonic() < deadline:
        counts[1] += 1
    stop.set()
    thread.join()
    assert counts[0] >= 5
    assert counts[1] > 100


class MetadataHandler(http.server.BaseHTTPRequestHandler):
    """A metadata server as in both packages: a map of keys to values."""

    protocol_version = "HTTP/1.1"
    values: dict[str, bytes]

    def log_message(self, *_: object) -> None:
        """Discards the log."""

    def answer(self, action: Callable[[str], bytes | None]) -> None:
        key = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)["key"][0]
        body = action(key)
        self.send_response(404 if body is None else 200)
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def do_GET(self) -> None:
        self.answer(self.values.get)

    def do_PUT(self) -> None:
        value = self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(lambda key: self.values.update({key: value}) or b"metadata updated")

    def do_DELETE(self) -> None:
        self.answer(lambda key: self.values.pop(key, b"metadata deleted"))


@pytest.fixture
def metadata() -> Iterator[tuple[str, dict[str, bytes]]]:
    """The URL of a metadata server, and its values."""
    values: dict[str, bytes] = {}
    handler = type("Handler", (MetadataHandler,), {"values": values})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/metadata", values
        server.shutdown()
        thread.join()


def test_peers_are_found_through_a_metadata_server(metadata: tuple[str, dict[str, bytes]]) -> None:
    url, values = metadata
    engine = TransferEngine()
    assert engine.initialize_ext("127.0.0.1:12347", url.removeprefix("http://"), "tcp", "", "http") == 0
    own = engine.allocate_managed_buffer(100)
    with Peer(url, "127.0.0.1:12345") as peer:
        assert sorted(values) == ["mooncake/ram/127.0.0.1:12345", "mooncake/ram/127.0.0.1:12347"]
        assert json.loads(values["mooncake/ram/127.0.0.1:12347"])["tcp_data_port"] == engine.get_rpc_port()
        far = peer.call("allocate_managed_buffer", 100)
        addresses = [engine.get_first_buffer_address(f"127.0.0.1:{port}") for port in (12345, 12347)]
        assert addresses == [far, own]
        assert engine.write_bytes_to_buffer(own, b"hello", 5) == 0
        assert engine.transfer_sync_write(peer.session, own, far, 5) == 0
        assert peer.look(far, 5) == b"hello"
        assert engine.send_probe("127.0.0.1:1") == UNKNOWN_PEER
    del engine
    assert values == {}, "both have taken their names back"


@pytest.mark.parametrize(
    ("hostname", "metadata_server", "protocol"),
    [
        ("127.0.0.1", "P2PHANDSHAKE", "cxl"),
        ("127.0.0.1", "P2PHANDSHAKE", "ascend"),
        ("127.0.0.1", "127.0.0.1:2379", "tcp"),
        ("127.0.0.1", "etcd://127.0.0.1:2379", "tcp"),
        ("127.0.0.1", "redis://127.0.0.1:6379", "tcp"),
        ("127.0.0.1", "http://127.0.0.1:9/metadata", "tcp"),
        ("127.0.0.1:x", "P2PHANDSHAKE", "tcp"),
        ("nowhere.invalid", "P2PHANDSHAKE", "tcp"),
    ],
)
def test_what_cannot_be_initialized(
    monkeypatch: pytest.MonkeyPatch, hostname: str, metadata_server: str, protocol: str
) -> None:
    monkeypatch.delenv("MC_FORCE_TCP", raising=False)
    engine = TransferEngine()
    assert engine.initialize(hostname, metadata_server, protocol, "") == FAILED
    assert (engine.get_rpc_port(), engine.get_engine(), engine.get_engine_ptr()) == (0, None, 0)


def test_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MC_TRANSFER_TIMEOUT", "soon")
    assert TransferEngine().initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") == FAILED
    monkeypatch.setenv("MC_TRANSFER_TIMEOUT", "60")
    monkeypatch.setenv("MC_FORCE_TCP", "true")
    monkeypatch.setenv("MC_TCP_BIND_ADDRESS", "127.0.0.1")
    engine = TransferEngine()
    assert engine.initialize("127.0.0.1:1", "P2PHANDSHAKE", "rdma", "mlx5_0") == 0
    assert engine.initialize("127.0.0.1:1", "P2PHANDSHAKE", "rdma", "mlx5_0") == FAILED, "once is enough"
    assert engine.send_probe(f"127.0.0.1:{engine.get_rpc_port()}") == 0


def test_an_engine_that_is_not_initialized() -> None:
    engine = TransferEngine()
    assert [
        engine.register_memory(8, 8),
        engine.batch_unregister_memory([8]),
        engine.transfer_sync_write("a:1", 8, 8, 8),
        engine.transfer_check_status(1),
        engine.get_batch_transfer_status([1]),
        engine.send_probe("a:1"),
        engine.write_bytes_to_buffer(8, b"x", 1),
        engine.free_managed_buffer(8, 8),
    ] == [FAILED] * 8
    assert [
        engine.allocate_managed_buffer(8),
        engine.batch_transfer_async_write("a:1", [8], [8], [8]),
        engine.get_first_buffer_address("a:1"),
        engine.warmup_efa_segment("a:1"),
    ] == [0] * 4
    assert engine.get_notifies() == []
    with pytest.raises(ValueError, match="not initialized"):
        engine.read_bytes_from_buffer(8, 8)


@pytest.mark.parametrize(
    ("method", "arguments", "named"),
    [
        ("initialize", (1, "P2PHANDSHAKE", "tcp", ""), "local_hostname"),
        ("initialize", ("a", None, "tcp", ""), "metadata_server"),
        ("register_memory", (-1, 1), "buffer_addr"),
        ("register_memory", (1, 2**64), "capacity"),
        ("batch_register_memory", ([1], 1), "capacities"),
        ("transfer_sync_write", (1, 1, 1, 1), "target_hostname"),
        ("batch_transfer_sync_read", ("a", [1], [None], [1]), "peer_buffer_addresses"),
        ("transfer_sync", ("a", 1, 1, 1, 2), "opcode"),
        ("write_bytes_to_buffer", (1, 2, 3), "src_ptr"),
        ("send_probe", (b"\xff",), "peer_server_name"),
    ],
)
def test_arguments_of_a_wrong_type_are_named(method: str, arguments: tuple[object, ...], named: str) -> None:
    with pytest.raises(TypeError, match=named):
        getattr(TransferEngine(), method)(*arguments)


def test_the_engine_can_be_handed_on(engine: TransferEngine) -> None:
    handle = engine.get_engine()
    assert isinstance(handle, mooncake.engine.InnerTransferEngine)
    assert str(engine.get_rpc_port()) in repr(handle)
    assert engine.get_engine_ptr() != 0


def test_the_topology_is_json(engine: TransferEngine) -> None:
    for topology in (engine.get_local_topology(), engine.get_local_topology(device_name="mlx5_0")):
        found = json.loads(topology).items()
        assert all(name.startswith(("cpu:", "cuda:")) and len(lists) == 2 for name, lists in found)


FORKED = """
import os, sys
from mooncake.engine import TransferEngine

def opened():
    engine = TransferEngine()
    assert engine.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") == 0
    return engine

engine = opened()
session, far = f"127.0.0.1:{engine.get_rpc_port()}", engine.allocate_managed_buffer(100)
assert engine.write_bytes_to_buffer(far, b"parent", 6) == 0
child = os.fork()
if child == 0:
    assert engine.transfer_sync_read(session, far, far, 6) < 0, "the parent's engine is not the child's"
    assert engine.register_memory(far, 100) < 0
    assert engine.batch_transfer_async_read(session, [far], [far], [6]) == 0
    own = opened()
    near = own.allocate_managed_buffer(100)
    assert own.transfer_sync_read(session, near, far, 6) == 0, "an engine of its own works"
    assert own.read_bytes_from_buffer(near, 6) == b"parent"
    del engine, own
    sys.exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "the child failed"
assert engine.send_probe(session) == 0
assert engine.transfer_sync_read(session, far, far + 50, 6) == 0
"""


def test_a_forked_child_cannot_disturb_its_parent() -> None:
    command = [sys.executable, "-c", textwrap.dedent(FORKED)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ})
    assert run.returncode == 0, run.stderr


def test_the_methods_have_the_known_parameters() -> None:
    hints = "transport_hint='', nic_hint=''"
    one = "target_hostname, buffer, peer_buffer_address, length"
    many = "target_hostname, buffers, peer_buffer_addresses, lengths"
    scatter = (
        "endpoint, local_base_addresses, local_capacities, remote_base_addresses, remote_capacities, local_offsets, "
        "remote_offsets, lengths"
    )
    known = {
        "initialize": "local_hostname, metadata_server, protocol, device_name",
        "initialize_ext": "local_hostname, metadata_server, protocol, device_name, metadata_type",
        "register_memory": "buffer_addr, capacity, location='*', remote_accessible=True",
        "batch_register_memory": "buffer_addresses, capacities, location='*'",
        "transfer_sync_write": f"{one}, {hints}",
        "transfer_submit_write": f"{one}, {hints}",
        "batch_transfer_sync_read": f"{many}, {hints}",
        "transfer_sync": f"{one}, opcode, notify=None, {hints}",
        "batch_transfer_async": f"{many}, opcode, {hints}",
        "batch_transfer_async_write_arrays": f"{many}, {hints}",
        "batch_transfer_sync_read_pages": f"target_hostname, src_pages, dst_pages, fields, max_batch_size=0, {hints}",
        "transfer_read_on_cuda": f"{one}, stream_ptr=0, {hints}",
        "batch_transfer_write_on_cuda": f"{many}, stream_ptr=0, {hints}",
        "submit_scatter_write": scatter,
        "scatter_transfer_sync_read_with_ticket": scatter,
        "get_local_topology": "device_name=None",
        "send_probe": "peer_server_name",
    }
    found = {name: str(inspect.signature(getattr(TransferEngine(), name))).strip("()") for name in known}
    assert found == known


def test_the_names_of_the_module() -> None:
    missing = [name for name in mooncake.engine.__all__ if not hasattr(mooncake.engine, name)]
    assert missing == []
    assert TransferEngine.TransferOpcode is TransferOpcode
    assert [TransferOpcode.READ, TransferOpcode.WRITE] == [TransferOpcode.Read, TransferOpcode.Write] == [0, 1]
    flags = [name for name in mooncake.engine.__all__ if name.startswith("SUPPORT_")]
    assert [name for name in flags if getattr(mooncake.engine, name)] == ["SUPPORT_CUDA"]
    assert not mooncake.engine.SharedSegment.supported()
    for refused in (
        mooncake.engine.RpcInterface,
        mooncake.engine.CoroRPCInterface,
        mooncake.engine.create_rpc_client,
        lambda: mooncake.engine.SharedSegment.create("name", 1, 1, 0),
    ):
        with pytest.raises(NotImplementedError, match="not supported in this build"):
            refused()
