"""The codecs of columns by name, and the choice of a codec for a column."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from mooncake._values.structured import byte_ragged, tensor_ragged, typed_ragged
from mooncake._values.structured.array import np
from mooncake._values.structured.column import EncodedColumn, Payload, flags, nulls_of, part
from mooncake._values.structured.infer import (
    CodecDecision,
    InferredLeaf,
    InferredNode,
    choose_leaf_codec,
    infer_structure,
    present,
)
from mooncake._values.structured.recursive import decode_tree, encode_tree, is_worth_a_tree
from mooncake._values.structured.schema import FieldSchema, schema_dtype

Encoded: TypeAlias = tuple[Payload, dict[str, Any]]
ENCODING_ERRORS = (TypeError, ValueError, OverflowError, RuntimeError, RecursionError)
BYTE_CODECS = ("media_bytes", "bytes_ragged", "utf8_ragged", "msgpack_ragged", "json_ragged")
ARRAY_CODECS = ("ragged_tensor", "typed_ragged")


def encode_values(path: str, values: Sequence[Any]) -> EncodedColumn:
    """Encodes a column of Python objects with a codec that suits them. Raises ValueError if there is none."""
    leaves: list[InferredLeaf] = []
    nodes: list[InferredNode] = []
    try:
        infer_structure(path, list(values), leaves, nodes)
        if nodes and is_worth_a_tree(leaves):
            return encode_tree(path, len(values), leaves, nodes, encode_leaf)
        return encode_leaf(path, values, choose_leaf_codec(list(values)))
    except RecursionError as error:
        raise ValueError(f"unsupported structured non-tensor field {path}: nested too deep") from error


def encode_leaf(path: str, values: Sequence[Any], decision: CodecDecision) -> EncodedColumn:
    """Encodes a column with the chosen codec. If none was chosen, raises ValueError unless all values are None."""
    codec = decision.codec if present(values) else "json_ragged"
    if not decision.accepted and codec != "json_ragged":
        raise ValueError(f"unsupported structured non-tensor field {path}: {decision.reason}")
    payload, metadata = _encode(codec, path, values, decision.metadata.get("dtype"))
    return EncodedColumn(codec, len(values), payload, {**metadata, "schema_source": "inferred_from_runtime_values"})


def encode_with_schema(path: str, values: Sequence[Any], schema: FieldSchema) -> EncodedColumn:
    """Encodes a column with the codec of its schema. With "auto", chooses one that suits the values.

    Raises ValueError for null values that the schema forbids, for an unknown codec, and if no codec suits the values.
    """
    values = list(values)
    schema.check_nulls(path, values)
    if schema.codec == "auto":
        return _encode_with_any(path, values)
    if schema.codec == "ragged_tensor_dict":
        payload, metadata = tensor_ragged.encode_dicts(values, schema.metadata.get("keys"))
        return EncodedColumn(schema.codec, len(values), payload, metadata)
    dtype = schema_dtype(schema)
    if schema.codec == "ndarray" and dtype is None:
        return _encode_with_any(path, values)
    payload, metadata = _encode(
        schema.codec, path, values, dtype if schema.codec in ("typed_ragged", "ndarray") else None
    )
    return EncodedColumn(schema.codec, len(values), payload, metadata)


def decode_column(codec: str, payload: Mapping[str, Any], rows: int, metadata: Mapping[str, Any] | None) -> list[Any]:
    """Decodes the rows of a column. Raises ValueError for an unknown codec, and if the parts do not fit together."""
    if codec == "structured_recursive":
        return decode_tree(payload, rows, metadata or {}, decode_column)
    if codec == "ragged_tensor_dict":
        return tensor_ragged.decode_dicts(payload, rows, metadata or {})
    if codec == "msgpack_ragged":
        return byte_ragged.decode_msgpack(payload, rows)
    if codec == "json_ragged":
        return byte_ragged.decode_json_rows(payload, rows)
    if codec == "utf8_ragged":
        return byte_ragged.decode_text(payload, rows)
    decoders: dict[str, Callable[..., list[Any]]] = {
        "ragged_tensor": tensor_ragged.decode,
        "typed_ragged": typed_ragged.decode,
        "media_list_ragged": byte_ragged.decode_media_lists,
        "ndarray": _decode_scalars,
        "media_bytes": byte_ragged.decode_media,
        "bytes_ragged": byte_ragged.decode_media,
    }
    if codec not in decoders:
        raise ValueError(f"unknown structured non-tensor codec: {codec}")
    return decoders[codec](payload, rows, metadata)


def _encode(codec: str, path: str, values: Sequence[Any], dtype: Any) -> Encoded:
    encoders: dict[str, Callable[[], Encoded]] = {
        "ragged_tensor": lambda: tensor_ragged.encode(values),
        "typed_ragged": lambda: typed_ragged.encode(values, dtype),
        "media_list_ragged": lambda: byte_ragged.encode_media_lists(values),
        "ndarray": lambda: _encode_scalars(values, dtype),
        "bytes_ragged": lambda: byte_ragged.encode_media(values),
        "media_bytes": lambda: byte_ragged.encode_media(values),
        "utf8_ragged": lambda: byte_ragged.encode_text(values),
        "msgpack_ragged": lambda: byte_ragged.encode_msgpack(path, values),
        "json_ragged": lambda: byte_ragged.encode_json_rows(path, values),
    }
    if codec not in encoders:
        raise ValueError(f"unsupported schema codec: {codec!r}")
    return encoders[codec]()


def _encode_with_any(path: str, values: Sequence[Any]) -> EncodedColumn:
    errors: list[str] = []
    try:
        return encode_values(path, values)
    except ENCODING_ERRORS as error:
        errors.append(str(error))
    simple = [byte_ragged.plain(value, arrays=True) for value in values]
    for codec in ("msgpack_ragged", "json_ragged"):
        try:
            return EncodedColumn(codec, len(values), *_encode(codec, path, simple, None))
        except ENCODING_ERRORS as error:
            errors.append(f"{codec}: {error}")
    raise ValueError(f"unable to infer a safe codec for structured non-tensor field {path!r}; tried {errors}")


def _encode_scalars(values: Sequence[Any], dtype: Any) -> Encoded:
    """Encodes numbers and None as an array and a mask. Raises ValueError for values that the type would change."""
    filled = [0 if value is None else value for value in values]
    data = np.asarray(filled)
    if data.ndim != 1:
        raise ValueError("ndarray codec requires one number in each row")
    data = typed_ragged.cast(data, np.dtype(dtype))
    if data.dtype.kind not in "fc" and data.tolist() != filled:
        raise ValueError(f"ndarray codec cannot store these values as {data.dtype}")
    nulls = nulls_of(values)
    return {"data": data, "nulls": nulls}, {"dtype": str(data.dtype), "shape": list(data.shape)}


def _decode_scalars(payload: Mapping[str, Any], rows: int, metadata: Mapping[str, Any] | None) -> list[Any]:
    nulls = flags(payload, "nulls", rows, "ndarray")
    data = np.asarray(part(payload, "data", "ndarray"))
    if str(data.dtype) != (metadata or {}).get("dtype", str(data.dtype)):
        raise ValueError(f"ndarray data are elements of {data.dtype}")
    if data.shape != (rows,):
        raise ValueError(f"ndarray data length {data.size} does not match rows {rows}")
    return [None if null else value for value, null in zip(data.tolist(), nulls, strict=True)]
