"""Reads of parts of objects, and sessions that write and read objects layer by layer."""

import pytest
from cluster import MIB, Cluster, Memory, content, wait_until
from mooncake.store import MooncakeDistributedStore, ReplicateConfig

Store = MooncakeDistributedStore
POOLS = ["master", "local", "fabric"]


def test_fragments_of_several_objects_into_several_buffers(store: Store, memory: Memory) -> None:
    one, two = content("one", 100_000), content("two", 3 * MIB)
    assert store.put_batch(["one", "two"], [one, two]) == 0
    results = store.get_into_ranges(
        [memory.address, memory.address + 4 * MIB],
        [["one", "two"], ["two"]],
        [[[0, 500], [1000]], [[0, 2 * MIB]]],
        [[[10, 99_900], [MIB]], [[2 * MIB, 5]]],
        [[[20, 100], [7]], [[MIB, MIB]]],
    )
    assert results == [[[20, 100], [7]], [[MIB, MIB]]]
    assert memory.read(0, 20) == one[10:30]
    assert memory.read(500, 100) == one[99_900:]
    assert memory.read(1000, 7) == two[MIB : MIB + 7]
    assert memory.read(4 * MIB, MIB) == two[2 * MIB :]
    assert memory.read(6 * MIB, MIB) == two[5 : MIB + 5]


def test_a_fragment_that_is_wrong_fails_alone(store: Store, memory: Memory) -> None:
    value = content("k", 1000)
    assert store.put("k", value) == 0
    memory.write(0, bytes(4096))
    keys = [["k", "none"]]
    results = store.get_into_ranges(
        [memory.address], keys, [[[0, 100, 200], [300]]], [[[0, 990, 1000], [0]]], [[[10, 11, 1], [5]]]
    )
    assert results == [[[10, -600, -600], [-704]]]
    assert memory.read(0, 400) == value[:10] + bytes(390)


@pytest.mark.parametrize(
    ("pointers", "keys", "dst", "src", "sizes"),
    [
        (1, [["k"], ["k"]], [[[0]]], [[[0]]], [[[1]]]),
        (1, [["k"]], [[[0]]], [[[0], [0]]], [[[1]]]),
        (1, [["k"]], [[[0]]], [[[0]]], [[[1, 2]]]),
        (2, [["k"]], [[[0]], [[0]]], [[[0]], [[0]]], [[[1]], [[1]]]),
    ],
)
def test_shapes_that_differ(
    store: Store,
    memory: Memory,
    pointers: int,
    keys: list[list[str]],
    dst: list[list[list[int]]],
    src: list[list[list[int]]],
    sizes: list[list[list[int]]],
) -> None:
    assert store.put("k", b"value") == 0
    results = store.get_into_ranges([memory.address] * pointers, keys, dst, src, sizes)
    assert results == [[[-600] * len(fragments) for fragments in of_key] for of_key in dst]


def test_a_buffer_that_is_not_registered_is_refused(store: Store) -> None:
    assert store.put("k", b"value") == 0
    foreign = Memory(4096)
    assert store.get_into_ranges([foreign.address], [["k"]], [[[0]]], [[[0]]], [[[5]]]) == [[[5]]]
    assert store.get_into_ranges([0], [["k"]], [[[0]]], [[[0]]], [[[5]]]) == [[[-600]]]


LAYERS, LAYER_BYTES = 4, 64 << 10


def test_a_session_writes_layer_by_layer(cluster: Cluster, store: Store, memory: Memory) -> None:
    keys = ["a", "b", "c"]
    total = LAYERS * LAYER_BYTES
    values = [content(key, total) for key in keys]
    for i, value in enumerate(values):
        memory.write(i * total, value)
    assert store.batch_put_session_start(keys, [total] * 3) == [0, 0, 0]
    for layer in range(LAYERS):
        assert store.batch_is_exist(keys) == [0] * 3
        offset = layer * LAYER_BYTES
        half = LAYER_BYTES // 2
        codes = store.batch_put_from_multi_buffer_ranges(
            keys,
            [[memory.address + i * total + offset, memory.address + i * total + offset + half] for i in range(3)],
            [[half, half]] * 3,
            [[offset, offset + half]] * 3,
        )
        assert codes == [LAYER_BYTES] * 3
    assert [store.get(key) for key in keys] == [b""] * 3
    assert store.batch_put_session_end(keys) == [0] * 3
    assert store.get_batch(keys) == values

    reader = cluster.store()
    target = Memory(total)
    assert reader.register_buffer(target.address, target.size) == 0
    assert reader.batch_get_session_start([*keys, "none"]) == [0, 0, 0, -704]
    for key, value in zip(keys, values, strict=True):
        for layer in range(LAYERS):
            offset = layer * LAYER_BYTES
            got = reader.batch_get_into_multi_buffer_ranges(
                [key], [[target.address + offset, target.address]], [[LAYER_BYTES - 1, 1]], [[offset, offset]]
            )
            assert got == [LAYER_BYTES]
            assert target.read(offset + 1, LAYER_BYTES - 2) == value[offset + 1 : offset + LAYER_BYTES - 1]
    assert reader.batch_get_session_end(keys) == 0
    assert reader.unregister_buffer(target.address) == 0


