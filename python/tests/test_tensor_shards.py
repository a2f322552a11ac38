"""Tensors stored as shards: split by a put, by axes or by writers, and read by any number of ranks."""

from __future__ import annotations

import itertools
import struct
from types import SimpleNamespace
from typing import Any

import pytest
from cluster import Memory
from mooncake._values.tensor import ParallelAxis, ReadTarget, TensorParallelism
from mooncake._values.tensor.manifest import Manifest
from mooncake.store import MooncakeDistributedStore, ReplicateConfig
from native_fake import FakeStore

torch: Any = pytest.importorskip("torch")
Store = MooncakeDistributedStore
FULL = torch.arange(8 * 12 * 6, dtype=torch.int32).reshape(8, 12, 6)


@pytest.fixture
def memory(host_memory: Memory) -> Memory:
    """Host memory only: these tests make no tensors in GPU memory."""
    return host_memory


def axis(kind: str, rank: int, size: int, **others: int) -> ParallelAxis:
    made = ParallelAxis()
    made.kind, made.rank, made.size = kind, rank, size
    for name, value in others.items():
        setattr(made, name, value)
    return made


def tp(rank: int, size: int, split_dim: int) -> ParallelAxis:
    return axis("tp", rank, size, split_dim=split_dim)


def parallelism(*axes: ParallelAxis) -> TensorParallelism:
    made = TensorParallelism()
    made.axes = list(axes)
    return made


def target(mode: str, *axes: ParallelAxis) -> ReadTarget:
    made = ReadTarget()
    made.mode = mode
    made.parallelism = parallelism(*axes) if axes else None
    return made


def partition(rank: int, size: int, split_dim: int) -> SimpleNamespace:
    return SimpleNamespace(rank=rank, size=size, split_dim=split_dim)


def shard_of(tensor: Any, rank: int, size: int, split_dim: int) -> Any:
    return tensor.chunk(size, split_dim)[rank]


def same(left: Any, right: Any) -> bool:
    return left is not None and left.dtype == right.dtype and bool(torch.equal(left, right))


OTHERS = {
    "tp": [],
    "dp and tp": [axis("dp", 1, 2)],
    "pp and tp": [axis("pp", 0, 2, stage_id=7)],
    "all": [axis("dp", 0, 3), axis("ep", 1, 2, expert_id=4), axis("pp", 1, 2, stage_id=0)],
}


def put_by_axes(store: Any, tensor: Any, size: int, split_dim: int, others: list[ParallelAxis]) -> None:
    """Stores the shards of all tp ranks. With tp alone, this function cuts them."""
    for rank in range(size):
        given = tensor if others else shard_of(tensor, rank, size, split_dim)
        code = store.put_tensor_with_parallelism("k", given, parallelism(tp(rank, size, split_dim), *others))
        assert code == 0


@pytest.mark.parametrize("split_dim", [0, 1, 2])
@pytest.mark.parametrize("layout", OTHERS)
def test_shards_are_read_with_any_number_of_ranks(store: Store, memory: Memory, layout: str, split_dim: int) -> None:
    put_by_axes(store, FULL, 2, split_dim, OTHERS[layout])
    extent = FULL.shape[split_dim]
    for size in (1, 2, 3, 4, 5, 6, 8, 12):
        divides = extent % size == 0
        # A reader may name the axes in any order.
        axes = [*reversed(OTHERS[layout]), tp(size - 1, size, split_dim)]
        whole = target("full", *axes)
        assert same(store.get_tensor_with_parallelism("k", whole), FULL) == divides
        one = target("shard", *axes)
        got = store.get_tensor_with_parallelism("k", one)
        into: Any = store.get_tensor_with_parallelism_into("k", memory.address, memory.size, one)
        if not divides:
            assert (got, into) == (None, None)
            continue
        assert same(got, shard_of(FULL, size - 1, size, split_dim))
        assert same(into, got)
        assert into.data_ptr() == memory.address + 304
        whole_into = store.get_tensor_with_parallelism_into("k", memory.address, memory.size, whole)
        assert same(whole_into, FULL)


