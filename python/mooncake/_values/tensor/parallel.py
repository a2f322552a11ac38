"""The rules of shards: valid axes, the keys of shards, and the part of a tensor that a shard holds."""

from __future__ import annotations

import operator
from typing import NamedTuple

from mooncake._values.tensor.layout import AXIS_KINDS, MAX_AXES, MAX_DIMS, NO_SPLIT, Layout, LayoutAxis

# The most shards of one tensor.
MAX_SHARDS = 4096
# The kinds that a caller may name, in their order in keys.
KINDS = AXIS_KINDS[:4]
_FIELDS = ("rank", "size", "split_dim", "expert_id", "stage_id")
_I32 = range(-(1 << 31), 1 << 31)


class InvalidAxesError(ValueError):
    """Axes, or a writer's partition, that identify no shard. The text gives the reason."""


class Axis(NamedTuple):
    """One axis of a shard's identity. `kind` is in lower case."""

    kind: str
    rank: int
    size: int
    split_dim: int | None = None
    expert_id: int | None = None
    stage_id: int | None = None

    @property
    def member_id(self) -> int:
        """The id in the header: the expert of an ep axis, the stage of a pp axis, otherwise 0."""
        ids = {"ep": self.expert_id, "pp": self.stage_id}
        return ids.get(self.kind) or 0


class Partition(NamedTuple):
    """Shard `rank` of `size` equal shards along `split_dim`: a writer's part of a full tensor."""

    rank: int
    size: int
    split_dim: int

    def axis(self) -> Axis:
        return Axis("tp", self.rank, self.size, self.split_dim)


def parse_axes(parallelism: object) -> tuple[Axis, ...]:
    """The axes of a `TensorParallelism`, or of an object with the same attributes.

    Raises InvalidAxesError if they identify no shard.
    """
    axes = getattr(parallelism, "axes", None)
    if not isinstance(axes, (list, tuple)):
        raise InvalidAxesError("a TensorParallelism has a list of axes")
    if not 0 < len(axes) <= MAX_AXES:
        raise InvalidAxesError(f"{len(axes)} axes, not 1 to {MAX_AXES}")
    parsed = tuple(_parse_axis(axis) for axis in axes)
    if len({axis.kind for axis in parsed}) != len(parsed):
        raise InvalidAxesError("two axes of one kind")
    return parsed


def _parse_axis(axis: object) -> Axis:
    kind = getattr(axis, "kind", None)
    kind = kind.lower() if isinstance(kind, str) else kind
    if kind not in KINDS:
        raise InvalidAxesError(f"the kind of an axis is {kind!r}, not one of {', '.join(KINDS)}")
    parsed = Axis(kind, **_integers(axis, _FIELDS, optional=_FIELDS[2:]))  # type: ignore[arg-type]
    if not 0 <= parsed.rank < parsed.size:
        raise InvalidAxesError(f"rank {parsed.rank} of {parsed.size} on the {kind} axis")
    needed = {"tp": "split_dim", "ep": "expert_id", "pp": "stage_id"}.get(kind)
    if needed is not None and getattr(parsed, needed) is None:
        raise InvalidAxesError(f"the {kind} axis needs {needed}")
    if kind != "tp" and parsed.split_dim is not None:
        raise InvalidAxesError(f"only a tp axis has a split_dim, not one of kind {kind}")
    return parsed


def parse_partition(value: object) -> Partition:
    """A writer's partition, from an object with the integers `rank`, `size` and `split_dim`.

    Raises InvalidAxesError for other objects and for values out of range.
    """
    integers = _integers(value, _FIELDS[:3], optional=())
    partition = Partition(**integers)  # type: ignore[arg-type]
    if not 0 <= partition.rank < partition.size or partition.split_dim < 0:
        raise InvalidAxesError(f"{partition} is no partition")
    return partition


def _integers(value: object, names: tuple[str, ...], optional: tuple[str, ...]) -> dict[str, int | None]:
    found: dict[str, int | None] = {}
    for name in names:
        item = getattr(value, name, None)
        if item is None and name in optional:
            found[name] = None
            continue
        try:
            found[name] = operator.index(item)  # type: ignore[arg-type]
        except TypeError:
            raise InvalidAxesError(f"{name} is {item!r}, no integer") from None
        if found[name] not in _I32:
            raise InvalidAxesError(f"{name} is {item!r}, more than 32 bits hold")
    return found


