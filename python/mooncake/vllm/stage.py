"""Host memory to which blocks are copied before they are put, so that the engine gets them back at once.

A put takes as long as the pool takes: milliseconds, or a second if a node falls silent. A copy takes milliseconds in
any case.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mooncake.vllm.pool import Buffers, Store


class Stage:
    """A part of the store's local buffer. One thread uses it."""

    def __init__(self, store: Store, memory: Any, size: int) -> None:
        """`memory` is a loan of `size` bytes, with their address as `ptr`."""
        self.store = store
        self.memory = memory
        self.size = size

    @staticmethod
    def of(store: Store, piece: int, most: int) -> Stage | None:
        """Borrows `most` bytes of the local buffer, or half as much until it has so much free, but not less than
        `piece`. None if there is no room for a piece.
        """
        size = most - most % piece
        while size >= piece:
            memory = store._lend_from_mem_pool(size)
            if memory is not None:
                return Stage(store, memory, size)
            size = size // 2 - size // 2 % piece
        return None

    def copy(self, parts: Sequence[Buffers]) -> list[Buffers] | None:
        """Copies parts, which fit together, one after the other. Returns where each lies now; None if they could not be
        copied.
        """
        addresses = [address for pointers, _ in parts for address in pointers]
        lengths = [length for _, sizes in parts for length in sizes]
        if self.store._copy_out(self.memory.ptr, addresses, lengths) != 0:
            return None
        copied, at = [], self.memory.ptr
        for _, sizes in parts:
            total = sum(sizes)
            copied.append(([at], [total]))
            at += total
        return copied
