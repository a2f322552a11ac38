"""Two functions that callers may replace in `mooncake.structured_object_store`. Each call looks them up there."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from mooncake._structured.array import Array


def concat_into(arrays: Sequence[Array], address: int, size: int) -> None:
    """Copies all arrays, one after the other, to the `size` bytes at `address`.

    Raises RuntimeError if the arrays have another length together.
    """
    copied = _facade()._concat_arrays_into(list(arrays), address, size, 0, len(arrays))
    if copied != size:
        raise RuntimeError(f"native fast-copy wrote {copied} bytes, expected {size}")


def has_tensor_codec() -> bool:
    """Whether tensors can be stored as a header and elements."""
    return bool(_facade()._has_tensor_codec_helpers())


def _facade() -> Any:
    return importlib.import_module("mooncake.structured_object_store")
