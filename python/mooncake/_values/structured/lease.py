"""Arrays in memory that a buffer pool lends, and the return of that memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mooncake._values.structured.array import Array, DType, length_bytes, memory_at, np

# The most views that `_owner_of` follows: a chain is as long as the number of calls that made it.
_MAX_VIEWS = 64


class LeaseOwner:
    """A lease that is returned once: by `release`, or when nothing uses its memory any more."""

    def __init__(self, lease: Any) -> None:
        self.lease = lease
        self.released = False

    def release(self) -> None:
        """Returns the memory. A second call does nothing."""
        if not self.released:
            self.released = True
            self.lease.release()

    def __del__(self) -> None:
        self.release()


class PoolArray(np.ndarray):  # type: ignore[misc]
    """An array in leased memory. Every view of it keeps the lease alive."""

    def __array_finalize__(self, source: object) -> None:
        # A copy has memory of its own, and does not need the lease.
        self._mooncake_pool_owner = None if self.flags.owndata else getattr(source, "_mooncake_pool_owner", None)


def pool_array(owner: LeaseOwner, dtype: DType, shape: tuple[int, ...]) -> Array:
    """An array at the start of the leased memory."""
    memory = memory_at(owner.lease.ptr, length_bytes(shape, dtype), owner)
    array = memory.view(dtype).reshape(shape).view(PoolArray)
    array._mooncake_pool_owner = owner
    return array


def release_result(result: Any) -> None:
    """Returns the leased memory of all arrays in a result. None of them may be used afterwards."""
    released: set[int] = set()
    visited: set[int] = set()
    pending = [result]
    while pending:
        value = pending.pop()
        if id(value) in visited:
            continue
        visited.add(id(value))
        owner = _owner_of(value)
        if owner is not None:
            if id(owner) not in released:
                released.add(id(owner))
                owner.release()
        elif isinstance(value, Mapping):
            pending.extend(value.values())
        elif isinstance(value, (list, tuple)):
            pending.extend(value)
        elif isinstance(value, np.ndarray) and value.dtype == object:
            pending.extend(value.flat)


def _owner_of(value: Any) -> Any:
    """The owner of the leased memory behind an array or view; None if the memory is not leased."""
    for _ in range(_MAX_VIEWS):
        owner = getattr(value, "_mooncake_pool_owner", None)
        if owner is not None:
            return owner
        if isinstance(value, np.ndarray):
            value = value.base
        elif isinstance(value, memoryview):
            value = value.obj
        else:
            owner = getattr(value, "owner", None)
            return owner if isinstance(owner, LeaseOwner) else None
    return None
