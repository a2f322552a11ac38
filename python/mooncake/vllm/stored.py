"""Records which blocks this instance has stored, for vLLM's KV events. Routers learn from events where blocks are.

Each worker records the blocks of which it stored its part. The scheduler knows the tokens of a block, and reports the
block once all parts are in the pool. Blocks that the pool evicts or removes are not reported: only the master knows
them.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from mooncake.vllm.plan import Save

# The most blocks that are planned and not known to be stored. Beyond it, the oldest blocks are never reported.
MAX_PLANNED = 1 << 16


class StoredParts:
    """The blocks of which a worker has stored its part. All threads of the worker may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._hashes: list[bytes] = []

    def add(self, keys: Iterable[str]) -> None:
        hashes = [bytes.fromhex(key.rpartition("@")[2]) for key in keys]
        with self._lock:
            self._hashes += hashes

    def take(self) -> list[bytes]:
        """The hashes of the blocks that were added since the last call."""
        with self._lock:
            hashes, self._hashes = self._hashes, []
            return hashes


class Request(Protocol):
    """The attributes of `vllm.v1.request.Request` that describe its blocks."""

    @property
    def block_hashes(self) -> Sequence[bytes]: ...
    @property
    def all_token_ids(self) -> Sequence[int]: ...
    @property
    def lora_request(self) -> Any: ...


@dataclass(frozen=True)
class StoredBlock:
    """A block in the pool. `parent` is the hash of the block before it, None for the first block."""

    block_hash: bytes
    parent: bytes | None
    tokens: tuple[int, ...]
    lora_id: int | None
    lora_name: str | None


class StoredBlocks:
    """The scheduler's half of this record. A block has `parts` parts, each stored by another worker."""

    def __init__(self, block_tokens: int, parts: int) -> None:
        self.block_tokens = block_tokens
        self.parts = parts
        self._planned: OrderedDict[bytes, StoredBlock] = OrderedDict()
        self._counts: dict[bytes, int] = {}
        self._stored: list[StoredBlock] = []

    def plan(self, request: Request, save: Save) -> None:
        """Records that these blocks will be stored."""
        lora = getattr(request, "lora_request", None)
        lora_id, lora_name = getattr(lora, "lora_int_id", None), getattr(lora, "lora_name", None)
        for place, block_hash in enumerate(save.hashes, save.first_block):
            parent = bytes(request.block_hashes[place - 1]) if place else None
            tokens = request.all_token_ids[place * self.block_tokens : (place + 1) * self.block_tokens]
            self._forget(block_hash)
            self._planned[block_hash] = StoredBlock(block_hash, parent, tuple(tokens), lora_id, lora_name)
        while len(self._planned) > MAX_PLANNED:
            self._forget(next(iter(self._planned)))

    def note(self, hashes: Iterable[bytes]) -> None:
        """Records that one part of each of these blocks is in the pool."""
        for block_hash in hashes:
            block = self._planned.get(block_hash)
            if block is None:
                continue
            self._counts[block_hash] = self._counts.get(block_hash, 0) + 1
            if self._counts[block_hash] == self.parts:
                self._forget(block_hash)
                self._stored.append(block)

    def take(self) -> list[StoredBlock]:
        """The blocks whose last part came into the pool since the last call."""
        stored, self._stored = self._stored, []
        return stored

    def clear(self) -> None:
        """Forgets all blocks: the blocks of this model were removed from the pool."""
        self._planned.clear()
        self._counts.clear()
        self._stored.clear()

    def _forget(self, block_hash: bytes) -> None:
        self._planned.pop(block_hash, None)
        self._counts.pop(block_hash, None)
