"""The element types that a stored tensor may have: their numbers in the header, their names in torch, their sizes.

The numbers are stored with every tensor and never change.
"""

from __future__ import annotations

import importlib
from typing import Any, TypeAlias

# torch is no dependency of this package: it is imported by the calls that need it, so its types are not known here.
Tensor: TypeAlias = Any

# The position is the number. Complex and quantized types have none.
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

    Raises ImportError, saying what to install, if there is none.
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
    """The `torch.dtype` with this number; None if the installed torch has none of that name."""
    return getattr(torch_module(), NAMES[code], None)
