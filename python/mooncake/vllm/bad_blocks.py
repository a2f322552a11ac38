"""Which blocks hold bytes that must never be stored: a load of them failed, or they were computed from such blocks.

vLLM notices a failed load only after the step that read the blocks, and steps that were scheduled before it notices
run on them too.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from mooncake.vllm.plan import Save


class BadBlocks:
    """Used by the threads of a worker."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bad: set[int] = set()
        self._unreported: set[int] = set()

    def fail(self, block_ids: Iterable[int]) -> None:
        """A load of these failed."""
        with self._lock:
            failed = set(block_ids)
            self._bad |= failed
            self._unreported |= failed

    def load(self, block_ids: Iterable[int]) -> None:
        """These were filled from the pool."""
        with self._lock:
            self._bad.difference_update(block_ids)

    def admit(self, save: Save) -> bool:
        """Whether the blocks of a save may be stored. To be asked once for each save, in the order of the steps."""
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
        """The blocks whose load failed since the last call."""
        with self._lock:
            failed, self._unreported = self._unreported, set()
            return failed
