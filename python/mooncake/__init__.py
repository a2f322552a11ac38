"""Mooncake Store: a distributed KV-cache store for LLM inference.

The API is in `mooncake.store`. Other distributions may add modules to this package. For a reader of its code:

- `store`, with `buffer_pool` and `async_store`: the pool, for callers that put and get bytes. `_native` is the module
  in Rust; `_native.pyi` documents it. `engine`: transfers without a master.
- `vllm` and `lmcache`: connectors for these engines.
- `cli*`, `mooncake_store_service` with `_rest`, `http_metadata_server`: programs.
- `_values`: values with types above bytes: tensors, structured objects, tables. They load when they are first used.
"""

from __future__ import annotations

from pkgutil import extend_path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mooncake.buffer_pool import BufferPool, RegisteredBufferPool

    __version__: str
    # The version of the protocol between clients, nodes and masters.
    __protocol_version__: int

__path__ = extend_path(__path__, __name__)
__all__ = ["BufferPool", "RegisteredBufferPool"]
_VERSIONS = {"__version__": "VERSION", "__protocol_version__": "PROTOCOL_VERSION"}


def __getattr__(name: str) -> object:
    # Loaded on demand, so that programs which use only a service's module do not load the native module.
    if name in __all__:
        from mooncake import buffer_pool

        return getattr(buffer_pool, name)
    if name in _VERSIONS:
        from mooncake import _native

        return getattr(_native, _VERSIONS[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
