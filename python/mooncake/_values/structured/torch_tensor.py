"""torch, and the torch functions that structured objects use.

torch is imported when a tensor is read. A caller that writes a tensor has imported it already.
"""

from __future__ import annotations

import importlib
import io
import sys
from typing import Any, TypeAlias

from mooncake._values.structured.array import DType

Tensor: TypeAlias = Any


def torch_module() -> Any:
    """The module `torch`. Raises ImportError that says what to install if it is missing."""
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        message = "tensors in structured objects need PyTorch: pip install torch"
        raise ImportError(message, name="torch") from error


def is_tensor(value: object) -> bool:
    """Whether the value is a `torch.Tensor`. Does not import torch: without torch there are no tensors."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def torch_dtype(name: object) -> Any:
    """The `torch.dtype` of a name like `torch.int64`. Raises ValueError for other names."""
    torch = torch_module()
    found = getattr(torch, name.removeprefix("torch."), None) if isinstance(name, str) else None
    if not isinstance(found, torch.dtype):
        raise ValueError(f"unknown torch dtype: {name!r}")
    return found


def numpy_dtype(dtype: Any) -> DType:
    """The NumPy type with the same values as a `torch.dtype`. Raises ValueError if there is none, as for bfloat16."""
    try:
        return torch_module().empty(0, dtype=dtype).numpy().dtype
    except (TypeError, RuntimeError) as error:
        raise ValueError(f"{dtype} has no NumPy type with the same values") from error


def saved(tensor: Tensor) -> bytes:
    """The bytes that `torch.save` writes."""
    buffer = io.BytesIO()
    torch_module().save(tensor, buffer)
    return buffer.getvalue()


def loaded(payload: bytes) -> Tensor:
    """Loads the bytes of `torch.save`, without running code in them. Raises ValueError if they are damaged."""
    torch = torch_module()
    try:
        tensor = torch.load(io.BytesIO(payload), weights_only=True)
    except Exception as error:  # torch has no error class for a damaged file
        raise ValueError(f"invalid torch_save payload: {error}") from error
    if not is_tensor(tensor):
        raise ValueError("invalid torch_save payload: no tensor")
    return tensor
