"""Checks of arguments. A wrong type raises a TypeError that names function and argument, as in native methods."""

from __future__ import annotations

import operator
from collections.abc import Iterable

from mooncake._native import ReplicateConfig
from mooncake._values.tensor.dtype import Tensor

INVALID_PARAMS = -600
FILE_NOT_FOUND = -1100
_MAX_U64 = (1 << 64) - 1
_MAX_I32 = (1 << 31) - 1


def wrong(function: str, name: str, wanted: str, value: object) -> TypeError:
    """The error for a `value` that is not `wanted`."""
    found = type(value).__name__
    return TypeError(f"{function}(): incompatible function arguments: '{name}' must be {wanted}, not {found}")


def warn(message: str, *details: object) -> None:
    """Logs a warning. Imports `logging` only then, so that programs which import the store need not load it."""
    import logging

    logging.getLogger("mooncake.store").warning(message, *details)


def refuse(function: str, reason: str) -> int:
    """Logs why a call is refused. Returns -600."""
    warn("%s: %s", function, reason)
    return INVALID_PARAMS


def text(function: str, name: str, value: object) -> str:
    """A key or another text: a str, or bytes of UTF-8."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            pass
    raise wrong(function, name, "a str", value)


def texts(function: str, name: str, value: object) -> list[str]:
    """A list of keys."""
    return [text(function, name, item) for item in _items(function, name, "a list of str", value)]


def number(function: str, name: str, value: object) -> int:
    """An unsigned integer of 64 bits: an `int`, or an object with `__index__`."""
    return _integer(function, name, value, 0, _MAX_U64)


def numbers(function: str, name: str, value: object) -> list[int]:
    """A list of unsigned integers."""
    return [number(function, name, item) for item in _items(function, name, "a list of int", value)]


def small(function: str, name: str, value: object) -> int:
    """A signed integer of 32 bits, for a rank, a size or a dimension."""
    return _integer(function, name, value, -_MAX_I32 - 1, _MAX_I32)


def tensors(function: str, value: object) -> list[Tensor]:
    """The list `tensors_list`. Does not check the items."""
    if not isinstance(value, (list, tuple)):
        raise wrong(function, "tensors_list", "a list", value)
    return list(value)


def replication(function: str, value: object) -> ReplicateConfig | None:
    """The argument `config`: a ReplicateConfig or None."""
    if value is None or isinstance(value, ReplicateConfig):
        return value
    raise wrong(function, "config", "a ReplicateConfig", value)


def _integer(function: str, name: str, value: object, least: int, most: int) -> int:
    try:
        result = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise wrong(function, name, "an int", value) from None
    if not least <= result <= most:
        raise TypeError(
            f"{function}(): incompatible function arguments: '{name}' must be from {least} to {most}, not {result}"
        )
    return result


def _items(function: str, name: str, wanted: str, value: object) -> list[object]:
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise wrong(function, name, wanted, value)
    return list(value)
