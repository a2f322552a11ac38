"""Batches in the forms that callers have: objects with three sections, or flat dicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mooncake._values.structured.array import Array, np, object_array
from mooncake._values.structured.schema import FieldSchema, check_sections, schema_section
from mooncake._values.structured.torch_tensor import is_tensor

_SECTIONS = ("batch", "non_tensor_batch", "meta_info")


@dataclass(frozen=True)
class Batch:
    """The fields of a batch, by section, and its number of rows."""

    batch: dict[str, Any]
    non_tensor_batch: dict[str, Any]
    meta_info: dict[str, Any]
    size: int


def split(data: Any, schemas: Mapping[str, FieldSchema] | None) -> Batch:
    """Splits a batch into its sections. An object or a dict may have the sections; any other dict is all `batch`.

    Raises TypeError for a section that is no mapping. Raises ValueError for fields of different lengths, for a field
    in two sections, and for a schema that names another section.
    """
    if not isinstance(data, Mapping):
        raw = [getattr(data, name, None) for name in _SECTIONS]
    elif data and set(data) <= set(_SECTIONS) and all(map(_is_section, data.values())):
        raw = [data.get(name) for name in _SECTIONS]
    else:
        raw = [data, None, None]
    batch, non_tensor, meta_info = map(_as_dict, raw)
    check_sections(dict(zip(_SECTIONS, (batch, non_tensor, meta_info), strict=True)), schemas)
    sizes = {len(value) for section in (batch, non_tensor) for value in section.values()}
    if len(sizes) > 1:
        raise ValueError(f"DataProto fields have inconsistent batch sizes: {sorted(sizes)}")
    if batch.keys() & non_tensor.keys():
        both = sorted(batch.keys() & non_tensor.keys())
        raise ValueError(f"DataProto batch and non_tensor_batch fields overlap: {both}")
    return Batch(batch, non_tensor, meta_info, max(sizes, default=0))


def built(sections: Mapping[str, dict[str, Any]], data_cls: Any) -> Any:
    """The sections as an object of the caller's class, or as a dict for None and `dict`. Raises TypeError if the class
    does not accept them.
    """
    if data_cls is None or data_cls is dict:
        return dict(sections)
    batch, non_tensor, meta_info = (sections[name] for name in _SECTIONS)
    from_dict = getattr(data_cls, "from_dict", None)
    try:
        if callable(from_dict):
            return from_dict(batch, non_tensor, meta_info=meta_info)
        return data_cls(batch=batch, non_tensor_batch=non_tensor, meta_info=meta_info)
    except TypeError as error:
        name = getattr(data_cls, "__name__", data_cls)
        raise TypeError(f"{name!r} cannot be constructed from batch, non_tensor_batch, and meta_info") from error


def from_flat(data: Any, schemas: Mapping[str, FieldSchema] | None) -> dict[str, Any]:
    """Sorts the fields of a flat dict into sections: rows of numbers, other rows, and the rest. A schema may name the
    section.

    Raises TypeError for data that is no mapping, and ValueError if the number of rows is ambiguous.
    """
    if not isinstance(data, Mapping):
        raise TypeError("flat dict payload must be a mapping")
    declared = {name: schema_section(name, schema) for name, schema in (schemas or {}).items() if name in data}
    pinned = _declared_rows(data, declared)
    rows = pinned or _guessed_rows([data[name] for name in data if declared.get(name) != "meta_info"])
    sections: dict[str, dict[str, Any]] = {name: {} for name in _SECTIONS}
    for name, value in data.items():
        section = declared.get(name) or _guessed_section(value, rows, bool(pinned))
        if section == "non_tensor_batch":
            value = _column(name, value, rows)
        sections[section][name] = value
    return sections


def to_flat(sections: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """All fields in one dict, with columns of objects as lists. Raises ValueError for a name in two sections."""
    names = [name for section in sections.values() for name in section]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"Duplicate keys found across DataProto sections: {twice}")
    columns = {
        name: value.tolist() if isinstance(value, np.ndarray) and value.dtype == object else value
        for name, value in sections["non_tensor_batch"].items()
    }
    return {**sections["meta_info"], **sections["batch"], **columns}


def as_column(name: str, value: Any) -> Array:
    """The rows of a field, as an array. Raises TypeError if the value has no rows."""
    if isinstance(value, np.ndarray):
        return value
    if _is_sequence(value):
        return object_array(value)
    raise TypeError(f"non_tensor_batch field {name!r} must be an ndarray or non-string sequence")


def _is_section(value: Any) -> bool:
    return value is None or isinstance(value, Mapping) or callable(getattr(value, "items", None))


def _as_dict(value: Any) -> dict[str, Any]:
    if not _is_section(value):
        raise TypeError(f"expected mapping-like value, got {type(value).__name__}")
    return {} if value is None else dict(value.items())


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray))


def _is_dense(value: Any) -> bool:
    """Whether the value is an array or a tensor with rows of numbers."""
    is_array = isinstance(value, np.ndarray) and value.dtype != object
    return (is_array or is_tensor(value)) and value.ndim > 0


def _declared_rows(data: Mapping[str, Any], declared: Mapping[str, str | None]) -> int:
    """The number of rows of the fields whose schemas name a section with rows; 0 if there are none."""
    sizes = set()
    for name, section in declared.items():
        if section in ("batch", "non_tensor_batch"):
            try:
                sizes.add(len(data[name]))
            except TypeError as error:
                raise ValueError(f"flat dict row-aligned field {name!r} must be sized") from error
    if len(sizes) > 1:
        raise ValueError(f"flat dict fields have inconsistent batch sizes: {sorted(sizes)}")
    return max(sizes, default=0)


def _guessed_rows(values: Sequence[Any]) -> int:
    """The number of rows of all dense fields or, without any, of all sequences; 0 if there are none."""
    dense = {len(value) for value in values if _is_dense(value)}
    if len(dense) > 1:
        raise ValueError(f"flat dict dense fields have ambiguous batch sizes: {sorted(dense)}")
    columns = [value for value in values if _is_sequence(value) or (isinstance(value, np.ndarray) and value.ndim > 0)]
    sizes = dense or {len(value) for value in columns}
    if len(sizes) > 1:
        hint = "pass FieldSchema metadata['section'] for list-valued metadata fields"
        raise ValueError(f"flat dict fields have ambiguous batch sizes: {sorted(sizes)}; {hint}")
    return max(sizes, default=0)


def _guessed_section(value: Any, rows: int, pinned: bool) -> str:
    if rows and _is_dense(value) and len(value) == rows:
        return "batch"
    return "non_tensor_batch" if not pinned and _is_sequence(value) and len(value) == rows else "meta_info"


def _column(name: str, value: Any, rows: int) -> Array:
    column = as_column(name, value)
    if len(column) != rows:
        raise ValueError(f"flat dict non_tensor_batch field {name!r} has batch size {len(column)}, expected {rows}")
    return column
