"""Decides how to store a column of Python values: with one codec, or as a tree of columns of its parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from mooncake._values.structured.array import np
from mooncake._values.structured.torch_tensor import is_tensor

MAX_STRUCT_KEYS = 64
MAX_LIST_LENGTH = 8
MAX_DEPTH = 32
# Integers up to this magnitude are exact as float64.
_EXACT_FLOAT = 1 << 53
_NUMERIC_KINDS = "biufc"


class Missing:
    """Stands for a key that a row does not have. None stands for a key whose value is None."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<MISSING>"


MISSING = Missing()


@dataclass
class CodecDecision:
    """The codec for a column, or the reason why there is none."""

    accepted: bool
    codec: str
    reason: str
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass
class InferredLeaf:
    """A column to store with one codec. `values` may hold MISSING."""

    path: str
    values: list[Any]
    decision: CodecDecision


@dataclass
class InferredNode:
    """A column of dicts or lists, whose parts are columns of their own. `children` are the keys or positions of the
    parts.

    `row_mask` marks the rows that hold a dict or list. `lengths` are the lengths of the lists. `missing` marks the
    rows without any value.
    """

    path: str
    node_type: str
    children: list[Any]
    lengths: list[int] | None = None
    row_mask: list[bool] | None = None
    missing: list[bool] = field(default_factory=list)


def present(values: Sequence[Any]) -> list[Any]:
    """The values that are neither None nor MISSING."""
    return [value for value in values if value is not None and value is not MISSING]


def is_image(value: object) -> bool:
    """Whether the value is a Pillow image."""
    return type(value).__module__.startswith("PIL.") and hasattr(value, "save")


def is_bytes(value: object) -> bool:
    """Whether the value is bytes, a bytearray or a memoryview."""
    return isinstance(value, (bytes, bytearray, memoryview))


def choose_leaf_codec(values: list[Any]) -> CodecDecision:
    """The codec that decodes every row to equal values, except that tuples become lists and all byte types become
    `bytes`.

    `accepted` is false if there is no such codec, and if no row has a value.
    """
    rows = present(values)
    if not rows:
        return CodecDecision(False, "msgpack_ragged", "all rows are null")
    if all(map(is_tensor, rows)):
        return _tensor_codec(rows)
    if all(isinstance(row, (list, tuple)) and all(is_image(x) or is_bytes(x) for x in row) for row in rows):
        return CodecDecision(True, "media_list_ragged", "all rows are media lists")
    if all(isinstance(row, np.ndarray) for row in rows):
        if all(row.dtype.kind in _NUMERIC_KINDS for row in rows):
            return CodecDecision(True, "typed_ragged", "all rows are numeric ndarray")
        return CodecDecision(False, "msgpack_ragged", "object ndarray rows")
    if all(isinstance(row, (list, tuple)) for row in rows):
        dtype = _common_dtype(rows)
        if dtype is not None:
            return CodecDecision(True, "typed_ragged", "all rows are numeric sequences", {"dtype": str(dtype)})
    if all(isinstance(row, (bool, int, float, np.number, np.bool_)) for row in rows):
        return _scalar_codec(rows)
    if all(map(is_bytes, rows)):
        return CodecDecision(True, "bytes_ragged", "all rows are bytes-like")
    if all(map(is_image, rows)):
        return CodecDecision(True, "media_bytes", "all rows are media")
    if all(isinstance(row, str) for row in rows):
        return CodecDecision(True, "utf8_ragged", "all rows are str")
    if all(isinstance(row, (dict, list, tuple, str, bool, int, float)) for row in rows):
        return CodecDecision(True, "msgpack_ragged", "all rows are msgpack-like")
    return CodecDecision(False, "msgpack_ragged", "no codec matched")


def infer_structure(
    path: str, values: list[Any], leaves: list[InferredLeaf], nodes: list[InferredNode], *, _depth: int = 0
) -> None:
    """Splits a column of dicts, or of short lists of containers, into columns of its parts. Appends to `leaves` and
    `nodes`.

    Raises ValueError if they are nested too deep.
    """
    if _depth > MAX_DEPTH:
        raise ValueError(f"infer_structure exceeded max depth {MAX_DEPTH} at {path!r}")
    node = _dict_node(path, values) or _list_node(path, values)
    if node is None:
        leaves.append(InferredLeaf(path, values, choose_leaf_codec(values)))
        return
    nodes.append(node)
    for child in node.children:
        column = [_child(value, child) for value in values]
        infer_structure(child_path(path, child), column, leaves, nodes, _depth=_depth + 1)


