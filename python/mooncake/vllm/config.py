"""The options in `kv_connector_extra_config`, and whether an instance of a role stores blocks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

MAX_LOOKUP_TIMEOUT_MS = 60_000
MAX_RECV_THREADS = 64
MAX_STREAM_WAIT_MS = 600_000
MAX_REPLICAS = 16
MAX_SAVE_BUFFER_MB = 64 << 10
MAX_SAVE_WAIT_MS = 600_000


@dataclass(frozen=True)
class Options:
    """The options and their defaults. Raises ValueError for a value out of its range."""

    use_layerwise: bool = False
    load_async: bool = True
    consumer_is_to_put: bool = False
    save_decode_cache: bool = False
    cache_prefix: str = ""
    model_name: str = ""
    preferred_segment: str = ""
    replica_num: int = 1
    recv_threads: int = 1
    lookup_wait_ms: int = 5
    lookup_timeout_ms: int = 200
    save_buffer_mb: int = 16
    save_wait_ms: int = 5_000
    stream_wait_ms: int = 10_000

    def __post_init__(self) -> None:
        _check_range("replica_num", self.replica_num, MAX_REPLICAS)
        _check_range("recv_threads", self.recv_threads, MAX_RECV_THREADS)
        _check_range("lookup_wait_ms", self.lookup_wait_ms, MAX_LOOKUP_TIMEOUT_MS, 0)
        _check_range("lookup_timeout_ms", self.lookup_timeout_ms, MAX_LOOKUP_TIMEOUT_MS)
        _check_range("save_buffer_mb", self.save_buffer_mb, MAX_SAVE_BUFFER_MB, 0)
        _check_range("save_wait_ms", self.save_wait_ms, MAX_SAVE_WAIT_MS, 0)
        _check_range("stream_wait_ms", self.stream_wait_ms, MAX_STREAM_WAIT_MS, 0)

    @staticmethod
    def from_extra_config(extra: Mapping[str, Any]) -> Options:
        """Reads the options. Raises ValueError for an unknown name, and for a value of a wrong type or out of range."""
        known = {field.name: type(field.default) for field in fields(Options)}
        for name, value in extra.items():
            if name not in known:
                raise ValueError(f"kv_connector_extra_config: no option {name!r}; there are {', '.join(known)}")
            if type(value) is not known[name]:
                raise ValueError(f"kv_connector_extra_config: {name}={value!r} is not of type {known[name].__name__}")
        return Options(**extra)

    def saves(self, kv_role: str | None) -> bool:
        """Whether an instance of this role stores the blocks that it computes."""
        return kv_role in ("kv_producer", "kv_both") or self.consumer_is_to_put

    @property
    def loads_between_steps(self) -> bool:
        """Whether blocks are loaded between steps. The layer-wise mode loads them within the step that uses them."""
        return self.load_async and not self.use_layerwise


def _check_range(name: str, value: int, largest: int, smallest: int = 1) -> None:
    if not smallest <= value <= largest:
        raise ValueError(f"kv_connector_extra_config: {name}={value} is not from {smallest} to {largest}")


def model_tag(model: str, weights: str, cache_prefix: str, shape: Mapping[str, object]) -> str:
    """The first part of the keys: `[{cache_prefix}@]{last part of the model's path}-{32 hex digits}`

    The digits are a digest of `weights`, which tells this model from all others, and of `shape`: JSON values that
    determine the layout of a block's bytes. Instances with different weights, types or layouts never share a key.
    """
    what = json.dumps([weights, shape], sort_keys=True)
    digest = hashlib.sha256(what.encode()).hexdigest()[:32]
    name = f"{model.rstrip('/').rsplit('/', 1)[-1]}-{digest}"
    return f"{cache_prefix}@{name}" if cache_prefix else name
