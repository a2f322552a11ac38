"""NumPy, and the array functions that all parts of structured objects use."""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Iterable, Sequence
from math import prod
from typing import Any, TypeAlias


def _numpy_module() -> Any:
    try:
        return importlib.import_module("numpy")
    except ImportError as error:
        message = "mooncake.structured_object_store needs NumPy: pip install numpy"
        raise ImportError(message, name="numpy") from error


# NumPy is not a dependency of this package, so its types are unknown here.
np: Any = _numpy_module()
Array: TypeAlias = Any
DType: TypeAlias = Any


def stored_dtype(dtype: object) -> DType:
    """The NumPy type that `dtype` names.

    Raises ValueError if there is none, or if its name does not determine its elements, as for objects and records.
    """
    try:
        found = np.dtype(dtype)
    except (TypeError, ValueError, SyntaxError) as error:
        raise ValueError(f"unknown element type: {dtype!r}") from error
    if found.hasobject or found.kind == "V":
        raise ValueError(f"elements of type {found} cannot be stored as an ndarray")
    return found


def length_bytes(shape: Sequence[int], dtype: DType) -> int:
    """The length of an array's elements in bytes. An empty shape means one element."""
    return prod(shape) * int(dtype.itemsize)


def stored_shape(shape: object, what: str) -> tuple[int, ...]:
    """The shape in a manifest. Raises ValueError unless it is a list of integers that are not negative."""
    if not isinstance(shape, list) or not all(type(dim) is int and dim >= 0 for dim in shape):
        raise ValueError(f"{what} is missing dtype or shape")
    return tuple(shape)


def bytes_of(array: Array) -> Array:
    """The bytes of a C-contiguous array, as a flat array that shares its memory."""
    return array.reshape(-1).view(np.uint8)


def byte_array(buffer: Any) -> Array:
    """The bytes of a buffer, as a flat array that shares its memory."""
    if memoryview(buffer).nbytes == 0:
        return np.empty(0, dtype=np.uint8)
    return np.frombuffer(buffer, dtype=np.uint8)


def memory_at(address: int, size: int, owner: object = None) -> Array:
    """The `size` bytes at `address`, as a flat array. The array, and arrays made of it, keep `owner` alive."""
    if size == 0:
        return np.empty(0, dtype=np.uint8)
    memory: Any = (ctypes.c_uint8 * size).from_address(address)
    memory.owner = owner
    return np.frombuffer(memory, dtype=np.uint8)


def object_array(values: Iterable[object]) -> Array:
    """A flat array of Python objects, even if these are sequences themselves."""
    rows = list(values)
    array = np.empty(len(rows), dtype=object)
    for row, value in enumerate(rows):
        array[row] = value
    return array
