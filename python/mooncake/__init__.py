"""Mooncake Store: a distributed KV-cache store for LLM inference.

The API is in `mooncake.store`. Other distributions may add modules to this package.
"""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)