@pytest.mark.parametrize(("count", "split_dim"), [(4, 0), (3, 1), (6, 2)])
def test_a_split_put_is_read_by_rank_and_by_target(store: Store, count: int, split_dim: int) -> None:
    assert store.put_tensor_with_tp("k", FULL, tp_size=count, split_dim=split_dim) == 0
    for rank in range(count):
        expected = shard_of(FULL, rank, count, split_dim)
        assert same(store.get_tensor_with_tp("k", rank, count, split_dim), expected)
        assert same(store.get_tensor_with_parallelism("k", target("shard", tp(rank, count, split_dim))), expected)
    assert store.get_tensor_with_tp("k", count, count) is None
    assert store.get_tensor_with_tp("k", -1, count) is None
    assert same(store.get_tensor_with_parallelism("k", target("full", tp(0, 2, split_dim))), FULL)
    assert store.get_tensor_with_parallelism("k", target("full", tp(0, 2, (split_dim + 1) % 3))) is None


@pytest.mark.parametrize(("count", "split_dim"), [(5, 0), (5, 1), (7, 2), (2, 3), (2, -1), (4097, 0), (1 << 30, 0)])
def test_unequal_parts_are_refused(store: Store, memory: Memory, count: int, split_dim: int) -> None:
    assert store.put_tensor("full", FULL) == 0
    assert store.get_tensor_into("full", memory.address, memory.size) is not None
    at = (memory.address, store.get_size("full"))
    one = parallelism(axis("dp", 0, 1), tp(0, count, split_dim))
    assert store.put_tensor_with_tp("k", FULL, 0, count, split_dim) == -600
    assert store.put_tensor_with_tp_from("k", *at, 0, count, split_dim) == -600
    assert store.put_tensor_with_parallelism("k", FULL, one) == -600
    assert store.put_tensor_with_parallelism_from("k", *at, one) == -600
    assert store.put_tensor_with_parallelism("k", FULL, writer_partition=partition(0, count, split_dim)) == -600
    assert store.put_tensor_with_parallelism_from("k", *at, writer_partition=partition(0, count, split_dim)) == -600
    assert store.remove_by_regex("^k", force=True) == 0


def test_an_empty_dimension_splits_into_a_bounded_number(store: Store) -> None:
    empty = torch.empty(0, 3)
    assert store.put_tensor_with_tp("k", empty, tp_size=2) == 0
    assert same(store.get_tensor_with_tp("k", 1, 2), empty)
    assert store.put_tensor_with_tp("many", empty, tp_size=1 << 30) == -600


def test_the_batch_forms(store: Store, memory: Memory) -> None:
    tensors = [FULL, FULL[:, :4].contiguous().half()]
    keys, room = ["a", "b"], [4096, 4096]
    places = [memory.address, memory.address + 4096]
    bad = store.batch_put_tensor_with_tp([*keys, "c", "d"], [*tensors, None, torch.zeros(3)], tp_size=2, split_dim=1)
    assert bad == [0, 0, -600, -600]
    assert all(map(same, store.batch_get_tensor_with_tp(keys, 1, 2), [shard_of(t, 1, 2, 1) for t in tensors]))
    into = store.batch_get_tensor_with_tp_into(keys, places, room, 0, 2)
    assert all(map(same, into, [shard_of(t, 0, 2, 1) for t in tensors]))
    assert store.batch_put_tensor_with_tp(["a"], [], tp_size=2) == [-600]
    assert store.batch_get_tensor_with_tp_into(keys, places, room[:1], 0, 2) == [-600, -600]
    assert store.batch_get_tensor_with_tp_into(keys, [0, 1], room, 0, 2) == [-600, -600]
    assert store.batch_put_tensor(keys, tensors) == [0, 0]
    assert all(map(same, store.batch_get_tensor_into(keys, places, room), tensors))
    lengths = [store.get_size(key) for key in keys]
    assert store.batch_put_tensor_with_tp_from(["e", "f"], places, lengths, tp_size=4) == [0, 0]
    assert store.batch_put_tensor_with_tp_from(["g", "h"], [places[0], 0], lengths, tp_size=4) == [0, -600]
    assert all(map(same, store.batch_get_tensor_with_tp(["e", "f"], 3, 4), [shard_of(t, 3, 4, 0) for t in tensors]))


