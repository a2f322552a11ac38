"""A codec for rows of numbers: each row is an array of its own shape, all have one element type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from mooncake._values.structured.array import Array, DType, np, stored_dtype
from mooncake._values.structured.column import Payload, bounds, flags, nulls_of, offsets_of, part
from mooncake._values.structured.source import DirectCopyPayload
from mooncake._values.structured.torch_tensor import is_tensor

DEFAULT_DTYPE = "int64"
_CODEC = "typed_ragged"
_MAX_NDIM = 64
# Integers up to this magnitude are exact as float64.
_EXACT_FLOAT = 1 << 53


def encode(values: Sequence[Any], dtype_hint: DType | None = None) -> tuple[Payload, dict[str, Any]]:
    """Encodes arrays, nested lists of numbers, and None. Returns the parts and the metadata to decode them.

    Raises ValueError if a number cannot be stored as the common type, or as `dtype_hint`.
    """
    dtype = stored_dtype(_common_dtype(values) if dtype_hint is None else dtype_hint)
    regular = encode_regular_rows(values, dtype)
    if regular is not None:
        return regular
    arrays = [np.empty(0, dtype) if value is None else _converted(value, dtype) for value in values]
    ndims = np.asarray([0 if value is None else a.ndim for value, a in zip(values, arrays, strict=True)], np.int16)
    max_ndim = int(ndims.max(initial=0))
    shapes = np.zeros((len(arrays), max(max_ndim, 1)), dtype=np.int64)
    for row, array in enumerate(arrays):
        shapes[row, : ndims[row]] = array.shape[: ndims[row]]
    payload = {
        "data": _flat(arrays, dtype),
        "offsets": offsets_of(array.size for array in arrays),
        "shapes": shapes,
        "ndims": ndims,
        "nulls": nulls_of(values),
    }
    return payload, _metadata(dtype, max_ndim, [isinstance(value, np.ndarray) for value in values], values)


def encode_regular_rows(values: Sequence[Any], dtype: DType) -> tuple[Payload, dict[str, Any]] | None:
    """As `encode`, without a loop over rows, for two or more C-contiguous arrays of this type and one shape. None for
    other values.
    """
    if len(values) < 2 or not all(isinstance(value, np.ndarray) for value in values):
        return None
    shape = values[0].shape
    if not all(value.shape == shape and value.dtype == dtype and value.flags.c_contiguous for value in values):
        return None
    rows, ndim = len(values), len(shape)
    payload = {
        "data": _flat(list(values), dtype),
        "offsets": np.arange(rows + 1, dtype=np.int64) * prod(shape),
        "shapes": np.tile(np.asarray(shape or (0,), dtype=np.int64), (rows, 1)),
        "ndims": np.full(rows, ndim, dtype=np.int16),
        "nulls": np.zeros(rows, dtype=np.bool_),
    }
    return payload, _metadata(dtype, ndim, [True] * rows, values)


def decode(payload: Mapping[str, Any], rows: int, metadata: Mapping[str, Any] | None = None) -> list[Any]:
    """Decodes the rows. Arrays share the memory of the data. Raises ValueError if the parts do not fit together."""
    described = metadata or {}
    data = _data(part(payload, "data", _CODEC), stored_dtype(described.get("dtype", DEFAULT_DTYPE)))
    limits = bounds(payload, "offsets", rows, len(data), _CODEC)
    nulls = flags(payload, "nulls", rows, _CODEC)
    shapes = _shapes(payload, rows)
    is_array = _array_rows(described, rows)
    values: list[Any] = []
    for row in range(rows):
        begin, end, shape = limits[row], limits[row + 1], shapes[row]
        if nulls[row]:
            values.append(None)
            continue
        if prod(shape) != end - begin or min(shape, default=0) < 0:
            raise ValueError(f"{_CODEC} row {row} has {end - begin} elements, but shape {shape}")
        array = data[begin:end] if len(shape) == 1 else data[begin:end].reshape(shape)
        values.append(array if is_array[row] else array.tolist())
    return values


def _common_dtype(values: Sequence[Any]) -> DType:
    arrays = [np.asarray(value) for value in values if value is not None]
    # Empty rows do not influence the type, unless all rows are empty.
    dtypes = {array.dtype for array in arrays if array.size} or {array.dtype for array in arrays}
    return np.result_type(*dtypes) if dtypes else np.dtype(DEFAULT_DTYPE)


def _converted(value: Any, dtype: DType) -> Array:
    """The value as a C-contiguous array of this type, in its own shape."""
    array = np.asarray(value)
    if array.size and array.dtype.kind == "f" and not isinstance(value, np.ndarray):
        _check_rounding(value, array)
    if array.size:
        array = cast(array, dtype)
    return np.array(array, dtype=dtype, order="C", copy=None)


def cast(array: Array, dtype: DType) -> Array:
    """The array as another type. Raises ValueError if values change; conversions from float to float may round."""
    if array.dtype == dtype:
        return array
    if array.dtype.kind not in "biufc":
        raise ValueError(f"{_CODEC} rows must hold numbers, not {array.dtype}")
    with np.errstate(all="ignore"):
        result = array.astype(dtype)
        if array.dtype.kind == dtype.kind and dtype.kind in "fc":
            return result
        same = np.array_equal(result.astype(array.dtype), array)
    # A large unsigned number becomes negative, and equal again when it is converted back.
    turned = dtype.kind == "i" and array.dtype.kind == "u" and bool((result < 0).any())
    if not same or turned or (dtype.kind == "u" and array.dtype.kind == "i" and bool((array < 0).any())):
        raise ValueError(f"{_CODEC} rows of {array.dtype} cannot be stored as {dtype} without changing values")
    return result


def _check_rounding(value: Any, array: Array) -> None:
    """Raises ValueError if a list of integers and floats lost digits in the conversion to an array of floats."""
    if bool((np.abs(array) > _EXACT_FLOAT).any()):
        numbers = np.asarray(value, dtype=object).reshape(-1).tolist()
        if any(a != b and b == b for a, b in zip(array.reshape(-1).tolist(), numbers, strict=True)):
            raise ValueError(f"{_CODEC} rows of large integers and floats have no type that holds both")


def _flat(arrays: list[Array], dtype: DType) -> DirectCopyPayload:
    return DirectCopyPayload.from_flat_arrays(
        [array.reshape(-1) for array in arrays], dtype, sum(array.size for array in arrays)
    )


def _metadata(dtype: DType, max_ndim: int, is_array: list[bool], values: Sequence[Any]) -> dict[str, Any]:
    described = {"dtype": str(dtype), "max_ndim": max_ndim, "shape_policy": "ragged", "ndarray_rows": None}
    if values and all(value is None or found for value, found in zip(values, is_array, strict=True)):
        return {**described, "row_format": "ndarray", "physical_layout": "contiguous_flat"}
    if any(is_array):
        return {**described, "row_format": "mixed", "ndarray_rows": is_array}
    return {**described, "row_format": "list"}


def _data(data: Any, dtype: DType) -> Array:
    """The elements of all rows, from an array, a tensor or bytes."""
    if is_tensor(data):
        data = data.numpy()
    if isinstance(data, np.ndarray) and data.dtype == dtype and data.ndim == 1:
        return np.asarray(data)
    if isinstance(data, np.ndarray) and data.dtype != np.uint8:
        raise ValueError(f"{_CODEC} data are elements of {data.dtype}, not of {dtype}")
    try:
        return np.frombuffer(data, dtype=dtype) if len(data) else np.empty(0, dtype=dtype)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{_CODEC} data are no elements of {dtype}") from error


def _shapes(payload: Mapping[str, Any], rows: int) -> list[tuple[int, ...]]:
    shapes, ndims = np.asarray(part(payload, "shapes", _CODEC)), np.asarray(part(payload, "ndims", _CODEC))
    if shapes.dtype.kind not in "iu" or shapes.ndim != 2 or len(shapes) != rows or shapes.shape[1] > _MAX_NDIM:
        raise ValueError(f"{_CODEC} shapes do not match rows {rows}")
    if ndims.dtype.kind not in "iu" or ndims.shape != (rows,):
        raise ValueError(f"{_CODEC} ndims do not match rows {rows}")
    if rows and not 0 <= ndims.min() <= ndims.max() <= shapes.shape[1]:
        raise ValueError(f"{_CODEC} ndims are outside of the shapes")
    return [tuple(shape[:ndim]) for shape, ndim in zip(shapes.tolist(), ndims.tolist(), strict=True)]


def _array_rows(metadata: Mapping[str, Any], rows: int) -> list[bool]:
    """Which rows are decoded as arrays. The others are decoded as lists."""
    kind = metadata.get("row_format")
    if kind != "mixed":
        return [kind == "ndarray"] * rows
    found = metadata.get("ndarray_rows")
    if not isinstance(found, list) or len(found) != rows:
        raise ValueError(f"{_CODEC} ndarray_rows do not match rows {rows}")
    return [bool(flag) for flag in found]
