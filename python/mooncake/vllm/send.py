"""The thread that stores whole blocks after the step that computed them."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Sequence

from mooncake.vllm.layout import BlockLayout
from mooncake.vllm.pending import Hold, PendingSaves
from mooncake.vllm.pool import Pool
from mooncake.vllm.stage import Stage
from mooncake.vllm.stream import Reached

logger = logging.getLogger(__name__)

# The most saves that wait. The blocks of a further save are not stored: a later request may compute and store them.
QUEUE_LIMIT = 4096
Job = tuple[Hold, list[tuple[str, int]], Reached]


class Sender:
    """Stores blocks on a thread. Every submitted job counts in `pending` until the engine may have its blocks again."""

    def __init__(self, pool: Pool, layout: BlockLayout, pending: PendingSaves, stage: Stage | None = None) -> None:
        """With `stage`, blocks are copied there and put from there; without, they are put from where they lie."""
        self.pool = pool
        self.layout = layout
        self.pending = pending
        self.stage = stage
        self.jobs: queue.Queue[Job | None] = queue.Queue(QUEUE_LIMIT)
        self.thread = threading.Thread(target=self._run, name="mooncake-send", daemon=True)
        self.thread.start()

    def submit(self, request_id: str, blocks: Sequence[tuple[str, int]], computed: Reached) -> None:
        """Queues the save of a request's blocks, given as pairs of key and block id. Blocks that the pool holds are
        skipped.

        The thread reads the blocks only after `computed` has returned.
        """
        hold = self.pending.begin(request_id)
        try:
            self.jobs.put_nowait((hold, list(blocks), computed))
        except queue.Full:
            logger.warning("too many saves are waiting: %d blocks of %s are not stored", len(blocks), request_id)
            self.pending.end(hold)

    def close(self, seconds: float) -> None:
        """Ends the thread after the saves that wait. Returns after at most `seconds`, even if saves still run."""
        deadline = time.monotonic() + seconds
        try:
            self.jobs.put(None, timeout=seconds)
        except queue.Full:
            return
        self.thread.join(max(deadline - time.monotonic(), 0))

    def _run(self) -> None:
        while (job := self.jobs.get()) is not None:
            hold, blocks, computed = job
            if hold.is_over:
                continue
            try:
                self._store(hold, blocks, computed)
            except Exception:
                logger.exception("could not store blocks of %s", hold.request_id)
            finally:
                self.pending.end(hold)

    def _store(self, hold: Hold, blocks: list[tuple[str, int]], computed: Reached) -> None:
        by_key = dict(blocks)
        missing = self.pool.missing(list(by_key))
        # Waits even if no block is missing: once the save ends, the engine reuses the blocks.
        computed()
        buffers = {key: self.layout.buffers(by_key[key]) for key in missing}
        if self.stage is None:
            with self.pending.reading(hold) as live:
                self.pool.put(buffers if live else {})
            return
        most = self.stage.size // self.layout.block_bytes
        for start in range(0, len(missing), most):
            part = missing[start : start + most]
            with self.pending.reading(hold) as live:
                copies = self.stage.copy([buffers[key] for key in part]) if live else None
            if start + most >= len(missing):
                self.pending.end(hold)
            if copies is None:
                return
            self.pool.put(dict(zip(part, copies, strict=True)))