def test_whole_tensors_without_ranks(store: Store) -> None:
    for size in (1, 0, -3):
        assert store.put_tensor_with_tp(f"k{size}", FULL, tp_size=size) == 0
        assert store.is_exist(f"k{size}") == 1
        assert same(store.get_tensor_with_tp(f"k{size}", tp_size=size), FULL)


def test_of_a_split_put_the_first_failure_is_returned() -> None:
    store = FakeStore()
    store.codes = {"a_tp_1": -200, "a_tp_2": -500}
    assert store.put_tensor_with_tp("a", FULL, tp_size=4) == -200
    assert store.batch_put_tensor_with_tp(["a", "b"], [FULL, FULL], tp_size=4) == [-200, 0]
    assert store.batches[-1] == [f"{key}_tp_{rank}" for key, rank in itertools.product("ab", range(4))]


def test_every_shard_gets_the_group_of_its_tensor() -> None:
    store, config = FakeStore(), ReplicateConfig()
    config.group_ids = ["x", "y", "z"]
    done = store.batch_pub_tensor_with_tp(["a", "b", "c"], [FULL, None, FULL], config, tp_size=2)
    assert done == [0, -600, 0]
    (used,) = store.configs
    assert used is not None
    assert used.group_ids == ["x", "x", "z", "z"]
    partitions = [partition(0, 2, 0)] * 3
    done = store.batch_put_tensor_with_parallelism(list("def"), [FULL] * 3, config=config, writer_partitions=partitions)
    assert done == [0, 0, 0]
    groups = [used and used.group_ids for used in store.configs[1:]]
    assert groups == [["x"], ["x"], ["y"], ["y"], ["z"], ["z"]], "a shard and its manifest each"


@pytest.mark.parametrize(("count", "split_dim"), [(4, 1), (8, 0), (1, 2)])
def test_writers_store_their_parts(store: Store, memory: Memory, count: int, split_dim: int) -> None:
    for rank in range(count):
        assert store.get_tensor_with_parallelism("k", target("full")) is None
        assert store.put_tensor_with_parallelism("k", FULL, writer_partition=partition(rank, count, split_dim)) == 0
        expected = shard_of(FULL, rank, count, split_dim)
        assert same(store.get_tensor_with_parallelism("k", target("shard", tp(rank, count, split_dim))), expected)
    assert same(store.get_tensor_with_parallelism("k", target("full")), FULL)
    into = store.get_tensor_with_parallelism_into("k", memory.address, memory.size, target("full"))
    assert same(into, FULL)
    assert store.get_tensor_with_parallelism("k") is None, "nothing is stored under the key itself"


def test_without_writers_the_full_tensor_is_the_object(store: Store, memory: Memory) -> None:
    assert store.put_tensor_with_parallelism("k", FULL) == 0
    for asked in (None, target("as_stored"), target("full")):
        assert same(store.get_tensor_with_parallelism("k", asked), FULL)
        assert same(store.get_tensor_with_parallelism_into("k", memory.address, memory.size, asked), FULL)
    assert store.get_tensor_with_parallelism("k", target("shard", tp(0, 2, 0))) is None


def test_axes_that_split_nothing(store: Store) -> None:
    axes = [axis("ep", 1, 2, expert_id=3), axis("dp", 0, 2)]
    assert store.put_tensor_with_parallelism("k", FULL, parallelism(*axes)) == 0
    assert same(store.get_tensor_with_parallelism("k", target("shard", *reversed(axes))), FULL)
    others = [axis("ep", 1, 2, expert_id=4), axis("dp", 0, 2)]
    assert store.get_tensor_with_parallelism("k", target("shard", *others)) is None
    assert store.get_tensor_with_parallelism("k", target("full", *axes)) is None


