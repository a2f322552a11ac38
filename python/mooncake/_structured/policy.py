"""How the chunks of a payload are written: one after the other or at once, copied or not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

DEFAULT_BUNDLE_CHUNK_BYTES = 64 << 20
AUTO_PARALLEL_MIN_BYTES = DEFAULT_BUNDLE_CHUNK_BYTES
AUTO_PARALLEL_MIN_CHUNKS = 8
# More threads than this only wait for each other.
MAX_WRITERS = 64

_PUT_MODES = ("auto", "batch", "parallel")
_COPY_MODES = ("auto", "zero_copy", "copy")


@dataclass(frozen=True)
class BundleTransferPolicy:
    """`max_inflight_put` chunks are written at once, if `put_mode` says so or if "auto" finds it worth it.

    `copy_mode` "copy" uses nothing but `put`; "zero_copy" refuses whatever would have to be copied.
    """

    max_inflight_put: int = 1
    put_mode: Literal["auto", "batch", "parallel"] = "auto"
    copy_mode: Literal["auto", "zero_copy", "copy"] = "auto"


def checked(policy: BundleTransferPolicy | None, max_inflight_put: int | None = None) -> BundleTransferPolicy:
    """The policy, or the default one, with its `max_inflight_put` replaced. Raises ValueError if it makes no sense."""
    result = policy or BundleTransferPolicy()
    if max_inflight_put is not None:
        result = replace(result, max_inflight_put=max_inflight_put)
    if result.max_inflight_put < 1:
        raise ValueError("max_inflight_put must be positive")
    if result.put_mode not in _PUT_MODES:
        raise ValueError(f"unsupported put_mode: {result.put_mode}")
    if result.copy_mode not in _COPY_MODES:
        raise ValueError(f"unsupported copy_mode: {result.copy_mode}")
    return result


def checked_chunk_bytes(chunk_bytes: int) -> int:
    """The length of a chunk. Raises ValueError unless it is positive."""
    if chunk_bytes <= 0:
        raise ValueError("chunk_bytes must be positive")
    return chunk_bytes


def put_mode(sizes: Sequence[int], policy: BundleTransferPolicy) -> Literal["batch", "parallel"]:
    """How chunks of these lengths are written under the policy."""
    if policy.put_mode != "auto":
        return policy.put_mode
    worth_it = len(sizes) >= AUTO_PARALLEL_MIN_CHUNKS and sum(sizes) >= AUTO_PARALLEL_MIN_BYTES
    return "parallel" if worth_it and policy.max_inflight_put > 1 else "batch"
