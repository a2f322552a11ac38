"""Checks of the codes and counts that a store's methods return."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

MISSING_OBJECT_ERROR = -704
INVALID_PARAMS_ERROR = -600


def check_status(status: object, call: str, key: str) -> None:
    """Raises RuntimeError unless the call succeeded. Some stores return None for success."""
    if status not in (None, 0):
        raise RuntimeError(f"{call} failed for {key}: {status}")


def check_statuses(statuses: Sequence[Any], call: str, keys: Sequence[str]) -> None:
    """As `check_status`, for each key of a batch call."""
    check_count(statuses, call, len(keys))
    for key, status in zip(keys, statuses, strict=True):
        check_status(status, call, key)


def check_count(results: Sequence[Any], call: str, expected: int) -> None:
    """Raises RuntimeError unless the call returned `expected` results."""
    if len(results) != expected:
        raise RuntimeError(f"{call} returned {len(results)} results for {expected} chunks")


def check_length(actual: object, call: str, key: str, expected: int | list[int]) -> None:
    """Raises RuntimeError unless the call read `expected` bytes, or this list of lengths for several ranges."""
    if actual != expected:
        raise RuntimeError(f"{call} failed for {key}: expected {expected} bytes, got {actual}")