def test_from_memory_all_ranks_are_stored(store: Store, memory: Memory) -> None:
    assert store.put_tensor("full", FULL) == 0
    assert store.get_tensor_into("full", memory.address, memory.size) is not None
    at = (memory.address, store.get_size("full"))
    keys = ["tp", "dp", "ep", "writer", "plain"]
    given = [parallelism(tp(1, 4, 1)), parallelism(axis("dp", 0, 2), tp(0, 4, 1)), parallelism(axis("dp", 1, 2))]
    assert store.batch_put_tensor_with_parallelism_from(keys[:3], [at[0]] * 3, [at[1]] * 3, given) == [0, 0, 0]
    assert store.put_tensor_with_parallelism_from("writer", *at, writer_partition=partition(0, 1, 2)) == 0
    assert store.batch_put_tensor_with_parallelism_from(["plain"], [at[0]], [at[1]]) == [0]
    asked = [
        target("full", tp(0, 2, 1)),
        target("full", axis("dp", 0, 2), tp(0, 4, 1)),
        target("shard", axis("dp", 1, 2)),
        target("full"),
        None,
    ]
    assert all(same(got, FULL) for got in store.batch_get_tensor_with_parallelism(keys, asked))


def test_a_shard_in_memory_is_no_full_tensor(store: Store, memory: Memory) -> None:
    assert store.put_tensor_with_parallelism("k", FULL[:4], parallelism(tp(0, 2, 0))) == 0
    assert store.get_tensor_with_tp_into("k", memory.address, memory.size, 0, 2) is not None
    at = (memory.address, store.get_size("k_tp_0"))
    assert store.put_tensor_with_tp_from("new", *at, tp_size=2) == -600
    assert store.put_tensor_with_parallelism_from("new", *at, parallelism(tp(0, 2, 0))) == -600
    assert store.put_tensor_with_parallelism_from("new", *at, writer_partition=partition(0, 2, 0)) == -600
    assert store.put_tensor_from("copy", *at) == 0


def test_memory_past_the_end_of_its_buffer_is_not_touched(store: Store, memory: Memory) -> None:
    put_by_axes(store, FULL, 2, 0, [])
    assert store.put_tensor("whole", FULL) == 0
    size = store.get_size("whole")
    late = memory.address + memory.size - size + 1
    memory.write(memory.size - size + 1, store.get("whole")[:-1])
    before = memory.read(0, memory.size)
    shards = [target("shard", tp(0, count, 0)) for count in (2, 4)]
    for one in (target("full", tp(0, 2, 0)), *shards, target("full"), None):
        assert store.get_tensor_with_parallelism_into("k", late, size, one) is None
        assert store.get_tensor_with_parallelism_into("whole", late, size, one) is None
    assert store.put_tensor_from("new", late, size) == -600
    assert store.put_tensor_with_tp_from("new", late, size, tp_size=2) == -600
    for axes in (parallelism(tp(0, 2, 0)), parallelism(axis("dp", 0, 2))):
        assert store.put_tensor_with_parallelism_from("new", late, size, axes) == -600
    assert memory.read(0, memory.size) == before


@pytest.mark.parametrize("size", [1 << 62, 1 << 63, (1 << 64) - 1])
def test_a_length_that_no_memory_has_is_refused(store: Store, size: int) -> None:
    # The memory is not registered, so the store relies on the caller's sizes.
    memory = Memory(4096)
    assert store.put_tensor("whole", FULL[:1]) == 0
    at = memory.write(0, store.get("whole"))
    assert store.put_tensor_from("new", at, size) == -600
    assert store.batch_upsert_tensor_from(["new"], [at], [size]) == [-600]
    assert store.put_tensor_with_tp_from("new", at, size, tp_size=2) == -600
    assert store.put_tensor_with_parallelism_from("new", at, size, parallelism(tp(0, 2, 0))) == -600


