"""What this instance stored in the pool, for vLLM's KV events: routers learn from them which blocks are where.

Each worker notes the blocks of which it stored its part. The scheduler knows the tokens behind a block, and tells of it
once all of its parts are in the pool. What the pool evicts or removes is not told here: the master alone knows it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from mooncake.vllm.plan import Save

# Blocks that were planned and are not known to be stored. Of more than that the oldest are told of no more.
MAX_PLANNED = 1 << 16


class StoredParts:
    """The blocks of which a worker's part came into the pool. Used by all its threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._hashes: list[bytes] = []

    def add(self, keys: Iterable[str]) -> None:
        hashes = [bytes.fromhex(key.rpartition("@")[2]) for key in keys]
        with self._lock:
            self._hashes += hashes

    def take(self) -> list[bytes]:
        """Those since the last call."""
        with self._lock:
            hashes, self._hashes = self._hashes, []
            return hashes


class Request(Protocol):
    """What is read of a `vllm.v1.request.Request` to tell of its blocks."""

    @property
    def block_hashes(self) -> Sequence[bytes]: ...
    @property
    def all_token_ids(self) -> Sequence[int]: ...
    @property
    def lora_request(self) -> Any: ...


@dataclass(frozen=True)
class StoredBlock:
    """A block that is in the pool. `parent` is the hash of the block before it, None for the first."""

    block_hash: bytes
    parent: bytes | None
    tokens: tuple[int, ...]
    lora_id: int | None
    lora_name: str | None


class StoredBlocks:
    """The scheduler's half. A block has `parts`, each stored by another worker."""

    def __init__(self, block_tokens: int, parts: int) -> None:
        self.block_tokens = block_tokens
        self.parts = parts
        self._planned: OrderedDict[bytes, StoredBlock] = OrderedDict()
        self._counts: dict[bytes, int] = {}
        self._stored: list[StoredBlock] = []

    def plan(self, request: Request, save: Save) -> None:
        """These blocks are going to be stored."""
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
        """Parts of these blocks came into the pool."""
        for block_hash in hashes:
            block = self._planned.get(block_hash)
            if block is None:
                continue
            self._counts[block_hash] = self._counts.get(block_hash, 0) + 1
            if self._counts[block_hash] == self.parts:
                self._forget(block_hash)
                self._stored.append(block)

    def take(self) -> list[StoredBlock]:
        """The blocks all of whose parts are in the pool, since the last call."""
        stored, self._stored = self._stored, []
        return stored

    def clear(self) -> None:
        """The pool was emptied of this model's blocks."""
        self._planned.clear()
        self._counts.clear()
        self._stored.clear()

    def _forget(self, block_hash: bytes) -> None:
        self._planned.pop(block_hash, None)
        self._counts.pop(block_hash, None)
