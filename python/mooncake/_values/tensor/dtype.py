"""The element types of stored tensors: their numbers in the header, their names in torch, and their sizes.

The numbers are stored with every tensor: they must never change.
"""

from __future__ import annotations

import importlib
from typing import Any, TypeAlias

# torch is not a dependency of this package. The methods that need it import it, so its types are unknown here.
Tensor: TypeAlias = Any

# A type's position is its number. Complex and quantized types cannot be stored.
NAMES = (
    "float32",
    "float64",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "bool",
    "float16",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
)
ITEM_BYTES = (4, 8, 1, 1, 2, 2, 4, 4, 8, 8, 1, 2, 2, 1, 1)
_CODES = {f"torch.{name}": code for code, name in enumerate(NAMES)}


def torch_module() -> Any:
    """The module `torch`.

    Raises ImportError that says what to install if it is missing.
    """
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        message = "the tensor calls of mooncake.store need PyTorch: pip install torch"
        raise ImportError(message, name="torch") from error


def code_of(dtype: object) -> int | None:
    """The number of a `torch.dtype`; None if tensors of this type cannot be stored."""
    return _CODES.get(str(dtype))


def torch_dtype(code: int) -> Any | None:
    """The `torch.dtype` with this number; None if the installed torch does not have it."""
    return getattr(torch_module(), NAMES[code], None)