def tp_axis(axes: tuple[Axis, ...]) -> Axis | None:
    """The tp axis; None without one."""
    return next((axis for axis in axes if axis.kind == "tp"), None)


def with_tp(axes: tuple[Axis, ...], rank: int, size: int) -> tuple[Axis, ...]:
    """The same axes with another rank and size of the tp axis."""
    return tuple(axis._replace(rank=rank, size=size) if axis.kind == "tp" else axis for axis in axes)


def in_order(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
    """The axes in their order in keys."""
    return tuple(sorted(axes, key=lambda axis: KINDS.index(axis.kind)))


def tp_key(key: str, rank: int) -> str:
    """The key of a shard with only a tp axis."""
    return f"{key}_tp_{rank}"


def shard_key(key: str, axes: tuple[Axis, ...]) -> str:
    """The key of the shard that these axes identify, in any order."""
    if len(axes) == 1 and axes[0].kind == "tp":
        return tp_key(key, axes[0].rank)
    return key + "".join(f"__{_suffix(axis)}" for axis in in_order(axes))


def _suffix(axis: Axis) -> str:
    marks = (("_sd", axis.split_dim), ("_eid", axis.expert_id), ("_sid", axis.stage_id))
    tail = "".join(f"{mark}{value}" for mark, value in marks if value is not None)
    return f"{axis.kind}_{axis.rank}of{axis.size}{tail}"


def partition_key(key: str, partition: Partition) -> str:
    """The key of a writer's shard."""
    return f"{key}__writer_{partition.rank}of{partition.size}_sd{partition.split_dim}"


def writer_manifest_key(key: str) -> str:
    """The key of the manifest beside writers' shards."""
    return f"{key}__writer_manifest"


def parallelism_manifest_key(key: str) -> str:
    """The key of the manifest beside the shards of a parallelism."""
    return f"{key}__parallelism_manifest"


def splits(shape: tuple[int, ...], split_dim: int, count: int) -> bool:
    """Whether the shape divides into `count` equal shards along `split_dim`."""
    return 0 <= split_dim < len(shape) and 0 < count <= MAX_SHARDS and shape[split_dim] % count == 0


def shard_shape(shape: tuple[int, ...], split_dim: int, count: int) -> tuple[int, ...]:
    """The shape of one of `count` equal shards."""
    return (*shape[:split_dim], shape[split_dim] // count, *shape[split_dim + 1 :])


def shard_layout(
    dtype: int, global_shape: tuple[int, ...], local_shape: tuple[int, ...], axes: tuple[Axis, ...]
) -> Layout | None:
    """The layout of a shard with these axes; None if a split dimension or the number of dimensions is out of range."""
    if len(local_shape) > MAX_DIMS:
        return None
    stored = []
    for position, axis in enumerate(axes):
        split_dim = NO_SPLIT if axis.split_dim is None else axis.split_dim
        if axis.split_dim is not None and not 0 <= axis.split_dim < len(local_shape):
            return None
        extent = 0 if axis.split_dim is None else local_shape[axis.split_dim]
        kind = AXIS_KINDS.index(axis.kind)
        stored.append(LayoutAxis(kind, position, axis.rank, axis.size, split_dim, axis.member_id, extent))
    return Layout(dtype, global_shape, local_shape, tuple(stored), is_shard=True)


def axes_of(layout: Layout) -> tuple[Axis, ...] | None:
    """The axes of a stored shard, in their order in keys; None for a full tensor, or an axis of an unknown kind."""
    if not layout.is_shard or any(axis.kind >= len(KINDS) for axis in layout.axes):
        return None
    return in_order(tuple(_stored_axis(axis) for axis in layout.axes))


def _stored_axis(axis: LayoutAxis) -> Axis:
    kind = KINDS[axis.kind]
    return Axis(
        kind,
        axis.rank,
        axis.size,
        axis.split_dim if axis.split_dim >= 0 else None,
        axis.member_id if kind == "ep" else None,
        axis.member_id if kind == "pp" else None,
    )


def is_shard_of(layout: Layout, axes: tuple[Axis, ...]) -> bool:
    """Whether a stored object is exactly the shard that these axes identify."""
    return axes_of(layout) == in_order(axes)
