"""Codecs for rows that are tensors of one element type, and for rows that are dicts of such tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mooncake._values.structured import typed_ragged
from mooncake._values.structured.array import np
from mooncake._values.structured.column import Payload, flags, nulls_of
from mooncake._values.structured.torch_tensor import Tensor, numpy_dtype, torch_dtype, torch_module

DEFAULT_DTYPE = "torch.float32"
PARTS = ("data", "offsets", "shapes", "ndims", "nulls")
_DICT_CODEC = "ragged_tensor_dict"
_SEPARATORS = "./\\"


def encode(values: Sequence[Any]) -> tuple[Payload, dict[str, Any]]:
    """Encodes tensors, numeric arrays and None. They are decoded as tensors on the host.

    Raises ValueError for several element types, and for types without a NumPy equivalent. Raises TypeError for other
    values.
    """
    tensors = [None if value is None else _on_host(value) for value in values]
    dtypes = {tensor.dtype for tensor in tensors if tensor is not None}
    if len(dtypes) > 1:
        raise ValueError(f"mixed tensor dtype: {sorted(map(str, dtypes))}")
    dtype = dtypes.pop() if dtypes else torch_dtype(DEFAULT_DTYPE)
    arrays = [None if tensor is None else tensor.numpy() for tensor in tensors]
    payload, metadata = typed_ragged.encode(arrays, numpy_dtype(dtype))
    return payload, {**metadata, "dtype": str(dtype)}


def decode(payload: Mapping[str, Any], rows: int, metadata: Mapping[str, Any] | None = None) -> list[Tensor | None]:
    """Decodes the rows. They share the memory of the data. Raises ValueError if the parts do not fit together."""
    described = metadata or {}
    dtype = torch_dtype(described.get("dtype", DEFAULT_DTYPE))
    as_arrays = {**described, "dtype": str(numpy_dtype(dtype)), "row_format": "ndarray"}
    arrays = typed_ragged.decode(payload, rows, as_arrays)
    from_numpy = torch_module().from_numpy
    return [None if array is None else from_numpy(array if array.flags.writeable else array.copy()) for array in arrays]


def encode_dicts(values: Sequence[Any], declared: Iterable[Any] | None) -> tuple[Payload, dict[str, Any]]:
    """Encodes dicts of tensors and None, key by key. Without `declared` keys, encodes all keys that occur.

    Raises TypeError for other rows and for keys whose value is None. Raises ValueError for keys that are not declared
    or cannot be part of a name, and for tensors that cannot be stored.
    """
    keys = None if declared is None else checked_keys(declared)
    found: set[str] = set()
    for row, value in enumerate(values):
        if value is not None:
            found.update(_row_keys(row, value, keys))
    keys = sorted(found) if keys is None else keys
    payload: Payload = {"null_mask": nulls_of(values)}
    codecs: dict[str, Any] = {}
    for key in keys:
        try:
            parts, codecs[key] = encode([None if value is None else value.get(key) for value in values])
        except (TypeError, ValueError, RuntimeError) as error:
            raise ValueError(f"failed to encode {_DICT_CODEC} key {key!r}: {error}") from error
        payload |= {f"{key}.{name}": part for name, part in parts.items()}
    return payload, {"keys": keys, "key_codecs": codecs}


def decode_dicts(payload: Mapping[str, Any], rows: int, metadata: Mapping[str, Any]) -> list[dict[str, Tensor] | None]:
    """Decodes the rows. Raises ValueError if the parts do not fit together."""
    nulls = flags(payload, "null_mask", rows, _DICT_CODEC)
    columns = {
        key: decode(key_parts(payload, key), rows, key_metadata(metadata, key))
        for key in checked_keys(metadata.get("keys", []))
    }
    return [
        None if nulls[row] else {key: column[row] for key, column in columns.items() if column[row] is not None}
        for row in range(rows)
    ]


def checked_keys(keys: Iterable[Any]) -> list[str]:
    """The keys, in order. Raises TypeError for a key that is no string, and ValueError for one that cannot be part of
    a name.
    """
    result: list[str] = []
    for key in keys:
        if not isinstance(key, str):
            raise TypeError(f"{_DICT_CODEC} keys must be strings")
        if not key:
            raise ValueError(f"{_DICT_CODEC} keys must not be empty")
        if any(separator in key for separator in _SEPARATORS):
            raise ValueError(f"{_DICT_CODEC} keys must not contain '.', '/', or '\\'")
        if key in result:
            raise ValueError(f"{_DICT_CODEC} keys contain duplicate key {key!r}")
        result.append(key)
    return result


def key_parts(parts: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The parts of one key, under the names that the tensor codec uses. Raises ValueError if one is missing."""
    missing = [name for name in PARTS if f"{key}.{name}" not in parts]
    if missing:
        raise ValueError(f"{_DICT_CODEC} key {key!r} is missing payloads: {missing}")
    return {name: parts[f"{key}.{name}"] for name in PARTS}


def key_metadata(metadata: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The metadata to decode the tensors of one key."""
    return dict((metadata.get("key_codecs") or {}).get(key) or {})


def _row_keys(row: int, value: Any, declared: Sequence[str] | None) -> list[str]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{_DICT_CODEC} rows must be mappings or None; row {row} is {type(value).__name__}")
    empty = [key for key, tensor in value.items() if tensor is None]
    if empty:
        raise TypeError(f"{_DICT_CODEC} rows cannot contain None tensors; row {row} has explicit None for {empty}")
    keys = checked_keys(value)
    extra = [] if declared is None else sorted(set(keys) - set(declared))
    if extra:
        raise ValueError(f"{_DICT_CODEC} row {row} has keys not declared in FieldSchema metadata['keys']: {extra}")
    return keys


def _on_host(value: Any) -> Tensor:
    torch = torch_module()
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            raise ValueError("ragged tensor codec requires numeric ndarray values")
        return torch.from_numpy(np.array(value, order="C", copy=None if value.flags.writeable else True))
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"ragged tensor codec requires tensors, not {type(value).__name__}")
    if value.dtype == torch.bfloat16:
        raise ValueError("ragged tensor codec does not support torch.bfloat16")
    return value.detach().resolve_conj().resolve_neg().cpu().contiguous()
