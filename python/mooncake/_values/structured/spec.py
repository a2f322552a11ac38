"""Arguments and results: payloads, read specifications, results, and the rows of a member."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from mooncake._values.structured.array import np
from mooncake._values.structured.chunk import Range
from mooncake._values.structured.manifest import RemoteBundleRef


@dataclass(frozen=True, init=False)
class StructuredObjectPayload:
    """Metadata that JSON can hold, and named buffers. Raises TypeError without buffers."""

    metadata: Mapping[str, Any]
    buffers: Mapping[str, Any]

    def __init__(self, metadata: Mapping[str, Any] | None = None, buffers: Mapping[str, Any] | None = None) -> None:
        if buffers is None:
            raise TypeError("StructuredObjectPayload requires buffers")
        object.__setattr__(self, "metadata", {} if metadata is None else metadata)
        object.__setattr__(self, "buffers", buffers)


@dataclass
class StructuredObjectResult:
    """The metadata of a structured object, and the requested members."""

    metadata: dict[str, Any]
    objects: dict[str, Any]


@dataclass(frozen=True)
class StructuredMemberSlice:
    """The rows of a member from `start` up to, not including, `end`, in steps of `step`. Only axis 0 can be sliced."""

    axis: int
    start: int
    end: int
    step: int = 1


@dataclass(frozen=True)
class StructuredObjectReadSpec:
    """The members to read, by default all, and the rows of each."""

    ref: RemoteBundleRef | Mapping[str, Any]
    member_names: tuple[str, ...] | None = None
    member_slices: tuple[tuple[str, StructuredMemberSlice], ...] = ()

    def select_members(self, names: Sequence[str] | None) -> StructuredObjectReadSpec:
        """A copy that reads only these members; for None, all."""
        return replace(self, member_names=None if names is None else tuple(names))

    def slice_member(self, name: str, axis: int, start: int, end: int, step: int = 1) -> StructuredObjectReadSpec:
        """A copy that reads only these rows of one member."""
        slices = {**dict(self.member_slices), name: StructuredMemberSlice(axis, start, end, step)}
        return replace(self, member_slices=tuple(slices.items()))

    def member_slice(self, name: str) -> StructuredMemberSlice | None:
        """The rows of a member; None for all rows."""
        return dict(self.member_slices).get(name)


def rows_of_slice(member_slice: StructuredMemberSlice, total_rows: int) -> range:
    """The row numbers of a slice, for a member with `total_rows` rows. Raises ValueError for another axis, or a step
    that is not positive.
    """
    if member_slice.axis != 0:
        raise ValueError("structured member slicing supports axis=0 only")
    if member_slice.step <= 0:
        raise ValueError("structured member slicing step must be positive")
    return range(*slice(member_slice.start, member_slice.end, member_slice.step).indices(total_rows))


def selected_rows(rows: Any, total_rows: int) -> Sequence[int] | None:
    """The row numbers that a caller requests: a slice, a `StructuredMemberSlice`, or indices, where negative ones
    count from the end.

    Returns None for all rows. Raises TypeError for other values, IndexError for rows out of range, and ValueError for
    steps that are not positive.
    """
    if rows is None:
        return None
    if isinstance(rows, StructuredMemberSlice):
        return rows_of_slice(rows, total_rows)
    if isinstance(rows, slice):
        chosen = range(*rows.indices(total_rows))
        if chosen.step <= 0:
            raise ValueError("DataProto row slicing step must be positive")
        return chosen
    if isinstance(rows, np.ndarray) and rows.ndim == 1:
        rows = rows.tolist()
    if isinstance(rows, Sequence) and not isinstance(rows, (str, bytes, bytearray)):
        return tuple(_row_index(row, total_rows) for row in rows)
    raise TypeError("DataProto rows must be a slice, StructuredMemberSlice, or row index sequence")


def _row_index(row: Any, total_rows: int) -> int:
    if isinstance(row, (bool, np.bool_)) or not isinstance(row, (int, np.integer)):
        raise TypeError("DataProto row indices must be integers")
    index = int(row) + (total_rows if row < 0 else 0)
    if not 0 <= index < total_rows:
        raise IndexError(f"DataProto row index {row} out of range for {total_rows} rows")
    return index


def runs(rows: Sequence[int]) -> list[tuple[int, int]]:
    """Groups the rows into runs of consecutive rows: pairs of the first row and the number of rows."""
    if isinstance(rows, range) and rows.step == 1:
        return [(rows.start, len(rows))] if rows else []
    order = list(rows)
    breaks = [0, *(i for i, (a, b) in enumerate(pairwise(order), 1) if b != a + 1), len(order)]
    return [(order[begin], end - begin) for begin, end in pairwise(breaks) if begin < end]


def row_ranges(rows: Sequence[int], row_bytes: int, source: int = 0, target: int = 0) -> list[Range]:
    """The byte ranges of rows of `row_bytes` each. Rows begin at byte `source` of the payload, and go to byte `target`
    on.
    """
    ranges = []
    for first, count in runs(rows):
        ranges.append(Range(source + first * row_bytes, target, count * row_bytes))
        target += count * row_bytes
    return ranges if row_bytes else []
