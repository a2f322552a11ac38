"""Descriptions of parallelism: types of attributes, axes that identify no shard, and the keys of shards."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from mooncake._values.tensor import ParallelAxis, ReadTarget, TensorParallelism
from mooncake._values.tensor.parallel import (
    MAX_SHARDS,
    Axis,
    InvalidAxesError,
    Partition,
    axes_of,
    parse_axes,
    parse_partition,
    partition_key,
    shard_key,
    shard_layout,
    splits,
)


def axis(kind: str, rank: int, size: int, **others: int) -> ParallelAxis:
    made = ParallelAxis()
    made.kind, made.rank, made.size = kind, rank, size
    for name, value in others.items():
        setattr(made, name, value)
    return made


def parallelism(*axes: ParallelAxis) -> TensorParallelism:
    made = TensorParallelism()
    made.axes = list(axes)
    return made


def test_the_defaults() -> None:
    one, all_axes, target = ParallelAxis(), TensorParallelism(), ReadTarget()
    fields = (one.kind, one.rank, one.size, one.split_dim, one.expert_id, one.stage_id)
    assert fields == ("", 0, 1, None, None, None)
    assert (all_axes.axes, target.mode, target.parallelism) == ([], "as_stored", None)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kind", 3),
        ("kind", None),
        ("rank", "1"),
        ("rank", 1.5),
        ("size", None),
        ("split_dim", "0"),
        ("stage_id", 1 << 31),
    ],
)
def test_an_attribute_of_a_wrong_type(name: str, value: Any) -> None:
    with pytest.raises(TypeError, match=f"'{name}'"):
        setattr(ParallelAxis(), name, value)


def test_wrong_axes_modes_and_names() -> None:
    with pytest.raises(TypeError, match="'axes'"):
        TensorParallelism().axes = [3]  # type: ignore[list-item]
    with pytest.raises(TypeError, match="'parallelism'"):
        ReadTarget().parallelism = 3  # type: ignore[assignment]
    with pytest.raises(RuntimeError, match="Unsupported ReadTarget mode"):
        ReadTarget().mode = "half"
    with pytest.raises(AttributeError):
        ParallelAxis().ranks = 3


def test_axes_are_copied_when_set_and_can_be_changed_where_they_are() -> None:
    one = axis("tp", 0, 2, split_dim=1)
    made = parallelism(one)
    one.rank = 1
    assert made.axes[0].rank == 0
    made.axes[0].rank = 1
    target = ReadTarget()
    target.mode, target.parallelism = "FULL", made
    made.axes[0].rank = 0
    assert target.parallelism is not None
    assert (target.mode, target.parallelism.axes[0].rank) == ("full", 1)


@pytest.mark.parametrize(
    "axes",
    [
        [],
        [axis("tp", 0, 2)],
        [axis("dp", 0, 2, split_dim=0)],
        [axis("ep", 0, 2)],
        [axis("ep", 0, 2, expert_id=1, split_dim=0)],
        [axis("pp", 0, 2)],
        [axis("pp", 0, 2, stage_id=1, split_dim=0)],
        [axis("cp", 0, 2)],
        [axis("", 0, 1)],
        [axis("dp", 2, 2)],
        [axis("dp", -1, 2)],
        [axis("dp", 0, 0)],
        [axis("dp", 0, 1), axis("DP", 0, 1)],
        [axis("dp", 0, 1)] * 5,
    ],
)
def test_axes_that_identify_nothing(axes: list[ParallelAxis]) -> None:
    with pytest.raises(InvalidAxesError):
        parse_axes(parallelism(*axes))


@pytest.mark.parametrize("value", [None, 3, SimpleNamespace(), SimpleNamespace(axes=3), SimpleNamespace(axes=[3])])
def test_what_is_no_parallelism(value: object) -> None:
    with pytest.raises(InvalidAxesError):
        parse_axes(value)


@pytest.mark.parametrize(
    ("rank", "size", "split_dim"),
    [(2, 2, 0), (-1, 2, 0), (0, 0, 0), (0, 2, -1), ("0", 2, 0), (0, None, 0), (0, 1 << 31, 0)],
)
def test_what_is_no_partition(rank: Any, size: Any, split_dim: Any) -> None:
    with pytest.raises(InvalidAxesError):
        parse_partition(SimpleNamespace(rank=rank, size=size, split_dim=split_dim))


@pytest.mark.parametrize(
    ("axes", "key"),
    [
        ([axis("TP", 1, 4, split_dim=2)], "k_tp_1"),
        ([axis("dp", 1, 2)], "k__dp_1of2"),
        ([axis("tp", 1, 4, split_dim=2), axis("dp", 0, 2)], "k__dp_0of2__tp_1of4_sd2"),
        ([axis("pp", 0, 2, stage_id=7), axis("tp", 0, 1, split_dim=0)], "k__tp_0of1_sd0__pp_0of2_sid7"),
        ([axis("pp", 0, 2, stage_id=7), axis("ep", 1, 2, expert_id=-3)], "k__ep_1of2_eid-3__pp_0of2_sid7"),
    ],
)
def test_the_key_of_a_shard(axes: list[ParallelAxis], key: str) -> None:
    assert shard_key("k", parse_axes(parallelism(*axes))) == key


def test_the_key_of_a_writers_shard() -> None:
    assert partition_key("k", Partition(1, 3, 2)) == "k__writer_1of3_sd2"


def test_stored_axes_come_back_in_the_order_of_keys() -> None:
    axes = (Axis("pp", 0, 2, stage_id=7), Axis("ep", 1, 2, expert_id=0), Axis("tp", 1, 2, 0), Axis("dp", 2, 3))
    layout = shard_layout(0, (4, 2), (2, 2), axes)
    assert layout is not None
    assert axes_of(layout) == (axes[3], axes[2], axes[1], axes[0])
    assert shard_layout(0, (4, 2), (2, 2), (Axis("tp", 0, 2, 2),)) is None


@pytest.mark.parametrize(
    ("shape", "split_dim", "count", "expected"),
    [
        ((4, 6), 1, 3, True),
        ((4, 6), 1, 4, False),
        ((4, 6), 2, 1, False),
        ((4, 6), -1, 1, False),
        ((4, 6), 0, 0, False),
        ((4, 6), 0, -2, False),
        ((), 0, 1, False),
        ((0, 6), 0, MAX_SHARDS, True),
        ((0, 6), 0, MAX_SHARDS + 1, False),
    ],
)
def test_only_equal_parts(shape: tuple[int, ...], split_dim: int, count: int, expected: bool) -> None:
    assert splits(shape, split_dim, count) is expected
