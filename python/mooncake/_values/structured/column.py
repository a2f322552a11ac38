"""A column of rows of different lengths: all values one after the other, and the offset at which each row begins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from mooncake._values.structured.array import Array, np

# Arrays and buffers, under the names that their codec uses.
Payload: TypeAlias = dict[str, Any]


@dataclass
class EncodedColumn:
    """A column as it is stored: its parts become members of the structured object."""

    codec: str
    rows: int
    payload: Payload
    metadata: dict[str, Any]


def offsets_of(lengths: Iterable[int]) -> Array:
    """The offsets at which rows of these lengths begin, and the offset at which the last row ends."""
    sizes = np.fromiter(lengths, dtype=np.int64)
    offsets = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def nulls_of(values: Sequence[object]) -> Array:
    """A mask of the rows that are None."""
    return np.fromiter((value is None for value in values), dtype=np.bool_, count=len(values))


def flags(payload: Mapping[str, Any], name: str, rows: int, codec: str) -> list[bool]:
    """A part with one bool per row. Raises ValueError if it has another type or number."""
    found = np.asarray(part(payload, name, codec))
    if found.dtype != np.bool_ or found.shape != (rows,):
        raise ValueError(f"{codec} {name} length {found.size} does not match rows {rows}")
    result: list[bool] = found.tolist()
    return result


def check_offsets(payload: Mapping[str, Any], name: str, rows: int, codec: str) -> Array:
    """The offsets of `rows` rows. Raises ValueError unless they start at 0 and never decrease."""
    found = np.asarray(part(payload, name, codec))
    if found.dtype.kind not in "iu" or found.ndim != 1 or len(found) != rows + 1:
        raise ValueError(f"{codec} {name} length {found.size} does not match rows {rows}")
    if found[0] != 0 or bool((found[1:] < found[:-1]).any()):
        raise ValueError(f"{codec} {name} do not rise from 0")
    return found


def bounds(payload: Mapping[str, Any], name: str, rows: int, total: int, codec: str) -> list[int]:
    """The offsets of `rows` rows with `total` values. Raises ValueError unless they rise from 0 to `total`."""
    found = check_offsets(payload, name, rows, codec)
    if int(found[-1]) != total:
        raise ValueError(f"{codec} {name} end at {int(found[-1])}, the data at {total}")
    result: list[int] = found.tolist()
    return result


def part(payload: Mapping[str, Any], name: str, codec: str) -> Any:
    """A part of a column. Raises ValueError if it is missing."""
    if name not in payload:
        raise ValueError(f"{codec} payload is missing {name}")
    return payload[name]
