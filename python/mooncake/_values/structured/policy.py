"""How to write the chunks of a payload: one by one or in parallel, copied or not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

DEFAULT_BUNDLE_CHUNK_BYTES = 64 << 20
AUTO_PARALLEL_MIN_BYTES = DEFAULT_BUNDLE_CHUNK_BYTES
AUTO_PARALLEL_MIN_CHUNKS = 8
# More threads do not write faster.
MAX_WRITERS = 64

_PUT_MODES = ("auto", "batch", "parallel")
_COPY_MODES = ("auto", "zero_copy", "copy")


@dataclass(frozen=True)
class BundleTransferPolicy:
    """How to write the chunks of a payload.

    - `put_mode`: "batch" writes chunks one by one, "parallel" writes up to `max_inflight_put` at a time. "auto"
      chooses "parallel" for many chunks and many bytes.
    - `copy_mode`: "copy" uses only `put`. "zero_copy" refuses values that would have to be copied.
    """

    max_inflight_put: int = 1
    put_mode: Literal["auto", "batch", "parallel"] = "auto"
    copy_mode: Literal["auto", "zero_copy", "copy"] = "auto"


def checked(policy: BundleTransferPolicy | None, max_inflight_put: int | None = None) -> BundleTransferPolicy:
    """The policy, or the default, with `max_inflight_put` replaced if given. Raises ValueError for invalid values."""
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
    """The length of a chunk in bytes. Raises ValueError unless it is positive."""
    if chunk_bytes <= 0:
        raise ValueError("chunk_bytes must be positive")
    return chunk_bytes


def put_mode(sizes: Sequence[int], policy: BundleTransferPolicy) -> Literal["batch", "parallel"]:
    """The mode in which to write chunks of these lengths under the policy."""
    if policy.put_mode != "auto":
        return policy.put_mode
    worth_it = len(sizes) >= AUTO_PARALLEL_MIN_CHUNKS and sum(sizes) >= AUTO_PARALLEL_MIN_BYTES
    return "parallel" if worth_it and policy.max_inflight_put > 1 else "batch"
