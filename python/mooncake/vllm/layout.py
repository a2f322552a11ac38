"""The layout of a block: the places of its parts in the paged KV cache, and their offsets in the object.

An object holds the layers of a block one after the other, each in the order of its memory. The object is the same
whether it is written as a whole or layer by layer.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MAX_PIECES = 4096


def contiguous_pieces(shape: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    """The contiguous runs of memory that the elements of a tensor fill, as pairs of offset and length, in ascending
    order.

    `strides` and the result are in bytes. The last entry of `shape` and `strides` is the element itself: its size in
    bytes, with stride 1. Raises ValueError for more than `MAX_PIECES` runs.
    """
    dims = sorted((stride, size) for size, stride in zip(shape, strides, strict=True) if size > 1)
    run = 1
    while dims and dims[0][0] == run:
        run *= dims.pop(0)[1]
    count = 1
    for _, size in dims:
        count *= size
    if count > MAX_PIECES:
        raise ValueError(f"a block of this KV cache lies in {count} pieces; at most {MAX_PIECES} can be moved at once")
    steps = [range(0, size * stride, stride) for stride, size in reversed(dims)]
    return [(sum(offsets), run) for offsets in itertools.product(*steps)]


@dataclass(frozen=True)
class Layer:
    """One layer's part of every block. The part of block `i` begins at `address + i * stride_bytes`."""

    address: int
    stride_bytes: int
    pieces: tuple[tuple[int, int], ...]

    @property
    def block_bytes(self) -> int:
        return sum(length for _, length in self.pieces)

    @staticmethod
    def of(address: int, shape: Sequence[int], strides: Sequence[int], item_bytes: int, blocks: int) -> Layer:
        """Makes a layer from a tensor: its address, its shape and strides in elements, and its element size. The cache
        has `blocks` blocks.

        The tensor's first axis counts the blocks, or its second axis if keys and values come first. If that axis is a
        multiple of `blocks`, the attention kernel has split each block. Raises ValueError if no axis fits.
        """
        for axis in (0, 1):
            if axis < len(shape) and blocks > 0 and shape[axis] >= blocks and shape[axis] % blocks == 0:
                break
        else:
            raise ValueError(f"a KV cache of shape {list(shape)} has no axis for its {blocks} blocks")
        split = shape[axis] // blocks
        inner_shape = [*shape[:axis], split, *shape[axis + 1 :], item_bytes]
        inner_strides = [*(stride * item_bytes for stride in strides), 1]
        return Layer(address, strides[axis] * item_bytes * split, tuple(contiguous_pieces(inner_shape, inner_strides)))


class BlockLayout:
    """The layers of a worker. Layers that share their memory count as one."""

    def __init__(self, layers: Mapping[str, Layer]) -> None:
        """Raises ValueError if there are no layers."""
        if not layers:
            raise ValueError("there is no KV cache to keep in the pool")
        self.layers: list[Layer] = []
        self.index: dict[str, int] = {}
        seen: dict[tuple[int, int], int] = {}
        for name in sorted(layers, key=natural_order):
            layer = layers[name]
            place = seen.setdefault((layer.address, layer.stride_bytes), len(self.layers))
            if place == len(self.layers):
                self.layers.append(layer)
            self.index[name] = place
        self.offsets = [0, *itertools.accumulate(layer.block_bytes for layer in self.layers)]

    @property
    def block_bytes(self) -> int:
        """The length in bytes of the object that holds a block."""
        return self.offsets[-1]

    def buffers(self, block_id: int) -> tuple[list[int], list[int]]:
        """The addresses and lengths of a whole block, in the order of the object."""
        addresses, lengths = [], []
        for layer in self.layers:
            base = layer.address + block_id * layer.stride_bytes
            for offset, length in layer.pieces:
                addresses.append(base + offset)
                lengths.append(length)
        return addresses, lengths

    def layer_buffers(self, place: int, block_id: int) -> tuple[list[int], list[int], list[int]]:
        """One layer's part of a block: addresses, lengths in bytes, and offsets in the object."""
        layer = self.layers[place]
        base = layer.address + block_id * layer.stride_bytes
        lengths = [length for _, length in layer.pieces]
        starts = itertools.accumulate(lengths[:-1], initial=self.offsets[place])
        return [base + offset for offset, _ in layer.pieces], lengths, list(starts)


def natural_order(name: str) -> list[tuple[int, str]]:
    """A sort key under which `layers.10` comes after `layers.9`."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]
