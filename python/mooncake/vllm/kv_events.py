"""vLLM's types for KV events. Imported only if this version of vLLM has them and they are enabled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from vllm.distributed.kv_events import BlockStored, KVConnectorKVEvents

from mooncake.vllm.stored import StoredBlock, StoredParts

# vLLM's name for the place of blocks that an instance keeps outside of its device.
MEDIUM = "CPU"


class PartsOfStep(KVConnectorKVEvents):
    """Hashes of blocks that workers send to the scheduler. vLLM merges those of several workers."""

    def __init__(self, hashes: list[bytes]) -> None:
        self.hashes = hashes
        self.workers = 1

    @staticmethod
    def of(parts: StoredParts) -> PartsOfStep | None:
        """The hashes that a worker has stored since the last call; None if there are none."""
        hashes = parts.take()
        return PartsOfStep(hashes) if hashes else None

    def add_events(self, events: list[Any]) -> None:
        self.hashes += events

    def aggregate(self) -> PartsOfStep:
        return self

    def increment_workers(self, count: int = 1) -> None:
        self.workers += count

    def get_all_events(self) -> list[Any]:
        return self.hashes

    def get_number_of_workers(self) -> int:
        return self.workers

    def clear_events(self) -> None:
        self.hashes = []


def events_of(blocks: list[StoredBlock], block_tokens: int) -> Iterator[Any]:
    """One event per block, with the fields that this version of vLLM has."""
    known = BlockStored.__struct_fields__
    for block in blocks:
        parent = None if block.parent is None else _shown(block.parent)
        values: dict[str, Any] = {
            "block_hashes": [_shown(block.block_hash)],
            "parent_block_hash": parent,
            "token_ids": list(block.tokens),
            "block_size": block_tokens,
            "lora_id": block.lora_id,
            "medium": MEDIUM,
            "lora_name": block.lora_name,
        }
        yield BlockStored(**{name: value for name, value in values.items() if name in known})


def _shown(block_hash: bytes) -> Any:
    """A hash in the form that vLLM publishes: bytes, or a number if it is configured so."""
    try:
        from vllm.v1.core.kv_cache_utils import maybe_convert_block_hash
    except ImportError:
        return block_hash
    return maybe_convert_block_hash(block_hash)
