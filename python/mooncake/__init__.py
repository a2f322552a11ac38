"""Mooncake Store: a distributed KV-cache store for LLM inference.

The API is in `mooncake.store`. Other distributions may add modules to this package.
"""

from __future__ import annotations

from pkgutil import extend_path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mooncake.buffer_pool import BufferPool, RegisteredBufferPool

__path__ = extend_path(__path__, __name__)
__all__ = ["BufferPool", "RegisteredBufferPool"]


def __getattr__(name: str) -> object:
    # Loaded on demand, so that programs which use only a service's module do not load the native module.
    if name in __all__:
        from mooncake import buffer_pool

        return getattr(buffer_pool, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