def child_path(path: str, child: str | int) -> str:
    """The path of one part of the column at `path`."""
    return f"{path}.{escape_key(child)}" if isinstance(child, str) else f"{path}[{child}]"


def escape_key(key: str) -> str:
    """The key with the separators of a path escaped."""
    return key.replace("\\", "\\\\").replace(".", "\\.").replace("[", "\\[")


def _tensor_codec(rows: list[Any]) -> CodecDecision:
    dtypes = sorted({str(row.dtype) for row in rows})
    if len(dtypes) > 1:
        return CodecDecision(False, "ragged_tensor", f"mixed tensor dtype: {dtypes}")
    return CodecDecision(True, "ragged_tensor", "all non-null rows are Tensor", {"dtype": dtypes[0]})


def _common_dtype(rows: list[Any]) -> Any:
    """The type that holds all numbers of all lists exactly. None if a list holds anything else, or a number would
    change.
    """
    if not all(map(_holds_numbers, rows)):
        return None
    try:
        arrays = [array for array in map(np.asarray, rows) if array.size]
        dtype = np.result_type(*({array.dtype for array in arrays} or {np.dtype(np.int64)}))
    except (TypeError, ValueError, OverflowError):
        return None
    if not all(array.dtype.kind in "iuf" for array in arrays):
        return None
    if dtype.kind == "f" and not all(_is_exact(array) for array in arrays):
        return None
    return dtype


def _holds_numbers(row: Any) -> bool:
    """Whether nested lists hold only numbers. A bool does not count: it would be decoded as a number."""
    return all(
        _holds_numbers(item) if isinstance(item, (list, tuple)) else type(item) in (int, float) or _is_number(item)
        for item in row
    )


def _is_number(item: object) -> bool:
    return isinstance(item, np.number) and not isinstance(item, np.complexfloating)


def _is_exact(array: Any) -> bool:
    """Whether all numbers are so small that no integer among them was rounded."""
    return array.size == 0 or bool((np.abs(array) <= _EXACT_FLOAT).all())


def _scalar_codec(rows: list[Any]) -> CodecDecision:
    flags = sum(isinstance(row, (bool, np.bool_)) for row in rows)
    if flags in (0, len(rows)):
        array = np.asarray(rows)
        if array.dtype.kind in _NUMERIC_KINDS and all(
            a == b or (a != a and b != b) for a, b in zip(array.tolist(), rows, strict=True)
        ):
            return CodecDecision(True, "ndarray", "all rows are numeric scalar", {"dtype": str(array.dtype)})
    return CodecDecision(True, "json_ragged", "numeric scalars without a common type")


def _dict_node(path: str, values: list[Any]) -> InferredNode | None:
    rows = present(values)
    if not rows or not all(isinstance(row, dict) for row in rows):
        return None
    keys = set(chain.from_iterable(rows))
    if len(keys) > MAX_STRUCT_KEYS or not all(isinstance(key, str) for key in keys):
        return None
    mask = [isinstance(value, dict) for value in values]
    return InferredNode(path, "dict", sorted(keys), row_mask=mask, missing=_missing(values))


def _list_node(path: str, values: list[Any]) -> InferredNode | None:
    rows = present(values)
    if not rows or not all(isinstance(row, (list, tuple)) for row in rows):
        return None
    longest = max(map(len, rows))
    if longest > MAX_LIST_LENGTH:
        return None
    if not all(item is None or _has_parts(item) for row in rows for item in row):
        return None
    mask = [isinstance(value, (list, tuple)) for value in values]
    lengths = [len(value) if isinstance(value, (list, tuple)) else 0 for value in values]
    return InferredNode(path, "list", list(range(longest)), lengths, mask, _missing(values))


def _has_parts(item: object) -> bool:
    return isinstance(item, (dict, list, tuple, np.ndarray)) or is_tensor(item)


def _missing(values: list[Any]) -> list[bool]:
    return [value is MISSING for value in values]


def _child(value: Any, child: str | int) -> Any:
    """The part of a row: MISSING if the row lacks it, None if the row is neither a dict nor a list."""
    if isinstance(child, str):
        return value.get(child, MISSING) if isinstance(value, dict) else None
    if isinstance(value, (list, tuple)):
        return value[child] if child < len(value) else MISSING
    return None
