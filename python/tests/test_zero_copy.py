"""The calls that take addresses: put_from, get_into and their batch forms, and the registration of memory."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import pytest
from cluster import MIB, Memory, content
from mooncake.store import MooncakeDistributedStore

Store = MooncakeDistributedStore


class Index:
    """An integer type of another library, like NumPy's."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


@pytest.mark.parametrize("length", [1, 4096, 300_000, 3 * MIB])
def test_one_object(store: Store, memory: Memory, length: int) -> None:
    value = content("k", length)
    assert store.put_from("k", memory.write(0, value), length) == 0
    target = 4 * MIB
    assert store.get_into("k", memory.address + target, length + 10) == length
    assert memory.read(target, length + 10) == value + bytes(10)


def test_integers_of_other_libraries(store: Store, memory: Memory) -> None:
    at = Index(memory.write(0, b"value"))
    assert store.put_from("k", at, Index(5)) == 0
    assert store.batch_get_into(["k"], [at], (Index(9),)) == [5]


def test_a_batch(store: Store, memory: Memory) -> None:
    keys = [f"k{i}" for i in range(64)]
    sizes = [1000 + i for i in range(64)]
    sources = [
        memory.write(i * 2048, content(key, size)) for i, (key, size) in enumerate(zip(keys, sizes, strict=True))
    ]
    assert store.batch_put_from(keys, sources, sizes) == [0] * 64
    assert store.batch_put_from(keys, sources, sizes) == [0] * 64, "keys that exist count as stored"
    targets = [memory.address + 4 * MIB + i * 2048 for i in range(64)]
    assert store.batch_get_into([*keys, "none"], [*targets, targets[0]], [2048] * 65) == [*sizes, -704]
    for i, key in enumerate(keys):
        assert memory.read(4 * MIB + i * 2048, sizes[i]) == content(key, sizes[i])


def test_gather_and_scatter(store: Store, memory: Memory) -> None:
    value = content("k", 10_000)
    pieces = [value[:1], value[1:5000], value[5000:]]
    sources = [memory.write(i * 8192, piece) for i, piece in enumerate(pieces)]
    sizes = [len(piece) for piece in pieces]
    assert store.batch_put_from_multi_buffers(["k", "gap"], [sources, [*sources, 0]], [sizes, [*sizes, 0]]) == [0, 0]
    assert (store.get("k"), store.get("gap")) == (value, value)
    target = memory.address + 4 * MIB
    got = store.batch_get_into_multi_buffers(["k", "none"], [[target, target + 8192]] * 2, [[4000, 6001]] * 2)
    assert got == [10_000, -704]
    assert memory.read(4 * MIB, 4000) + memory.read(4 * MIB + 8192, 6001) == value + b"\0"
    flagged = store.batch_get_into_multi_buffers(["k"], [[target]], [[10_000]], prefer_alloc_in_same_node=True)
    assert flagged == [10_000]


def test_a_target_that_is_too_short(store: Store, memory: Memory) -> None:
    assert store.put("k", content("k", 1000)) == 0
    assert store.get_into("k", memory.address, 999) == -600
    assert store.batch_get_into(["k", "k"], [memory.address] * 2, [999, 1000]) == [-600, 1000]
    assert store.batch_get_into_multi_buffers(["k"], [[memory.address, memory.address + 500]], [[499, 500]]) == [-600]


def test_a_buffer_that_was_registered_in_adjoining_pieces(store: Store) -> None:
    memory = Memory(32 << 10)
    pieces = [memory.address + at for at in (0, 4096, 8192)]
    assert [store.register_buffer(piece, 4096) for piece in pieces] == [0, 0, 0]
    value = content("k", 12 << 10)
    memory.write(0, value)
    assert store.put_from("all", memory.address, 12 << 10) == 0
    assert store.put_from("two", memory.address + 4000, 200) == 0
    assert (store.get("all"), store.get("two")) == (value, value[4000:4200])
    memory.write(0, bytes(12 << 10))
    assert store.get_into("all", memory.address, 12 << 10) == 12 << 10
    assert memory.read(0, 12 << 10) == value
    runs_past = memory.address + (8 << 10)
    assert store.batch_get_into_multi_buffers(["all"], [[runs_past, memory.address]], [[8 << 10, 4 << 10]]) == [
        12 << 10
    ]
    assert memory.read(8 << 10, 8 << 10) + memory.read(0, 4 << 10) == value
    assert [store.unregister_buffer(piece) for piece in pieces] == [0, 0, 0]


def test_bytes_that_run_past_their_registered_buffer(store: Store, memory: Memory) -> None:
    around = Memory(1 << 20)
    assert store.register_buffer(around.address + 4096, 4096) == 0
    value = content("k", 20_000)
    around.write(0, value)
    assert store.put_from("behind", around.address + 5000, 15_000) == 0
    assert store.put_from("before", around.address, 5000) == 0
    assert store.get_into("before", around.address + 4096 + 90, 5000) == 5000
    assert around.read(4186, 5000) == value[:5000]
    assert (store.get("behind"), store.get("before")) == (value[5000:], value[:5000])
    assert store.unregister_buffer(around.address + 4096) == 0
    assert store.put_from("unmapped", memory.address, 1 << 45) < 0
    assert store.put_from("everything", memory.address, (1 << 64) - 1) == -600
    assert store.batch_is_exist(["unmapped", "everything"]) == [0, 0]


