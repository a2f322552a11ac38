"""`mooncake.engine`: transfers whose addresses and page numbers lie in buffers, and scatter transfers with tickets."""

from __future__ import annotations

import array
import ctypes
import gc
from collections.abc import Iterator
from typing import Any

import mooncake.engine
import pytest
from cluster import MIB, Memory
from engine_peer import Peer
from mooncake.engine import ScatterTransferCompletionStatus, TransferEngine
from test_engine import FAILED, content, ended

np: Any = pytest.importorskip("numpy")

DIRECTIONS = ("write", "read")


@pytest.fixture(scope="module")
def peer() -> Iterator[Peer]:
    with Peer() as peer:
        yield peer


@pytest.fixture(scope="module")
def far(peer: Peer) -> int:
    """The address of 1 MiB of the peer's memory."""
    address: int = peer.call("allocate_managed_buffer", MIB)
    return address


@pytest.fixture(scope="module")
def engine() -> TransferEngine:
    engine = TransferEngine()
    assert engine.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") == 0
    return engine


@pytest.fixture
def near(engine: TransferEngine) -> Iterator[Memory]:
    memory = Memory(MIB)
    assert engine.register_memory(memory.address, memory.size) == 0
    yield memory
    assert engine.unregister_memory(memory.address) == 0


def arrays(kind: str, numbers: list[int]) -> Any:
    if kind == "array":
        return array.array("Q", numbers)
    if kind == "ctypes":
        return (ctypes.c_int64 * len(numbers))(*numbers)
    return np.array(numbers, kind)


@pytest.mark.parametrize("kind", ["uint64", "int64", "array", "ctypes"])
@pytest.mark.parametrize("call", ["sync", "async"])
def test_addresses_and_lengths_lie_in_buffers(
    engine: TransferEngine, peer: Peer, near: Memory, far: int, kind: str, call: str
) -> None:
    lengths = [1 + 7 * n for n in range(64)]
    sent = [content(n, length) for n, length in enumerate(lengths)]
    here = [near.write(n * 1000, value) for n, value in enumerate(sent)]
    there = [far + (63 - n) * 1000 for n in range(64)]
    columns = [arrays(kind, numbers) for numbers in (here, there, lengths)]
    for direction in DIRECTIONS:
        result = getattr(engine, f"batch_transfer_{call}_{direction}_arrays")(peer.session, *columns)
        assert result == 0 if call == "sync" else ended(engine, result) == 1
        if direction == "write":
            assert [peer.look(there[n], lengths[n]) for n in range(0, 64, 9)] == sent[::9]
            near.write(0, bytes(64_000))
    assert [near.read(n * 1000, lengths[n]) for n in range(64)] == sent


@pytest.mark.parametrize(
    ("columns", "error", "named"),
    [
        (([8], [8], [8]), TypeError, "buffers"),
        ((np.array([8]), np.array([8]), 8), TypeError, "lengths"),
        ((np.array([8, 8]), np.array([8, 8])[::-1][::2], np.array([8, 8])), ValueError, "2 buffers, 1 addresses"),
        ((np.array([8.0]), np.array([8]), np.array([8])), ValueError, "buffers.*64-bit integers"),
        ((np.array([8], "int32"), np.array([8]), np.array([8])), ValueError, "buffers.*64-bit integers"),
        ((np.array([8]), np.array([8], ">i8"), np.array([8])), ValueError, "peer_buffer_addresses.*64-bit"),
        ((np.array([8]), np.array([8]), np.array([[8]])), ValueError, "lengths.*one-dimensional"),
        ((np.array([8]), np.array(8), np.array([8])), TypeError, "peer_buffer_addresses"),
        ((np.array([8, 8, 8]), np.array([8, 8, 8]), np.array([8, 8, -1])), ValueError, "lengths.*-1 at position 2"),
        ((b"12345678", np.array([8]), np.array([8])), ValueError, "buffers.*64-bit integers"),
        ((np.zeros((4, 2), "int64")[:, 0], np.zeros(4, "int64"), np.zeros(4, "int64")), TypeError, "contiguous"),
    ],
)
def test_buffers_of_a_wrong_kind_are_named(
    engine: TransferEngine, columns: tuple[Any, ...], error: type[Exception], named: str
) -> None:
    for call in ("sync", "async"):
        with pytest.raises(error, match=named):
            getattr(engine, f"batch_transfer_{call}_read_arrays")("127.0.0.1:1", *columns)


def test_arrays_that_the_engine_cannot_use(engine: TransferEngine, peer: Peer, near: Memory, far: int) -> None:
    one = np.array([8], "uint64")
    high = np.array([2**64 - 1], "uint64")
    here, there = np.array([near.address], "uint64"), np.array([far], "uint64")
    for columns in [(here, one, one), (one, there, one), (here, there, high), (high, high, high)]:
        for direction in DIRECTIONS:
            assert getattr(engine, f"batch_transfer_sync_{direction}_arrays")(peer.session, *columns) == FAILED
    assert engine.batch_transfer_async_write_arrays(peer.session, one, there, one) == 0
    assert engine.batch_transfer_sync_write_arrays("127.0.0.1:1", here, there, one) == FAILED
    none = np.array([], "int64")
    assert engine.batch_transfer_sync_write_arrays(peer.session, none, none, none) == 0


