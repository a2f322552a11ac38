"""Many arrays in one copy: exactly the requested range is copied, and no byte past the end of memory."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
from mooncake._fast_copy import concat_arrays_into

np: Any = pytest.importorskip("numpy")
ARRAYS = [np.arange(3, dtype=np.uint8), np.arange(4, dtype=">i2").reshape(2, 2), np.empty(0), np.array(1.5)]


@pytest.mark.parametrize(
    ("extent", "chosen"),
    [
        ((), slice(None)),
        ((1,), slice(1, None)),
        ((1, 2), slice(1, 3)),
        ((0, 99), slice(None)),
        ((-5, 2), slice(0, 2)),
        ((9,), slice(9, 9)),
        ((0, 0), slice(0, 0)),
        ((0, 4, 8), slice(None)),
    ],
)
def test_the_chosen_arrays_are_copied(extent: tuple[int, ...], chosen: slice) -> None:
    expected = b"".join(array.tobytes() for array in ARRAYS[chosen])
    memory = ctypes.create_string_buffer(b"#" * 32, 32)
    assert concat_arrays_into(ARRAYS, ctypes.addressof(memory), len(expected), *extent) == len(expected)
    assert memory.raw == expected.ljust(32, b"#")


@pytest.mark.parametrize(
    ("arrays", "size", "kind", "message"),
    [
        (ARRAYS, 18, ValueError, "destination buffer too small: need 19 bytes, got 18"),
        ([ARRAYS[0], np.arange(8)[::2]], 99, ValueError, r"arrays\[1\] is not C-contiguous"),
        ([ARRAYS[0], b"x"], 99, TypeError, r"arrays\[1\] is not an ndarray"),
        ([np.array([None])], 99, ValueError, "holds Python objects"),
        (tuple(ARRAYS), 99, TypeError, "must be a list"),
    ],
)
def test_what_cannot_be_copied_is_refused(arrays: Any, size: int, kind: type[Exception], message: str) -> None:
    memory = ctypes.create_string_buffer(b"#" * 128, 128)
    with pytest.raises(kind, match=message):
        concat_arrays_into(arrays, ctypes.addressof(memory), size)
    with pytest.raises(ValueError, match="no address"):
        concat_arrays_into(ARRAYS, 0, 99)
    assert memory.raw == b"#" * 128
