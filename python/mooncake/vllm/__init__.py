"""A KV connector for vLLM that keeps blocks of KV cache in the pool.

    --kv-transfer-config '{"kv_connector": "MooncakeStoreConnector", "kv_role": "kv_both",
                           "kv_connector_module_path": "mooncake.vllm"}'

`connector` meets vLLM's interface; it and `kv_events` alone import it. `scheduler` decides what to load and to save,
`worker` does it with the threads of `send`, `receive` and `layerwise`, in the order that `stream` keeps with the
device; `lookup` joins the two processes, and `stored` knows what is to be told of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mooncake.vllm.connector import MooncakeStoreConnector

__all__ = ["MooncakeStoreConnector"]


def __getattr__(name: str) -> Any:
    """`MooncakeStoreConnector`, imported at its first use: it needs vLLM. Raises AttributeError for other names."""
    if name != "MooncakeStoreConnector":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from mooncake.vllm.connector import MooncakeStoreConnector

    return MooncakeStoreConnector
