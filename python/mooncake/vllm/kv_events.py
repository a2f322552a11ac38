"""vLLM's own types for KV events. Imported only where vLLM has them, and has them turned on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from vllm.distributed.kv_events import BlockStored, KVConnectorKVEvents

from mooncake.vllm.stored import StoredBlock, StoredParts

# The word that vLLM uses for what an instance keeps outside of its device.
MEDIUM = "CPU"


class PartsOfStep(KVConnectorKVEvents):
    """Hashes of blocks, on their way from the workers to the scheduler. vLLM joins those of several workers."""

    def __init__(self, hashes: list[bytes]) -> None:
        self.hashes = hashes
        self.workers = 1

    @staticmethod
    def of(parts: StoredParts) -> PartsOfStep | None:
        """What a worker stored since the last call."""
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
    """One event for each block, with the fields that this version of vLLM has."""
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
    """A hash as vLLM shows it to others: bytes, or a number if it is told to."""
    try:
        from vllm.v1.core.kv_cache_utils import maybe_convert_block_hash
    except ImportError:
        return block_hash
    return maybe_convert_block_hash(block_hash)
