"""Copies many small arrays into one piece of memory, with NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mooncake._values.structured.array import Array

__all__ = ["concat_arrays_into"]

_MAX_ADDRESS = (1 << 64) - 1


def concat_arrays_into(
    arrays: list[Array], dest_ptr: int, dest_size: int, start: int = 0, count: int = -1, nthreads: int = 1
) -> int:
    """Copies `arrays[start:start + count]`, one after the other, to the `dest_size` bytes at the address `dest_ptr`.

    A negative `count` means all arrays from `start` on. One thread copies; `nthreads` has no effect. Returns the
    number of bytes copied.

    Raises TypeError for an item that is no ndarray. Raises ValueError for an array that is not C-contiguous or holds
    Python objects, and if the memory is too small or no address. After an error nothing was copied.
    """
    from mooncake._values.structured.array import bytes_of, memory_at, np

    if not isinstance(arrays, list):
        raise TypeError(f"arrays must be a list, not {type(arrays).__name__}")
    start = min(max(start, 0), len(arrays))
    chosen = arrays[start:] if count < 0 else arrays[start : start + count]
    for index, array in enumerate(chosen, start):
        _check(np, array, index)
    total_bytes: int = sum(array.nbytes for array in chosen)
    if total_bytes > dest_size:
        raise ValueError(f"destination buffer too small: need {total_bytes} bytes, got {dest_size}")
    if total_bytes:
        if not 0 < dest_ptr <= _MAX_ADDRESS - total_bytes:
            raise ValueError(f"no address of memory: {dest_ptr}")
        np.concatenate([bytes_of(array) for array in chosen], out=memory_at(dest_ptr, total_bytes))
    return total_bytes


def _check(np: Any, array: object, index: int) -> None:
    if not isinstance(array, np.ndarray):
        raise TypeError(f"arrays[{index}] is not an ndarray")
    if not array.flags.c_contiguous:
        raise ValueError(f"arrays[{index}] is not C-contiguous")
    if array.dtype.hasobject:
        raise ValueError(f"arrays[{index}] holds Python objects")
