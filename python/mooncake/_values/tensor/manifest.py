"""The manifest beside the shards of a tensor: 96 bytes with the number of shards and the split dimension.

All numbers are little-endian: magic u32, version u16, length u16, element type i32, rank i32, split dimension i32,
number of shards i32, reserved i32, 4 bytes of padding, global shape 8 x i64, padded with -1.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from mooncake._values.tensor.dtype import ITEM_BYTES
from mooncake._values.tensor.layout import MAX_DIMS, pack_shape, parse_shape

MAGIC = 0x574D414E
VERSION = 1
_FRONT = struct.Struct("<IHHiiiii4x")
MANIFEST_BYTES = _FRONT.size + 8 * MAX_DIMS


class Manifest(NamedTuple):
    """A tensor of `global_shape`, stored as `shard_count` equal shards along `split_dim`."""

    dtype: int
    global_shape: tuple[int, ...]
    split_dim: int
    shard_count: int

    def pack(self) -> bytes:
        """The bytes of the manifest."""
        rank = len(self.global_shape)
        front = _FRONT.pack(MAGIC, VERSION, MANIFEST_BYTES, self.dtype, rank, self.split_dim, self.shard_count, 0)
        return front + pack_shape(self.global_shape)


def parse(raw: bytes) -> Manifest | None:
    """The manifest in these bytes; None if they hold none, or a contradictory one."""
    if len(raw) < MANIFEST_BYTES:
        return None
    magic, version, length, dtype, rank, split_dim, shard_count, _ = _FRONT.unpack_from(raw)
    if (magic, version, length) != (MAGIC, VERSION, MANIFEST_BYTES):
        return None
    if not 0 <= dtype < len(ITEM_BYTES) or not 0 <= rank <= MAX_DIMS:
        return None
    if not 0 <= split_dim < rank or shard_count <= 0:
        return None
    shape = parse_shape(raw[_FRONT.size : MANIFEST_BYTES], rank)
    return None if shape is None else Manifest(dtype, shape, split_dim, shard_count)