def test_a_session_with_holes_is_not_published(store: Store, memory: Memory) -> None:
    assert store.batch_put_session_start(["k"], [1000]) == [0]
    codes = store.batch_put_from_multi_buffer_ranges(["k"], [[memory.address]], [[999]], [[0]])
    assert codes[0] >= 0
    assert store.batch_put_session_end(["k"]) == [-700]
    assert (store.is_exist("k"), store.put("k", b"free")) == (0, 0)


def test_what_a_session_refuses(store: Store, memory: Memory) -> None:
    assert store.put("taken", b"value") == 0
    assert store.batch_put_session_start(["taken", "k", ""], [10, 10, 10]) == [-705, 0, -400]
    write = store.batch_put_from_multi_buffer_ranges
    assert write(["k"], [[memory.address]], [[11]], [[0]])[0] == -600
    assert write(["k"], [[memory.address]], [[1]], [[10]])[0] == -600
    assert write(["k"], [[memory.address]], [[1, 2]], [[0]])[0] == -600
    assert write(["none"], [[memory.address]], [[1]], [[0]])[0] < 0
    assert write(["k", "k"], [[memory.address]], [[1]], [[0]]) == [-600, -600]
    assert store.batch_put_session_end(["none"])[0] < 0
    assert store.batch_put_session_revoke(["k"]) == [0]
    assert (store.is_exist("k"), store.put("k", b"free")) == (0, 0)
    assert store.batch_put_session_start(["x"], [10, 20]) == [-600]
    assert store.batch_put_session_start(["x"], [0]) == [-600]


def test_empty_parts_of_a_session_count_for_nothing(store: Store, memory: Memory) -> None:
    at, length = memory.write(0, b"0123456789"), 10
    write, read = store.batch_put_from_multi_buffer_ranges, store.batch_get_into_multi_buffer_ranges
    assert write(["k"], [[at]], [[0]], [[0]]) == [-600], "there is no session yet"
    assert store.batch_put_session_start(["k"], [length]) == [0]
    assert write(["k"], [[at]], [[0]], [[0]]) == [0]
    assert write(["k"], [[0, at]], [[0, length]], [[5, 0]]) == [length]
    assert store.batch_put_session_end(["k"]) == [0]
    assert read(["k"], [[]], [[]], [[]]) == [-600], "there is no session yet"
    assert store.batch_get_session_start(["k"]) == [0]
    assert read(["k", "k", "k"], [[], [at], [0, at + 100]], [[], [0], [0, 3]], [[], [0], [0, 7]]) == [0, 0, 3]
    assert memory.read(100, 3) == b"789"
    assert store.batch_get_session_end(["k"]) == 0


def test_a_read_session_ends_with_its_lease(store: Store, memory: Memory) -> None:
    assert store.put("k", b"value") == 0
    assert store.batch_get_session_start(["k"]) == [0]
    read = store.batch_get_into_multi_buffer_ranges
    assert read(["k"], [[memory.address]], [[5]], [[0]]) == [5]
    assert read(["k"], [[memory.address]], [[6]], [[0]])[0] == -600
    # The leases of this pool last 300 ms.
    wait_until(lambda: read(["k"], [[memory.address]], [[5]], [[0]]) == [-707], 5, "the lease is over")
    assert store.batch_get_session_end(["k"]) == 0
    assert read(["k"], [[memory.address]], [[5]], [[0]])[0] < 0


def test_sessions_with_two_replicas(cluster: Cluster, store: Store, memory: Memory) -> None:
    config = ReplicateConfig()
    config.replica_num = 2
    value = content("k", MIB)
    memory.write(0, value)
    assert store.batch_put_session_start(["k"], [MIB], config) == [0]
    half = MIB // 2
    for offset in (half, 0):
        codes = store.batch_put_from_multi_buffer_ranges(["k"], [[memory.address + offset]], [[half]], [[offset]])
        assert codes[0] >= 0
    assert store.batch_put_session_end(["k"]) == [0]
    assert len(store.get_replica_desc("k")) == 2
    assert cluster.store().get("k") == value
