"""A decoder of Llama's shape with random weights, on a paged KV cache, for `gpu_engine.py`.

Each request's chunk is computed in matrices of one shape, padded where it is shorter, and the tokens that are decoded
in one step in matrices of another. So a token's result does not depend on what else runs, or on where a prefix hit
ends, down to the last bit: outputs with and without a pool can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from paged_engine import Limits, Work
from torch.nn import functional


@dataclass(frozen=True)
class Shape:
    """Sizes of a model. `head` is the length of one head."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    head: int
    inner: int
    words: int

    @property
    def parameters(self) -> int:
        attention = self.width * self.head * (2 * self.heads + 2 * self.kv_heads)
        return self.layers * (attention + 3 * self.width * self.inner) + 2 * self.words * self.width


class Cache(Protocol):
    """The paged KV cache: for each layer and block, keys and values as `[2, tokens, heads, head]`."""

    def read(self, layer: int, block_ids: Sequence[int]) -> torch.Tensor:
        """The blocks one after the other: `[2, tokens, heads, head]`."""

    def write(self, layer: int, block_id: int, start: int, part: torch.Tensor) -> None:
        """Writes `[2, tokens, heads, head]` from token `start` of the block on."""


class Llama:
    """A model for `paged_engine.Engine`. Weights come from the seed: two models of one shape are equal."""

    def __init__(self, shape: Shape, limits: Limits, cache: Cache, device: str, seed: int = 1) -> None:
        assert limits.chunk_tokens % limits.block_tokens == 0
        self.shape, self.limits, self.cache, self.device = shape, limits, cache, device
        self.kind = torch.float32 if device == "cpu" else torch.bfloat16
        self.layers = [f"layers.{number}" for number in range(shape.layers)]
        self.random = torch.Generator(device).manual_seed(seed)
        out, kv = shape.heads * shape.head, shape.kv_heads * shape.head
        self.words = self._matrix(shape.words, shape.width)
        self.last = self._matrix(shape.width, shape.words)
        self.weights = [
            {
                "qkv": self._matrix(shape.width, out + 2 * kv),
                "out": self._matrix(out, shape.width),
                "up": self._matrix(shape.width, 2 * shape.inner),
                "down": self._matrix(shape.inner, shape.width),
            }
            for _ in range(shape.layers)
        ]
        powers = torch.arange(0, shape.head, 2, device=device, dtype=torch.float32) / shape.head
        self.speeds = 500_000.0**-powers

    def _matrix(self, rows: int, columns: int) -> torch.Tensor:
        matrix = torch.empty(rows, columns, dtype=self.kind, device=self.device)
        return matrix.normal_(0.0, 1.0 / math.sqrt(rows), generator=self.random)

    def forward(self, batch: Sequence[Work], before: Callable[[str], None], after: Callable[[str], None]) -> list[int]:
        """Computes the tokens of a step. Chunks are computed one by one, and decoded tokens together."""
        with torch.inference_mode():
            return self._forward(batch, before, after)

    def _forward(self, batch: Sequence[Work], before: Callable[[str], None], after: Callable[[str], None]) -> list[int]:
        groups = [[one] for one in batch if one.length > 1]
        decoded = [one for one in batch if one.length == 1]
        groups += [decoded] if decoded else []
        inputs = [self._positions(group) for group in groups]
        states = [self.words[words] for words, _ in inputs]
        for number, name in enumerate(self.layers):
            before(name)
            for at, (group, (_, positions)) in enumerate(zip(groups, inputs, strict=True)):
                states[at] = self._attend(number, states[at], group, positions)
            after(name)
            states = [self._feed(number, state) for state in states]
        found: dict[str, int] = {}
        for group, state in zip(groups, states, strict=True):
            rows = [group[0].length - 1] if group[0].length > 1 else range(len(group))
            scores = functional.rms_norm(state, (self.shape.width,)) @ self.last
            best = scores.argmax(-1).tolist()
            found.update({one.request.request_id: best[row] for one, row in zip(group, rows, strict=True)})
        return [found[one.request.request_id] for one in batch]

    def _positions(self, group: Sequence[Work]) -> tuple[torch.Tensor, torch.Tensor]:
        """The tokens of a group and their positions, padded to the group's fixed number of rows."""
        rows = self.limits.chunk_tokens if group[0].length > 1 else self.limits.running
        tokens = [token for one in group for token in one.request.all_token_ids[one.start : one.start + one.length]]
        positions = [at for one in group for at in range(one.start, one.start + one.length)]
        padding = [0] * (rows - len(tokens))
        return (
            torch.tensor(tokens + padding, device=self.device),
            torch.tensor(positions + padding, device=self.device, dtype=torch.float32),
        )

    def _attend(self, number: int, state: torch.Tensor, group: Sequence[Work], positions: Any) -> torch.Tensor:
        shape = self.shape
        mixed = functional.rms_norm(state, (shape.width,)) @ self.weights[number]["qkv"]
        out, kv = shape.heads * shape.head, shape.kv_heads * shape.head
        q, k, v = mixed.split([out, kv, kv], dim=-1)
        q = self._rotate(q.view(-1, shape.heads, shape.head), positions)
        k = self._rotate(k.view(-1, shape.kv_heads, shape.head), positions)
        v = v.view(-1, shape.kv_heads, shape.head)
        results = torch.zeros(len(state), out, dtype=self.kind, device=self.device)
        row = 0
        for one in group:
            rows = slice(row, row + one.length)
            self._store(number, one, torch.stack((k[rows], v[rows])))
            results[rows] = self._context(number, one, q[rows])
            row += one.length
        return state + results @ self.weights[number]["out"]

    def _context(self, number: int, one: Work, q: torch.Tensor) -> torch.Tensor:
        """Attention of a request's new tokens over all of its tokens. Both are padded to lengths that depend on
        positions alone.
        """
        tokens, shape = self.limits.block_tokens, self.shape
        end = one.start + one.length
        blocks = one.request.blocks[: -(-end // tokens)]
        k, v = self.cache.read(number, blocks)
        rows = self.limits.chunk_tokens if one.length > 1 else 1
        first = one.start - one.start % self.limits.chunk_tokens if one.length > 1 else one.start
        padded = torch.zeros(rows, shape.heads, shape.head, dtype=self.kind, device=self.device)
        padded[one.start - first : end - first] = q
        at = torch.arange(first, first + rows, device=self.device)[:, None]
        mask = torch.arange(len(k), device=self.device)[None, :] <= at
        # Of blocks that are not full, the rest may hold anything, even what is not a number.
        v = torch.where((torch.arange(len(v), device=self.device) < end)[:, None, None], v, 0)
        k = torch.where((torch.arange(len(k), device=self.device) < end)[:, None, None], k, 0)
        groups = shape.heads // shape.kv_heads
        k, v = (part.repeat_interleave(groups, dim=1).transpose(0, 1) for part in (k, v))
        mixed = functional.scaled_dot_product_attention(padded.transpose(0, 1), k, v, attn_mask=mask)
        return mixed.transpose(0, 1)[one.start - first : end - first].reshape(one.length, -1)

    def _store(self, number: int, one: Work, kv: torch.Tensor) -> None:
        tokens = self.limits.block_tokens
        done = 0
        while done < one.length:
            index, offset = divmod(one.start + done, tokens)
            count = min(tokens - offset, one.length - done)
            self.cache.write(number, one.request.blocks[index], offset, kv[:, done : done + count])
            done += count

    def _feed(self, number: int, state: torch.Tensor) -> torch.Tensor:
        gate, up = (functional.rms_norm(state, (self.shape.width,)) @ self.weights[number]["up"]).chunk(2, dim=-1)
        return state + (functional.silu(gate) * up) @ self.weights[number]["down"]

    def _rotate(self, parts: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        angles = positions[:, None] * self.speeds
        cos, sin = angles.cos()[:, None], angles.sin()[:, None]
        one, other = parts.float().chunk(2, dim=-1)
        return torch.cat((one * cos - other * sin, one * sin + other * cos), dim=-1).to(self.kind)
