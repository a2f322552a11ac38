"""Removes many keys, some of which may be gone already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mooncake._values.structured.status import MISSING_OBJECT_ERROR, check_count

_GONE = (None, 0, MISSING_OBJECT_ERROR)


def remove_keys(store: Any, keys: Sequence[str], *, strict: bool) -> None:
    """Removes the keys, also objects under a lease. Removes one by one the keys that the batch call left.

    With `strict`, raises RuntimeError for keys that remain, and passes on exceptions of the store. Otherwise raises
    nothing.
    """
    pending = list(dict.fromkeys(keys))
    try:
        pending = _remove_together(store, pending)
    except Exception:
        if strict:
            raise
    failed: list[tuple[str, Any]] = []
    for key in pending:
        try:
            status = store.remove(key, True)
        except KeyError:
            continue
        except Exception:
            if strict:
                raise
            continue
        if status not in _GONE:
            failed.append((key, status))
    if failed and strict:
        raise RuntimeError(f"failed to remove {len(failed)} Mooncake keys: {failed[:3]}")


def _remove_together(store: Any, keys: list[str]) -> list[str]:
    """Removes keys with one batch call. Returns the keys that remain."""
    batch_remove = getattr(store, "batch_remove", None)
    if not callable(batch_remove) or not keys:
        return keys
    try:
        results = batch_remove(keys, True)
    except TypeError:
        results = batch_remove(keys)
    check_count(results, "batch_remove", len(keys))
    return [key for key, status in zip(keys, results, strict=True) if status not in _GONE]
