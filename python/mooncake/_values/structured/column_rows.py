"""Reads some rows of an encoded column, without the other rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import Any

from mooncake._values.structured import recursive, tensor_ragged
from mooncake._values.structured.array import Array, DType, np
from mooncake._values.structured.chunk import Range
from mooncake._values.structured.codec import ARRAY_CODECS, BYTE_CODECS
from mooncake._values.structured.column import Payload, offsets_of
from mooncake._values.structured.members import Members
from mooncake._values.structured.spec import runs


def read_column(
    members: Members, path: str, encoded: Mapping[str, Any], rows: Sequence[int] | None
) -> tuple[Payload, Mapping[str, Any]]:
    """Reads the parts of these rows, or of all rows, of the column at `path`. Returns them and the metadata for their
    codec.

    Raises ValueError for an unknown codec, and for parts that are missing or do not fit together.
    """
    names, metadata = encoded.get("payload_members"), encoded.get("metadata") or {}
    if not isinstance(names, Mapping) or not isinstance(metadata, Mapping):
        raise ValueError("encoded field has no payload_members")
    strangers = [member for name, member in names.items() if member != f"{path}.{name}"]
    if strangers:
        raise ValueError(f"encoded field {path!r} has members of others: {strangers}")
    if rows is None:
        return {name: members.read(member) for name, member in names.items()}, metadata
    try:
        return _Column(members, names).read(str(encoded.get("codec")), metadata, rows)
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise ValueError(f"encoded field is damaged: {error!r}") from error


class _Column:
    """One column. `names` maps its parts to members."""

    def __init__(self, members: Members, names: Mapping[str, str]) -> None:
        self._members = members
        self._names = names

    def read(self, codec: str, metadata: Mapping[str, Any], rows: Sequence[int]) -> tuple[Payload, Mapping[str, Any]]:
        if codec == recursive.CODEC:
            return self._tree(metadata, rows)
        if codec == "ragged_tensor_dict":
            return self._dicts(metadata, rows)
        if codec == "ndarray":
            return self._parts(("data", "nulls"), rows), metadata
        if codec == "media_list_ragged":
            return self._media_lists(metadata, rows)
        if codec not in (*ARRAY_CODECS, *BYTE_CODECS):
            raise ValueError(f"unknown structured non-tensor codec: {codec}")
        begins, ends = self._spans("offsets", rows, self._data_type()[1])
        payload = {"data": self._values(begins, ends), "offsets": offsets_of((ends - begins).tolist())}
        parts = ("shapes", "ndims", "nulls") if codec in ARRAY_CODECS else ("nulls",)
        chosen = _chosen(_chosen(metadata, "media_encodings", rows), "ndarray_rows", rows)
        return {**payload, **self._parts(parts, rows)}, chosen

    def _parts(self, names: Sequence[str], rows: Sequence[int]) -> Payload:
        return {name: self._members.read(self._names[name], rows) for name in names}

    def _spans(self, name: str, rows: Sequence[int], limit: int) -> tuple[Array, Array]:
        """Where the rows begin and end, from the part `name`, which has the offsets. Reads an offset that two adjacent
        rows share once.

        Raises ValueError unless the offsets rise and stay within `limit`.
        """
        blocks = runs(rows)
        found = self._members.read(self._names[name], [i for first, n in blocks for i in range(first, first + n + 1)])
        limits = np.asarray(found).astype(np.int64)
        starts = np.cumsum([0, *(n + 1 for _, n in blocks)]).tolist()
        begins = [limits[a : b - 1] for a, b in pairwise(starts)]
        ends = [limits[a + 1 : b] for a, b in pairwise(starts)]
        none = np.empty(0, np.int64)
        begin, end = np.concatenate([none, *begins]), np.concatenate([none, *ends])
        if bool((begin < 0).any()) or bool((end < begin).any()) or bool((end > limit).any()):
            raise ValueError(f"encoded field has {name} that do not rise from 0 to {limit} at most")
        return begin, end

    def _data_type(self) -> tuple[DType, int]:
        """The type of the values, and their number: elements of an array, or bytes."""
        member = self._names["data"]
        if self._members.spec(member).get("encoding") != "ndarray":
            return np.dtype(np.uint8), int(self._members.payloads[member]["bytes"])
        dtype, shape = self._members.array_type(member)
        return dtype, prod(shape)

    def _values(self, begins: Array, ends: Array) -> Array:
        """The values of all rows, one after the other."""
        dtype, _ = self._data_type()
        target = np.empty(int((ends - begins).sum()), dtype=dtype)
        self._members.read_ranges(self._names["data"], _ranges(begins, ends, dtype.itemsize), target)
        return target

    def _media_lists(self, metadata: Mapping[str, Any], rows: Sequence[int]) -> tuple[Payload, Mapping[str, Any]]:
        offset_count = prod(self._members.array_type(self._names["byte_offsets"])[1])
        firsts, lasts = self._spans("row_offsets", rows, offset_count - 1)
        items = [i for a, b in zip(firsts.tolist(), lasts.tolist(), strict=True) for i in range(a, b)]
        begins, ends = self._spans("byte_offsets", items, self._data_type()[1])
        payload = {
            "data": self._values(begins, ends),
            "row_offsets": offsets_of((lasts - firsts).tolist()),
            "byte_offsets": offsets_of((ends - begins).tolist()),
        }
        return {**payload, **self._parts(("nulls",), rows)}, _chosen(metadata, "media_encodings", items)

    def _dicts(self, metadata: Mapping[str, Any], rows: Sequence[int]) -> tuple[Payload, Mapping[str, Any]]:
        payload = self._parts(("null_mask",), rows)
        codecs = {}
        for key in tensor_ragged.checked_keys(metadata.get("keys", [])):
            column = _Column(self._members, tensor_ragged.key_parts(self._names, key))
            parts, codecs[key] = column.read("ragged_tensor", tensor_ragged.key_metadata(metadata, key), rows)
            payload |= {f"{key}.{name}": part for name, part in parts.items()}
        return payload, {**metadata, "key_codecs": codecs}

    def _tree(self, metadata: Mapping[str, Any], rows: Sequence[int]) -> tuple[Payload, Mapping[str, Any]]:
        own = [node[part] for node in metadata["nodes"] for part in recursive.NODE_PARTS if node.get(part) is not None]
        leaves = []
        payload: Payload = {}
        for leaf in metadata["leaves"]:
            column = _Column(self._members, recursive.leaf_members(leaf, self._names))
            if leaf["codec"] == recursive.CODEC:
                raise ValueError("a leaf of a structured field is a tree itself")
            parts, described = column.read(leaf["codec"], leaf.get("metadata") or {}, rows)
            payload |= {leaf["payload_members"][name]: part for name, part in parts.items()}
            own.append(leaf["payload_members"]["missing"])
            leaves.append({**leaf, "metadata": described})
        return {**payload, **self._parts(own, rows)}, {**metadata, "leaves": leaves}


def _ranges(begins: Array, ends: Array, item_bytes: int) -> list[Range]:
    """The byte ranges of all rows, one after the other in the target. Merges adjacent ranges."""
    ranges: list[Range] = []
    target = 0
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        source, length = begin * item_bytes, (end - begin) * item_bytes
        last = ranges[-1] if ranges else None
        if last is not None and last.source + last.length == source:
            ranges[-1] = last._replace(length=last.length + length)
        elif length:
            ranges.append(Range(source, target, length))
        target += length
    return ranges


def _chosen(metadata: Mapping[str, Any], name: str, rows: Sequence[int]) -> Mapping[str, Any]:
    """The metadata, with only the entries of these rows in the list `name`, if it has that list."""
    found = metadata.get(name)
    if found is None:
        return metadata
    if not isinstance(found, list) or (rows and max(rows) >= len(found)):
        raise ValueError(f"encoded field has too few {name}")
    return {**metadata, name: [found[row] for row in rows]}
