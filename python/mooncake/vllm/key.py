"""The keys of blocks. A key names the model, the rank's part, and the hash of all tokens up to the block's end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Shard:
    """The ranks that distinguish the parts of one block."""

    head_or_tp_rank: int
    pp_rank: int = 0
    pcp_rank: int = 0
    dcp_rank: int = 0


@dataclass(frozen=True)
class Topology:
    """The ranks over which a block is spread. `kv_heads` is the model's total number of KV heads, 1 for latent
    attention.
    """

    tp_size: int = 1
    pp_size: int = 1
    dcp_size: int = 1
    kv_heads: int = 1

    @property
    def copies(self) -> int:
        """The number of tensor-parallel ranks that hold the same bytes, because there are more ranks than heads."""
        return 1 if self.dcp_size > 1 else max(1, self.tp_size // self.kv_heads)

    def shard(self, rank: int) -> Shard:
        """The part that the worker with this rank holds. Ranks count within one replica of the model."""
        tp_rank, pp_rank = rank % self.tp_size, rank // self.tp_size % self.pp_size
        return Shard(tp_rank // self.copies, pp_rank, 0, tp_rank % self.dcp_size)

    def shards(self) -> list[Shard]:
        """All parts of a block. A block can be loaded only if the pool holds all of them."""
        return list(dict.fromkeys(self.shard(rank) for rank in range(self.tp_size * self.pp_size)))

    def writes(self, rank: int, block_index: int) -> bool:
        """Whether this rank stores the block. Ranks with the same bytes take turns."""
        return block_index % self.copies == rank % self.tp_size % self.copies


@dataclass(frozen=True)
class KeySpace:
    """The keys of one part of the model. `model` names the model and the layout of its blocks."""

    model: str
    shard: Shard

    def key(self, block_hash: bytes) -> str:
        """`{model}@pcp{rank}@dcp{rank}@head_or_tp_rank:{rank}@pp_rank:{rank}@{hash in hex}`"""
        return f"{self._prefix()}{block_hash.hex()}"

    def keys(self, block_hashes: Iterable[bytes]) -> list[str]:
        prefix = self._prefix()
        return [prefix + block_hash.hex() for block_hash in block_hashes]

    def _prefix(self) -> str:
        shard = self.shard
        return (
            f"{self.model}@pcp{shard.pcp_rank}@dcp{shard.dcp_rank}"
            f"@head_or_tp_rank:{shard.head_or_tp_rank}@pp_rank:{shard.pp_rank}@"
        )