@pytest.mark.parametrize(("address", "size"), [(0, 10), (None, 0), (None, (1 << 64) - 1), ((1 << 64) - 1, 10)])
def test_ranges_that_cannot_be(store: Store, memory: Memory, address: int | None, size: int) -> None:
    at = memory.address if address is None else address
    assert store.put("here", b"value") == 0
    assert store.put_from("k", at, size) == -600
    assert store.batch_put_from(["k"], [at], [size]) == [-600]
    assert store.get_into("here", at, size) == -600
    assert store.batch_get_into(["here"], [at], [size]) == [-600]
    assert store.is_exist("k") == 0


def test_sizes_that_overflow_together(store: Store, memory: Memory) -> None:
    elsewhere = Memory(4096)
    ranges = [[elsewhere.address] * 3], [[1 << 63, 1 << 63, 100]]
    assert store.batch_put_from_multi_buffers(["k"], *ranges) == [-600]
    assert store.put("here", b"value") == 0
    assert store.batch_get_into_multi_buffers(["here"], *ranges) == [-600]


def test_an_object_that_no_pool_can_hold(store: Store) -> None:
    elsewhere = Memory(4096)
    assert store.put_from("k", elsewhere.address, 1 << 50) in (-200, -600)
    assert store.put_from("k", elsewhere.address, 1 << 36) == -200
    assert store.is_exist("k") == 0


def test_lists_of_different_lengths(store: Store, memory: Memory) -> None:
    at, keys = memory.address, ["a", "b"]
    answers = [
        store.batch_put_from(keys, [at], [8, 8]),
        store.batch_put_from(keys, [at, at], [8]),
        store.batch_put_from(keys, [at] * 3, [8] * 3),
        store.batch_put_from_multi_buffers(keys, [[at]], [[8]]),
        store.batch_put_from_multi_buffers(keys, [[at], [at, at]], [[8, 8], [8]]),
        store.batch_get_into(keys, [at], [8, 8]),
        store.batch_get_into(keys, [at, at], []),
        store.batch_get_into_multi_buffers(keys, [[at]], [[8]]),
    ]
    assert answers == [[-600, -600]] * len(answers)
    assert store.batch_is_exist(keys) == [0, 0]


def test_registration(store: Store) -> None:
    memory = Memory(3 * 4096)
    first, second = memory.address, memory.address + 4096
    assert store.register_buffer(first, 4096) == 0
    assert store.register_buffer(second, 4096) == 0, "neighbours do not overlap"
    refused = [(first, 4096), (first, 1), (second + 1, 8192), (first - 1, 2), (0, 10), (second + 4096, 0)]
    assert [store.register_buffer(*range_) for range_ in refused] == [-600] * len(refused)
    assert store.register_buffer((1 << 64) - 1, 10) == -600
    assert store.unregister_buffer(first + 1) == -600
    assert [store.unregister_buffer(at) for at in (first, first, second)] == [0, -600, 0]


def unreadable() -> Iterator[tuple[str, int]]:
    """Addresses without readable host memory: one that is not mapped, and one that is only reserved, like a GPU's."""
    yield "unmapped", 4096
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    nothing, private_anonymous = 0, 0x22
    address = libc.mmap(None, ctypes.c_size_t(1 << 20), nothing, private_anonymous, -1, ctypes.c_long(0))
    assert address not in (None, ctypes.c_void_p(-1).value)
    yield "reserved", address
    libc.munmap(ctypes.c_void_p(address), ctypes.c_size_t(1 << 20))


def test_a_pointer_that_is_not_host_memory_is_refused(store: Store, memory: Memory) -> None:
    assert store.put("here", b"value") == 0
    for what, address in unreadable():
        assert store.register_buffer(address, 4096) == -600, what
        assert store.unregister_buffer(address) == -600, what
        assert store.put_from("k", address, 4096) == -600, what
        assert store.batch_put_from(["k", "good"], [address, memory.address], [64, 64]) == [-600, 0], what
        assert store.batch_put_from_multi_buffers(["k"], [[memory.address, address]], [[5, 5]]) == [-600], what
        assert store.get_into("here", address, 4096) == -600, what
        assert store.batch_get_into(["here", "here"], [address, memory.address], [64, 64]) == [-600, 5], what
    assert store.batch_is_exist(["k", "good"]) == [0, 1]


def test_a_buffer_of_which_a_part_is_not_mapped_is_not_registered(store: Store) -> None:
    beyond = 1 << 40
    memory = Memory(4096)
    assert store.register_buffer(memory.address, beyond) == -600
    assert store.register_buffer(memory.address, memory.size) == 0
    assert store.unregister_buffer(memory.address) == 0


def test_memory_that_was_never_registered_works_over_tcp(store: Store) -> None:
    memory = Memory(4096)
    assert store.put_from("k", memory.write(0, b"value"), 5) == 0
    assert store.get_into("k", memory.address + 100, 5) == 5
    assert memory.read(100, 5) == b"value"


def test_the_same_key_twice_in_a_batch(store: Store, memory: Memory) -> None:
    at = memory.write(0, b"firstother")
    assert store.batch_put_from(["k", "k"], [at, at + 5], [5, 5]) == [0, 0]
    assert store.get("k") in (b"first", b"other")


def test_a_batch_that_is_longer_than_a_request(store: Store, memory: Memory) -> None:
    keys = [f"k{i:05}" for i in range(10_000)]
    sources = [memory.write(i * 64, content(key, 64)) for i, key in enumerate(keys)]
    assert store.batch_put_from(keys, sources, [64] * len(keys)) == [0] * len(keys)
    assert store.batch_is_exist([*keys, "none"]) == [1] * len(keys) + [0]
    targets = [memory.address + 4 * MIB + i * 64 for i in range(len(keys))]
    assert store.batch_get_into(keys, targets, [64] * len(keys)) == [64] * len(keys)
    assert memory.read(4 * MIB, 64 * len(keys)) == memory.read(0, 64 * len(keys))