@pytest.mark.parametrize("size", [0, 1, 7, 1 << 40])
def test_pages_with_fields(engine: TransferEngine, peer: Peer, near: Memory, far: int, size: int) -> None:
    src, dst = np.array([0, 3, 5]), np.array([7, 0, 2])
    # Keys and values: pages of 1000 bytes here and 500 there, then pages of 2000 and 700.
    rows = [[near.address, 1000, far, 500, 400], [near.address + 100_000, 2000, far + 50_000, 700, 600]]
    fields = np.array(rows, "int64")
    sent = content(3, 200_000)
    near.write(0, sent)
    peer.fill(far, bytes(60_000))
    assert engine.batch_transfer_sync_write_pages(peer.session, src, dst, fields, size) == 0
    for here, there in zip(src, dst, strict=True):
        assert peer.look(far + 500 * int(there), 500)[:400] == sent[1000 * here :][:400]
        assert peer.look(far + 50_000 + 700 * int(there), 600) == sent[100_000 + 2000 * here :][:600]
    assert peer.look(far + 500, 500) == bytes(500), "page 1 is not among them"
    near.write(0, bytes(200_000))
    # The source is this process in both directions.
    assert engine.batch_transfer_sync_read_pages(peer.session, src, dst, fields, max_batch_size=size) == 0
    assert all(near.read(1000 * page, 400) == sent[1000 * page :][:400] for page in src)
    assert near.read(1000, 1000) == bytes(1000)


def test_pages_of_a_wrong_form_are_named(engine: TransferEngine, near: Memory) -> None:
    pages, fields = np.array([1, 2]), np.array([[8, 8, 8, 8, 8]])
    for src, dst, rows, error, named in [
        ([1, 2], pages, fields, TypeError, "src_pages"),
        (pages, pages[:1], fields, ValueError, "2 pages of this process, but 1 of the peer"),
        (pages, np.array([[1, 2]]), fields, ValueError, "dst_pages.*one-dimensional"),
        (pages, pages, fields[0], ValueError, "fields.*5"),
        (pages, pages, np.array([[8, 8, 8, 8]]), ValueError, "fields.*5"),
        (pages, pages, np.array([[8.0] * 5]), ValueError, "fields.*64-bit"),
        (pages, pages, np.asfortranarray(np.ones((3, 5), "int64")), TypeError, "fields.*contiguous"),
        (pages, pages, np.array([[8, -8, 8, 8, 8]]), ValueError, "fields.*-8"),
        (pages, pages, np.array([[8, 8, 8, 8, 0]]), ValueError, "field 0 has no bytes"),
        (np.array([1, -2]), pages, fields, ValueError, "src_pages.*-2 at position 1"),
        (np.array([1, 2**62]), pages, fields, ValueError, "field 0 of page 4611686018427387904 runs past the end"),
        (pages, pages, np.array([[8, 8, 8, 2**63 - 1, 8]]), ValueError, "field 0 of page 2 runs past the end"),
    ]:
        for direction in DIRECTIONS:
            with pytest.raises(error, match=named):
                getattr(engine, f"batch_transfer_sync_{direction}_pages")("127.0.0.1:1", src, dst, rows)
    with pytest.raises(TypeError, match="max_batch_size"):
        engine.batch_transfer_sync_read_pages("127.0.0.1:1", pages, pages, fields, -1)
    inside = np.array([[near.address, 8, 8, 8, 8]])
    assert engine.batch_transfer_sync_read_pages(engine_name(engine), pages, pages, inside) == FAILED
    assert engine.batch_transfer_sync_read_pages("127.0.0.1:1", pages, pages, inside) == FAILED
    none = np.array([], "int64")
    assert engine.batch_transfer_sync_write_pages(engine_name(engine), none, none, fields) == 0


def engine_name(engine: TransferEngine) -> str:
    return f"127.0.0.1:{engine.get_rpc_port()}"


COMPLETED = ScatterTransferCompletionStatus.COMPLETED
FAILED_DRAINED = ScatterTransferCompletionStatus.FAILED_DRAINED


def scatter(near: Memory, far: int) -> list[Any]:
    """Two ranges with three fragments."""
    return [
        [near.address, near.address + 10_000],
        [5000, 5000],
        [far, far + 10_000],
        [5000, 5000],
        [[0, 4000], [10]],
        [[100, 0], [4000]],
        [[1000, 100], [1000]],
    ]


