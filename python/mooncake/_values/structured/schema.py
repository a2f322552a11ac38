"""Schemas of fields: the codec, the section and the element type that a caller wants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mooncake._values.structured.array import DType, stored_dtype

SECTIONS = ("batch", "meta_info", "non_tensor_batch")
_NUMERIC_KINDS = "biufc"


@dataclass(frozen=True)
class FieldSchema:
    """The codec of a field, or "auto".

    `metadata` may hold three entries:

    - `section`: the section of the batch that the schema is for;
    - `dtype`: the type of numbers;
    - `keys`: the keys of the rows of a `ragged_tensor_dict`.
    """

    codec: str
    nullable: bool = True
    metadata: dict[str, Any] = field(default_factory=dict)

    def check_nulls(self, path: str, values: Iterable[Any]) -> None:
        """Raises ValueError for null values that the schema forbids."""
        if not self.nullable and any(value is None for value in values):
            raise ValueError(f"FieldSchema for {path!r} is not nullable")


def schema_section(name: str, schema: FieldSchema) -> str | None:
    """The section that a schema is for; None for any. Raises ValueError for an unknown section."""
    section = schema.metadata.get("section")
    if section is not None and section not in SECTIONS:
        raise ValueError(f"FieldSchema for {name!r} metadata['section'] must be one of {list(SECTIONS)}")
    return section


def schema_for(schemas: Mapping[str, FieldSchema] | None, name: str, section: str) -> FieldSchema | None:
    """The schema of a field in this section; None without one."""
    schema = (schemas or {}).get(name)
    return schema if schema is not None and schema_section(name, schema) in (None, section) else None


def schema_dtype(schema: FieldSchema) -> DType | None:
    """The number type that a schema wants; None without one. Raises ValueError for a type that is not numeric."""
    name = schema.metadata.get("dtype")
    if name is None:
        return None
    dtype = stored_dtype(name)
    if dtype.kind not in _NUMERIC_KINDS:
        raise ValueError(f"FieldSchema metadata['dtype'] must be numeric or bool, got {dtype}")
    return dtype


def check_sections(sections: Mapping[str, Mapping[str, Any]], schemas: Mapping[str, FieldSchema] | None) -> None:
    """Raises ValueError if a schema names another section than the one with the field."""
    for name, schema in (schemas or {}).items():
        declared = schema_section(name, schema)
        actual = sorted(section for section, fields in sections.items() if name in fields)
        if declared is not None and actual and declared not in actual:
            found = ", ".join(map(repr, actual))
            raise ValueError(f"FieldSchema for {name!r} declares section {declared!r}, but data contains it in {found}")
