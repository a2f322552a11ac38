"""Comparisons and sample values for the tests of structured objects."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import pytest

np: Any = pytest.importorskip("numpy")


def column(*rows: object) -> Any:
    """Rows in the form that a batch has: a flat array of Python objects."""
    array = np.empty(len(rows), dtype=object)
    for index, row in enumerate(rows):
        array[index] = row
    return array


def chosen(values: Any, rows: Any) -> Any:
    """The rows that a read of `rows` must return."""
    return values if rows is None else values[list(rows) if isinstance(rows, tuple) else rows]


def same(actual: Any, expected: Any) -> bool:
    """Whether both are equal in value, type, element type and shape, at every level. NaN equals NaN."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(expected, torch.Tensor):
        return _same_tensors(torch, actual, expected)
    if isinstance(expected, np.ndarray):
        if not isinstance(actual, np.ndarray) or (actual.dtype, actual.shape) != (expected.dtype, expected.shape):
            return False
        if expected.dtype == object:
            return _same_items(actual.tolist(), expected.tolist())
        return bool(actual.tobytes() == expected.tobytes())
    if type(actual) is not type(expected):
        return False
    if isinstance(expected, dict):
        return actual.keys() == expected.keys() and all(same(actual[key], expected[key]) for key in expected)
    if isinstance(expected, list):
        return _same_items(actual, expected)
    return bool(actual == expected or (actual != actual and expected != expected))


def _same_items(actual: Iterable[Any], expected: Iterable[Any]) -> bool:
    left, right = list(actual), list(expected)
    return len(left) == len(right) and all(map(same, left, right))


def _same_tensors(torch: Any, actual: Any, expected: Any) -> bool:
    if not isinstance(actual, torch.Tensor) or actual.dtype != expected.dtype or actual.is_nested != expected.is_nested:
        return False
    if expected.is_nested:
        return _same_items(actual.unbind(), expected.unbind())
    return bool(actual.shape == expected.shape and torch.equal(actual, expected))


class DictStore:
    """The calls that structured objects need of a store, in memory. A get of a missing key returns no bytes.

    `refused` is the number of the put that fails, counted from 1.
    """

    def __init__(self, refused: int = 0) -> None:
        self.objects: dict[str, bytes] = {}
        self.refused = refused
        self.puts = 0

    def put(self, key: str, value: Any, config: Any = None) -> int:
        self.puts += 1
        if self.puts == self.refused:
            return -200
        self.objects[key] = bytes(value)
        return 0

    def get(self, key: str) -> bytes:
        return self.objects.get(key, b"")

    def remove(self, key: str, force: bool = False) -> int:
        return 0 if self.objects.pop(key, None) is not None else -704
