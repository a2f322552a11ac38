"""Members and their types. The metadata holds the types of all members under one reserved name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mooncake._values.structured.array import bytes_of, np, stored_dtype
from mooncake._values.structured.manifest import check_segment
from mooncake._values.structured.source import (
    DirectCopyPayload,
    MultiBufferPayload,
    TensorObjectBuffer,
    TensorPayload,
)
from mooncake._values.structured.tensor import encode_nested
from mooncake._values.structured.torch_tensor import Tensor, is_tensor

STRUCTURED_FIELD_SPECS_KEY = "__mooncake_structured_fields__"
BYTES_SPEC = {"encoding": "bytes"}


def encode_fields(
    metadata: Mapping[str, Any], fields: Mapping[str, Any], *, has_codec: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The metadata with the types of all members, and the value to store for each member. `has_codec`: whether tensors
    are stored as a header and elements.

    Raises TypeError for metadata that is no mapping. Raises ValueError if it uses the reserved name, and for members
    that cannot be stored.
    """
    if not isinstance(metadata, Mapping):
        raise TypeError("structured metadata must be a mapping")
    if STRUCTURED_FIELD_SPECS_KEY in metadata:
        raise ValueError(f"structured metadata key {STRUCTURED_FIELD_SPECS_KEY!r} is reserved")
    if not isinstance(metadata.get("layout", "structured"), str):
        raise ValueError("structured metadata layout must be a string")
    specs, buffers = {}, {}
    for name, value in fields.items():
        check_segment(name, "buffer name")
        specs[name], buffers[name] = _encode_field(value, has_codec)
    described = {"layout": "structured", **metadata}
    if specs:
        described[STRUCTURED_FIELD_SPECS_KEY] = specs
    return described, buffers


def field_specs(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The types of the members. Raises ValueError unless the metadata holds a mapping of mappings."""
    specs = metadata.get(STRUCTURED_FIELD_SPECS_KEY, {})
    if not isinstance(specs, dict) or not all(isinstance(spec, dict) for spec in specs.values()):
        raise ValueError("structured field specs must be a dict")
    return specs


def merged_metadata(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata of a stage with the members of both arguments.

    Raises ValueError if they belong to different stages, or if a member is in both.
    """
    if old.get("dataproto") != new.get("dataproto"):
        raise ValueError("DataProto stage metadata mismatch during manifest merge")
    specs, more = field_specs(old), field_specs(new)
    if specs.keys() & more.keys():
        raise ValueError(f"structured members already exist: {sorted(specs.keys() & more.keys())}")
    return {**old, STRUCTURED_FIELD_SPECS_KEY: {**specs, **more}}


def _encode_field(value: Any, has_codec: bool) -> tuple[dict[str, Any], Any]:
    if isinstance(value, TensorObjectBuffer):
        return {"encoding": "torch_tensor"}, value
    if isinstance(value, TensorPayload):
        return _encode_tensor(value.tensor, has_codec)
    if is_tensor(value):
        return _encode_tensor(value, has_codec)
    if isinstance(value, (DirectCopyPayload, MultiBufferPayload)):
        if value.dtype is None or value.shape is None:
            return dict(BYTES_SPEC), value
        return {"encoding": "ndarray", "dtype": value.dtype, "shape": list(value.shape)}, value
    if isinstance(value, np.ndarray):
        dtype = stored_dtype(value.dtype)
        # `ascontiguousarray` turns an array without dimensions into one of one dimension, so the shape is taken
        # before.
        spec = {"encoding": "ndarray", "dtype": dtype.str, "shape": list(value.shape)}
        return spec, bytes_of(np.ascontiguousarray(value))
    return dict(BYTES_SPEC), value


def _encode_tensor(tensor: Tensor, has_codec: bool) -> tuple[dict[str, Any], Any]:
    if tensor.is_nested:
        return encode_nested(tensor, has_codec=has_codec)
    spec = {
        "encoding": "torch_tensor",
        "dtype": str(tensor.dtype),
        "shape": [int(dim) for dim in tensor.shape],
        "element_size": int(tensor.element_size()),
    }
    return spec, TensorPayload(tensor)
