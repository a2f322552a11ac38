"""The blocks whose bytes must never be stored: their load failed, or they were computed from other bad blocks.

vLLM notices a failed load only after the step that read the blocks. Steps that it schedules before that also run on
them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from mooncake.vllm.plan import Save


class BadBlocks:
    """The blocks of one worker that must not be stored. All threads of the worker may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bad: set[int] = set()
        self._unreported: set[int] = set()

    def fail(self, block_ids: Iterable[int]) -> None:
        """Records that a load of these blocks failed."""
        with self._lock:
            failed = set(block_ids)
            self._bad |= failed
            self._unreported |= failed

    def load(self, block_ids: Iterable[int]) -> None:
        """Records that these blocks were loaded from the pool."""
        with self._lock:
            self._bad.difference_update(block_ids)

    def admit(self, save: Save) -> bool:
        """Whether the blocks of a save may be stored. Call it once per save, in the order of the steps."""
        before, computed = save.block_ids[: save.computed_from], save.block_ids[save.computed_from :]
        with self._lock:
            if not self._bad:
                return True
            if self._bad.isdisjoint(before):
                self._bad.difference_update(computed)
                return True
            self._bad.update(computed)
            return False

    def take_failed(self) -> set[int]:
        """The blocks whose load has failed since the last call."""
        with self._lock:
            failed, self._unreported = self._unreported, set()
            return failed
