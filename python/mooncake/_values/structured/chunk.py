"""Splits payloads into chunks, and finds the chunks of a payload's ranges."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple, TypeAlias

from mooncake._values.structured.array import Array, np
from mooncake._values.structured.manifest import PayloadSpec

# Byte arrays that are stored as one object, one after the other.
Chunk: TypeAlias = list[Array]


class Range(NamedTuple):
    """`length` bytes at offset `source` of a payload, to be read to offset `target` of the destination."""

    source: int
    target: int
    length: int


class Fragments(NamedTuple):
    """The ranges to read from one chunk. `size` is the chunk's length in bytes."""

    key: str
    size: int
    ranges: list[Range]


def split(arrays: Iterable[Array], chunk_bytes: int) -> list[Chunk]:
    """Splits the bytes of all arrays into chunks of `chunk_bytes`; the last may be shorter. Copies nothing."""
    chunks: list[Chunk] = []
    room = 0
    for array in arrays:
        offset = 0
        while offset < len(array):
            if room == 0:
                chunks.append([])
                room = chunk_bytes
            part = array[offset : offset + room]
            chunks[-1].append(part)
            offset += len(part)
            room -= len(part)
    return chunks


def chunk_size(chunk: Sequence[Array]) -> int:
    """The length of a chunk in bytes."""
    return sum(len(part) for part in chunk)


def joined(chunk: Chunk) -> memoryview:
    """The bytes of a chunk in one piece. Copies them only if the chunk has several arrays."""
    return memoryview(chunk[0] if len(chunk) == 1 else np.concatenate(chunk))


def fragments(payload: PayloadSpec, ranges: Iterable[Range]) -> list[Fragments]:
    """The chunks of the ranges, with the part of each. Raises ValueError for a range that is not all within the
    payload.
    """
    chunks = payload["chunks"]
    starts = [0, *accumulate(chunk["bytes"] for chunk in chunks)]
    found: dict[int, list[Range]] = {}
    for source, target, length in ranges:
        end = source + length
        if source < 0 or length < 0 or end > starts[-1]:
            raise ValueError(f"range [{source}, {end}) is outside of payload {payload['key']}, {starts[-1]} bytes")
        while source < end:
            index = bisect_right(starts, source) - 1
            size = min(end, starts[index + 1]) - source
            found.setdefault(index, []).append(Range(source - starts[index], target, size))
            source, target = source + size, target + size
    return [Fragments(chunks[i]["key"], chunks[i]["bytes"], found[i]) for i in sorted(found)]
