"""Tests the client of vLLM's shared embedding cache, unmodified, on CPU tensors."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from outcome import Outcome
from pool import LOOPBACK

READ_BUFFER_BYTES = 8 << 20


def embeddings(outcome: Outcome, config: Path) -> None:
    """Puts two tensors, looks them up, loads them together with a missing one, and closes the client."""
    os.environ.update({**LOOPBACK, "VLLM_HOST_IP": "127.0.0.1", "MOONCAKE_CONFIG_PATH": str(config)})
    from vllm.distributed.ec_transfer.ec_connector.mooncake_store_embedding import store_client
    from vllm.distributed.ec_transfer.ec_connector.mooncake_store_embedding.data import TensorSpec

    client = store_client.create_mooncake_embedding_store_client(READ_BUFFER_BYTES)
    tensors = {f"embedding-{tokens}": torch.randn(tokens, 64) for tokens in (16, 333)}
    names = [*tensors, "embedding-missing"]
    outcome.equal("embedding store: none exists", client.batch_exists(names), [False] * 3)
    for name, tensor in tensors.items():
        client.put_tensor(name, tensor)
    outcome.equal("embedding store: two exist", client.batch_exists(names), [True, True, False])
    expected = {name: TensorSpec(tuple(each.shape), str(each.dtype), each.nbytes) for name, each in tensors.items()}
    expected["embedding-missing"] = TensorSpec((1, 64), "torch.float32", 256)
    loaded = client.load_tensors(expected, "cpu")
    equal = {name: torch.equal(tensor, tensors[name]) for name, tensor in loaded.items()}
    outcome.equal("embedding store: both are loaded, with their bytes", equal, dict.fromkeys(tensors, True))
    # `close` raises unless the store returns 0. A code that leaves a transfer in doubt marks the client as unsafe.
    client.close()
    outcome.equal("embedding store: no transfer was left in doubt", store_client._UNSAFE_CLIENTS, [])
