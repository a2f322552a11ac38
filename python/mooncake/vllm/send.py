"""The thread that stores blocks, whole ones, after the step that computed them."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Sequence

from mooncake.vllm.layout import BlockLayout
from mooncake.vllm.pending import PendingSaves
from mooncake.vllm.pool import Pool
from mooncake.vllm.stream import Reached

logger = logging.getLogger(__name__)

# Saves that wait. The blocks of a save that does not fit in are not stored: somebody computes them again one day.
QUEUE_LIMIT = 4096
Job = tuple[str, list[tuple[str, int]], Reached]


class Sender:
    """`pending` is counted down for each job that was accepted or refused."""

    def __init__(self, pool: Pool, layout: BlockLayout, pending: PendingSaves) -> None:
        self.pool = pool
        self.layout = layout
        self.pending = pending
        self.jobs: queue.Queue[Job | None] = queue.Queue(QUEUE_LIMIT)
        self.thread = threading.Thread(target=self._run, name="mooncake-send", daemon=True)
        self.thread.start()

    def is_alive(self) -> bool:
        return self.thread.is_alive()

    def submit(self, request_id: str, blocks: Sequence[tuple[str, int]], computed: Reached) -> None:
        """Stores blocks of a request, given as keys and block ids, as far as the pool does not hold them.

        They are read once `computed` has returned.
        """
        self.pending.begin(request_id)
        try:
            self.jobs.put_nowait((request_id, list(blocks), computed))
        except queue.Full:
            logger.warning("too many saves are waiting: %d blocks of %s are not stored", len(blocks), request_id)
            self.pending.end(request_id)

    def close(self, seconds: float) -> None:
        """Ends the thread after the saves that wait; returns after `seconds` even if they take longer."""
        try:
            self.jobs.put(None, timeout=seconds)
        except queue.Full:
            return
        self.thread.join(seconds)

    def _run(self) -> None:
        while (job := self.jobs.get()) is not None:
            request_id, blocks, computed = job
            try:
                self._store(blocks, computed)
            except Exception:
                logger.exception("could not store blocks of %s", request_id)
            finally:
                self.pending.end(request_id)

    def _store(self, blocks: list[tuple[str, int]], computed: Reached) -> None:
        by_key = dict(blocks)
        missing = self.pool.missing(list(by_key))
        # Also if nothing is missing: the engine takes the blocks for something else once the save is over.
        computed()
        self.pool.put({key: self.layout.buffers(by_key[key]) for key in missing})