def test_upserts_take_the_place_of_shards(store: Store, memory: Memory) -> None:
    new = FULL + 1000
    for tensor in (FULL, new):
        for rank in range(2):
            cut = shard_of(tensor, rank, 2, 0)
            assert store.upsert_tensor_with_parallelism("tp", cut, parallelism(tp(rank, 2, 0))) == 0
            parts = [partition(rank, 2, 1)]
            assert store.batch_upsert_tensor_with_parallelism(["w"], [tensor], writer_partitions=parts) == [0]
        assert store.upsert_tensor("full", tensor) == 0
        assert store.get_tensor_into("full", memory.address, memory.size) is not None
        at = (memory.address, store.get_size("full"))
        assert store.upsert_tensor_with_parallelism_from("from", *at, parallelism(tp(0, 4, 2 - 1))) == 0
        assert store.batch_upsert_tensor_with_parallelism_from(["whole"], [at[0]], [at[1]]) == [0]
    asked = [target("full", tp(0, 2, 0)), target("full"), target("full", tp(0, 4, 1)), None]
    assert all(same(got, new) for got in store.batch_get_tensor_with_parallelism(["tp", "w", "from", "whole"], asked))


@pytest.mark.parametrize("missing", ["k_tp_1", "k_tp_3"])
def test_a_missing_shard_is_missed_only_where_it_is_needed(store: Store, missing: str) -> None:
    put_by_axes(store, FULL, 4, 0, [])
    assert store.remove(missing, force=True) == 0
    assert store.get_tensor_with_parallelism("k", target("full", tp(0, 4, 0))) is None
    halves = [store.get_tensor_with_parallelism("k", target("shard", tp(rank, 2, 0))) for rank in range(2)]
    gone = int(missing[-1]) // 2
    assert halves[gone] is None
    assert same(halves[1 - gone], shard_of(FULL, 1 - gone, 2, 0))


def put_liar(store: Store, manifest: Manifest) -> None:
    put_by_axes(store, FULL, 2, 0, [])
    assert store.upsert("k__parallelism_manifest", manifest.pack()) == 0


@pytest.mark.parametrize(
    "manifest",
    [
        Manifest(6, (16, 12, 6), 0, 2),
        Manifest(6, (8, 12, 6), 0, 4),
        Manifest(6, (8, 12, 6), 1, 2),
        Manifest(0, (8, 12, 6), 0, 2),
        Manifest(6, (1 << 62, 12, 6), 0, 1 << 30),
        Manifest(6, (1 << 62, 1 << 62, 1 << 62), 0, 2),
        Manifest(6, (0, 12, 6), 0, 1 << 30),
    ],
    ids=["longer", "more shards", "another dimension", "another type", "too many", "huge", "empty"],
)
def test_a_manifest_that_lies_changes_nothing(store: Store, manifest: Manifest) -> None:
    put_liar(store, manifest)
    assert same(store.get_tensor_with_parallelism("k", target("full", tp(0, 2, 0))), FULL)
    assert same(store.get_tensor_with_parallelism("k", target("shard", tp(3, 4, 0))), shard_of(FULL, 3, 4, 0))


def test_a_shard_of_another_tensor_is_no_part_of_it(store: Store) -> None:
    put_by_axes(store, FULL, 2, 0, [])
    other = torch.zeros(4, 12, 5, dtype=torch.int32)
    assert store.upsert_tensor_with_parallelism("k", other, parallelism(tp(1, 2, 0))) == 0
    raw = bytearray(store.get("k_tp_0"))
    assert store.get_tensor_with_parallelism("k", target("full", tp(0, 2, 0))) is None
    assert same(store.get_tensor_with_parallelism("k", target("shard", tp(1, 4, 0))), FULL[2:4])
    assert same(store.get_tensor_with_parallelism("k", target("shard", tp(3, 4, 0))), other[2:])
    struct.pack_into("<i", raw, 176 + 8, 1)
    assert store.upsert("k_tp_0", bytes(raw)) == 0
    assert store.get_tensor_with_parallelism("k", target("shard", tp(0, 2, 0))) is None, "it says that it is rank 1"


def test_a_whole_tensor_under_the_key_of_a_shard_is_that_shard(store: Store) -> None:
    assert store.put_tensor("k_tp_1", FULL) == 0
    assert same(store.get_tensor_with_parallelism("k", target("shard", tp(1, 2, 0))), FULL)


