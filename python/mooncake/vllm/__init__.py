"""A KV connector for vLLM that stores blocks of KV cache in the pool, and loads them from there.

    --kv-transfer-config '{"kv_connector": "MooncakeStoreConnector", "kv_role": "kv_both",
                           "kv_connector_module_path": "mooncake.vllm"}'

- `connector` implements vLLM's interface. Only it, `kv_events` and `kv_stats` import vLLM.
- `scheduler` decides what to load and to save.
- `worker` moves the blocks, with the threads of `send`, `receive`, `layer_send` and `layerwise`.
- `pending` says which saves still need their blocks, `stage` holds copies of blocks that are being saved.
- `breaker` passes over a pool that does not work.
- `stream` orders these threads against the device.
- `lookup` lets the scheduler ask a worker which blocks the pool holds.
- `stored` records the stored blocks, for vLLM's KV events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mooncake.vllm.connector import MooncakeStoreConnector

__all__ = ["MooncakeStoreConnector"]


def __getattr__(name: str) -> Any:
    """`MooncakeStoreConnector`, imported at its first use because it needs vLLM. Raises AttributeError for other
    names.
    """
    if name != "MooncakeStoreConnector":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from mooncake.vllm.connector import MooncakeStoreConnector

    return MooncakeStoreConnector
