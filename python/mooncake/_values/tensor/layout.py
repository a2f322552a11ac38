"""The header of a stored tensor: 304 bytes before its elements, which follow in row-major order.

All numbers are little-endian:

- Front, 40 bytes: magic u32, version u16, header length u16, element type i32, rank i32, kind u32 (0 full tensor, 1
  shard), reserved u32. Then offset and length of the elements in bytes, u64 each.
- Global shape and local shape: 8 x i64 each, padded with -1.
- Number of axes u32, reserved u32.
- 4 axes of 32 bytes: kind, position, rank, size, split dimension (-1 for none), expert or stage id, all i32; local
  extent of the split dimension i64. Unused axes are zero.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from math import prod
from typing import NamedTuple

from mooncake._values.tensor.dtype import ITEM_BYTES

MAGIC = 0x4D4F4F4E
VERSION = 1
MAX_DIMS = 8
MAX_AXES = 4
AXIS_KINDS = ("dp", "tp", "ep", "pp", "reserved")
NO_SPLIT = -1
NO_DIM = -1

_FRONT = struct.Struct("<IHHiiIIQQ")
_SHAPE = struct.Struct("<8q")
_AXIS_COUNT = struct.Struct("<II")
_AXIS = struct.Struct("<6iq")
HEADER_BYTES = _FRONT.size + 2 * _SHAPE.size + _AXIS_COUNT.size + MAX_AXES * _AXIS.size
_KIND_FULL = 0
_KIND_SHARD = 1
# No object in memory is longer than this. Larger products of dimensions are refused.
_MAX_BYTES = (1 << 63) - 1


class LayoutAxis(NamedTuple):
    """One axis of parallelism, as in the header. `kind` is a position in AXIS_KINDS."""

    kind: int
    position: int
    rank: int
    size: int
    split_dim: int
    member_id: int
    split_extent: int


class Layout(NamedTuple):
    """The content of a header. `dtype` is a number of `mooncake._values.tensor.dtype`."""

    dtype: int
    global_shape: tuple[int, ...]
    local_shape: tuple[int, ...]
    axes: tuple[LayoutAxis, ...] = ()
    is_shard: bool = False
    data_offset: int = HEADER_BYTES

    @property
    def data_bytes(self) -> int:
        """The length of the elements in bytes."""
        return prod(self.local_shape) * ITEM_BYTES[self.dtype]

    @property
    def total_bytes(self) -> int:
        """The length of the object in bytes: header and elements."""
        return self.data_offset + self.data_bytes

    def pack(self) -> bytes:
        """The bytes of the header, for elements that follow directly."""
        kind = _KIND_SHARD if self.is_shard else _KIND_FULL
        rank = len(self.global_shape)
        front = _FRONT.pack(MAGIC, VERSION, HEADER_BYTES, self.dtype, rank, kind, 0, HEADER_BYTES, self.data_bytes)
        axes = b"".join(
            _AXIS.pack(a.kind, a.position, a.rank, a.size, a.split_dim, a.member_id, a.split_extent) for a in self.axes
        )
        shapes = pack_shape(self.global_shape) + pack_shape(self.local_shape)
        return (front + shapes + _AXIS_COUNT.pack(len(self.axes), 0) + axes).ljust(HEADER_BYTES, b"\0")


def full_layout(dtype: int, shape: tuple[int, ...]) -> Layout:
    """The layout of a tensor that is stored whole."""
    return Layout(dtype, shape, shape)


def pack_shape(shape: tuple[int, ...]) -> bytes:
    """Eight dimensions of 8 bytes each, padded with -1."""
    return _SHAPE.pack(*shape, *[NO_DIM] * (MAX_DIMS - len(shape)))


def parse_shape(raw: bytes, rank: int) -> tuple[int, ...] | None:
    """The first `rank` dimensions; None if one of them is negative, or a later one is not -1."""
    dims: tuple[int, ...] = _SHAPE.unpack(raw)
    if min(dims[:rank], default=0) < 0 or any(dim != NO_DIM for dim in dims[rank:]):
        return None
    return dims[:rank]


@lru_cache(maxsize=1024)
def parse(header: bytes, total_bytes: int) -> Layout | None:
    """The layout of an object of `total_bytes` bytes that starts with `header`; None if it is no tensor.

    The layout fits the object: `data_offset + data_bytes == total_bytes`. Results are cached, because tensors of one
    layout have equal headers.
    """
    if len(header) < HEADER_BYTES or not HEADER_BYTES <= total_bytes <= _MAX_BYTES:
        return None
    front = _FRONT.unpack_from(header)
    magic, version, header_bytes, dtype, rank, kind, _, data_offset, data_bytes = front
    if (magic, version, header_bytes) != (MAGIC, VERSION, HEADER_BYTES):
        return None
    if not 0 <= dtype < len(ITEM_BYTES) or not 0 <= rank <= MAX_DIMS or kind not in (_KIND_FULL, _KIND_SHARD):
        return None
    if not HEADER_BYTES <= data_offset <= total_bytes or data_bytes != total_bytes - data_offset:
        return None
    shapes = _FRONT.size
    axes = shapes + 2 * _SHAPE.size
    global_shape = parse_shape(header[shapes : shapes + _SHAPE.size], rank)
    local_shape = parse_shape(header[shapes + _SHAPE.size : axes], rank)
    if global_shape is None or local_shape is None or not _fits(local_shape, dtype):
        return None
    parsed = _parse_axes(header[axes:HEADER_BYTES], rank)
    if parsed is None:
        return None
    layout = Layout(dtype, global_shape, local_shape, parsed, kind == _KIND_SHARD, data_offset)
    return layout if layout.data_bytes == data_bytes else None


def _fits(shape: tuple[int, ...], dtype: int) -> bool:
    """Whether the product of all dimensions fits, even without those that are zero."""
    return prod(max(dim, 1) for dim in shape) * ITEM_BYTES[dtype] <= _MAX_BYTES


def _parse_axes(raw: bytes, rank: int) -> tuple[LayoutAxis, ...] | None:
    count, _ = _AXIS_COUNT.unpack_from(raw)
    if count > MAX_AXES:
        return None
    axes = tuple(LayoutAxis(*_AXIS.unpack_from(raw, _AXIS_COUNT.size + i * _AXIS.size)) for i in range(count))
    return axes if all(_is_valid(axis, rank) for axis in axes) else None


def _is_valid(axis: LayoutAxis, rank: int) -> bool:
    return 0 <= axis.kind < len(AXIS_KINDS) and 0 <= axis.rank < axis.size and NO_SPLIT <= axis.split_dim < rank
