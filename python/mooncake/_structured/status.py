"""The codes that a store's calls return."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

MISSING_OBJECT_ERROR = -704
INVALID_PARAMS_ERROR = -600


def check_status(status: object, call: str, key: str) -> None:
    """Raises RuntimeError unless the call succeeded. Some stores return nothing for that."""
    if status not in (None, 0):
        raise RuntimeError(f"{call} failed for {key}: {status}")


def check_statuses(statuses: Sequence[Any], call: str, keys: Sequence[str]) -> None:
    """As `check_status`, for each key of a call that takes many."""
    check_count(statuses, call, len(keys))
    for key, status in zip(keys, statuses, strict=True):
        check_status(status, call, key)


def check_count(results: Sequence[Any], call: str, expected: int) -> None:
    """Raises RuntimeError unless the call returned one result for each of `expected` keys."""
    if len(results) != expected:
        raise RuntimeError(f"{call} returned {len(results)} results for {expected} chunks")


def check_length(actual: object, call: str, key: str, expected: int | list[int]) -> None:
    """Raises RuntimeError unless the call read `expected` bytes, or so many for each range."""
    if actual != expected:
        raise RuntimeError(f"{call} failed for {key}: expected {expected} bytes, got {actual}")