@pytest.mark.parametrize("form", ["submit_scatter_{}", "scatter_transfer_sync_{}_with_ticket"])
def test_fragments_of_ranges(engine: TransferEngine, peer: Peer, near: Memory, far: int, form: str) -> None:
    sent = content(8, 20_000)
    near.write(0, sent)
    peer.fill(far, bytes(20_000))
    ticket = getattr(engine, form.format("write"))(peer.session, *scatter(near, far))
    assert isinstance(ticket, mooncake.engine.ScatterTransferTicket)
    if "sync" not in form:
        assert ticket.drain(30_000) == COMPLETED
    assert [(ticket.status, ticket.drained, ticket.drain(0)) for _ in range(2)] == [(COMPLETED, True, COMPLETED)] * 2
    assert (ticket.status.name, str(ticket.status)) == ("COMPLETED", "ScatterTransferCompletionStatus.COMPLETED")
    expected = bytearray(20_000)
    for here, there, length in [(0, 100, 1000), (4000, 0, 100), (10_010, 14_000, 1000)]:
        expected[there : there + length] = sent[here : here + length]
    assert peer.look(far, 20_000) == bytes(expected)
    near.write(0, bytes(20_000))
    assert getattr(engine, form.format("read"))(peer.session, *scatter(near, far)).drain(30_000) == COMPLETED
    assert near.read(10_010, 1000) == sent[10_010:11_010]


@pytest.mark.parametrize("form", ["submit_scatter_{}", "scatter_transfer_sync_{}_with_ticket"])
def test_scatter_transfers_that_cannot_be(
    engine: TransferEngine, peer: Peer, near: Memory, far: int, form: str
) -> None:
    for direction in DIRECTIONS:
        method = getattr(engine, form.format(direction))
        for at, value, named in [
            (1, [5000], "differ in length: 2, 1, 2"),
            (4, [[0, 4000]], "differ in length"),
            (4, [[0], [10]], "range 0 has 1 local offsets, 2 remote offsets and 2 lengths"),
            (4, [[0, 4901], [10]], "fragment 1 of range 0"),
            (5, [[100, 0], [4001]], "fragment 0 of range 1"),
            (6, [[1000, 2**64 - 1], [1]], "fragment 1 of range 0"),
            (1, [5000, 2**64 - 1], "range 1 runs past the end of memory"),
        ]:
            arguments = scatter(near, far)
            arguments[at] = value
            with pytest.raises(ValueError, match=named):
                method(peer.session, *arguments)
        for at, wrong in [(0, None), (2, [-1, 1]), (6, [1, 2])]:
            arguments = scatter(near, far)
            arguments[at] = wrong
            with pytest.raises(TypeError):
                method(peer.session, *arguments)
        arguments = scatter(near, far)
        assert method("127.0.0.1:1", *arguments).status == FAILED_DRAINED
        arguments[2] = [8, 8]
        assert method(peer.session, *arguments).drain(30_000) == FAILED_DRAINED, "only the peer knows"
        arguments[0] = [8, 8]
        refused = method(peer.session, *arguments)
        assert (refused.drained, refused.drain(0)) == (True, FAILED_DRAINED)
    closed = TransferEngine().submit_scatter_read(peer.session, *scatter(near, far))
    assert closed.status == FAILED_DRAINED
    with pytest.raises(TypeError, match="timeout_ms"):
        closed.drain(-1)
    with pytest.raises(TypeError):
        mooncake.engine.ScatterTransferTicket()


def test_a_ticket_outlives_its_engine(peer: Peer, far: int) -> None:
    engine, memory = TransferEngine(), Memory(MIB)
    assert engine.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") == 0
    assert engine.register_memory(memory.address, memory.size) == 0
    ranges: list[Any] = [[memory.address], [MIB], [far], [MIB], [[0]], [[0]], [[MIB]]]
    tickets = [engine.submit_scatter_read(peer.session, *ranges) for _ in range(20)]
    del engine
    gc.collect()
    assert all(ticket.drained for ticket in tickets)


def test_memory_that_peers_may_not_use(engine: TransferEngine, peer: Peer, far: int) -> None:
    memory = Memory(4096)
    assert engine.register_memory(memory.address, 4096, remote_accessible=False) == 0
    sent = content(1, 4096)
    memory.write(0, sent)
    assert engine.transfer_sync_write(peer.session, memory.address, far, 4096, "", "mlx5_0") == 0
    assert peer.look(far, 4096) == sent
    assert peer.call("transfer_sync_read", engine_name(engine), far, memory.address, 4096) == FAILED
    assert peer.call("transfer_sync_write", engine_name(engine), far, memory.address, 4096) == FAILED
    assert engine.unregister_memory(memory.address) == 0
    assert engine.register_memory(memory.address, 4096, "cpu:0", True) == 0
    assert peer.call("transfer_sync_read", engine_name(engine), far, memory.address, 4096) == 0
    assert engine.unregister_memory(memory.address) == 0
    with pytest.raises(TypeError, match="remote_accessible"):
        engine.register_memory(memory.address, 4096, "*", "no")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="nic_hint"):
        engine.transfer_sync_write(peer.session, memory.address, far, 1, "", 5)  # type: ignore[arg-type]