@pytest.mark.parametrize(
    "asked",
    [
        3,
        SimpleNamespace(mode="half", parallelism=None),
        SimpleNamespace(mode=3, parallelism=None),
        SimpleNamespace(mode="shard", parallelism=None),
        SimpleNamespace(mode="shard", parallelism=3),
        SimpleNamespace(mode="as_stored", parallelism=parallelism(tp(0, 2, 0))),
        target("shard", axis("tp", 0, 2)),
        target("full", axis("tp", 2, 2, split_dim=0)),
    ],
)
def test_a_target_that_says_nothing_clear(store: Store, memory: Memory, asked: Any) -> None:
    assert store.put_tensor("k", FULL) == 0
    assert store.get_tensor_with_parallelism("k", asked) is None
    assert store.get_tensor_with_parallelism_into("k", memory.address, memory.size, asked) is None
    got = store.batch_get_tensor_with_parallelism(["k", "k"], [asked, None])
    assert (got[0], same(got[1], FULL)) == (None, True)
    assert store.batch_get_tensor_with_parallelism(["k"], asked) == [None]


@pytest.mark.parametrize(
    ("given", "writer"),
    [
        (3, None),
        (parallelism(), None),
        (parallelism(axis("tp", 0, 2)), None),
        (parallelism(tp(0, 2, 3)), None),
        (parallelism(tp(0, 2, -1)), None),
        (parallelism(tp(0, 2, 0)), partition(0, 2, 0)),
        (None, partition(2, 2, 0)),
        (None, partition(0, 5, 0)),
        (None, 3),
    ],
)
def test_a_request_that_cannot_be_stored(store: Store, given: Any, writer: Any) -> None:
    assert store.put_tensor_with_parallelism("k", FULL, given, None, writer) == -600
    assert store.upsert_tensor_with_parallelism("k", FULL, given, None, writer) == -600
    assert store.remove_by_regex("^k", force=True) == 0


def test_batches_of_requests(store: Store, memory: Memory) -> None:
    at, keys = memory.address, ["a", "b"]
    one = parallelism(axis("dp", 0, 1))
    put = store.batch_put_tensor_with_parallelism
    assert put(keys, [FULL, FULL], [one, None]) == [0, 0]
    assert put(["c", "d"], [FULL, 3], [one, one]) == [0, -600]
    assert put(["c", "d"], [FULL, FULL], [one, 3]) == [0, -600]  # type: ignore[list-item]
    assert put(keys, [FULL, FULL], [one]) == [-600, -600]
    assert put(keys, [FULL], [one, one]) == [-600, -600]
    assert put(keys, [FULL, FULL], 3) == [-600, -600]  # type: ignore[arg-type]
    assert put(keys, [FULL, FULL], [one, one], writer_partitions=[partition(0, 1, 0)] * 2) == [-600, -600]
    assert store.batch_put_tensor_with_parallelism_from(keys, [at, at], [1], [one, one]) == [-600, -600]
    assert store.batch_put_tensor_with_parallelism_from(["e"], [0], [400], [one]) == [-600]
    assert store.batch_get_tensor_with_parallelism_into(keys, [at], [1, 1]) == [None, None]
    assert store.batch_get_tensor_with_parallelism_into(keys, [0, 0], [4096, 4096]) == [None, None]
    got = store.batch_get_tensor_with_parallelism(keys, [target("shard", axis("dp", 0, 1)), None])
    assert all(same(tensor, FULL) for tensor in got)


@pytest.mark.parametrize("mode", ["full", "shard"])
def test_not_enough_room(store: Store, memory: Memory, mode: str) -> None:
    put_by_axes(store, FULL, 2, 1, [])
    asked = target(mode, tp(0, 3, 1))
    needed = 304 + FULL.numel() * 4 // (1 if mode == "full" else 3)
    memory.write(0, b"\xee" * needed)
    assert store.get_tensor_with_parallelism_into("k", memory.address, needed - 1, asked) is None
    assert store.get_tensor_with_parallelism_into("k", 0, needed, asked) is None
    assert memory.read(0, needed) == b"\xee" * needed
    assert store.get_tensor_with_parallelism_into("k", memory.address, needed, asked) is not None
