"""A KV connector for vLLM that keeps blocks of KV cache in the pool.

    --kv-transfer-config '{"kv_connector": "MooncakeStoreConnector", "kv_role": "kv_both",
                           "kv_connector_module_path": "mooncake.vllm"}'

`connector` meets vLLM's interface and alone imports it. `scheduler` decides what to load and to save, `worker` does it
with the threads of `send`, `receive` and `layerwise`, `lookup` joins the two processes.
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
