"""Loads whole blocks, within a step or, on threads, between steps."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Sequence

from mooncake.vllm.bad_blocks import BadBlocks
from mooncake.vllm.layout import BlockLayout
from mooncake.vllm.pool import Buffers, Pool
from mooncake.vllm.stream import Reached

logger = logging.getLogger(__name__)

Job = tuple[str, list[tuple[str, int]], Reached]


def load(pool: Pool, layout: BlockLayout, bad: BadBlocks, blocks: Sequence[tuple[str, int]]) -> None:
    """Loads blocks, given as pairs of key and block id. Afterwards `bad` has each block as failed or as loaded.

    If a key appears several times, it is read once for each of its blocks.
    """
    waiting = list(blocks)
    while waiting:
        turn: dict[str, int] = {}
        later = []
        for key, block_id in waiting:
            if turn.setdefault(key, block_id) != block_id:
                later.append((key, block_id))
        buffers: dict[str, Buffers] = {key: layout.buffers(block_id) for key, block_id in turn.items()}
        loaded = pool.get(buffers)
        bad.load(block_id for key, block_id in turn.items() if key in loaded)
        bad.fail(block_id for key, block_id in turn.items() if key not in loaded)
        waiting = later


class Receiver:
    """Threads that load blocks between steps. A request is reported once, after all its blocks are loaded or have
    failed.
    """

    def __init__(self, pool: Pool, layout: BlockLayout, bad: BadBlocks, threads: int) -> None:
        self.pool = pool
        self.layout = layout
        self.bad = bad
        # Needs no limit: each job holds blocks of the KV cache, whose number is limited.
        self.jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._finished: set[str] = set()
        self.threads = [
            threading.Thread(target=self._run, name=f"mooncake-receive-{number}", daemon=True)
            for number in range(threads)
        ]
        for thread in self.threads:
            thread.start()

    def submit(self, request_id: str, blocks: Sequence[tuple[str, int]], unused: Reached) -> None:
        """Queues the load of a request's blocks, pairs of key and block id. A thread writes them after `unused` has
        returned.
        """
        self.jobs.put((request_id, list(blocks), unused))

    def take_finished(self) -> set[str]:
        """The requests whose loads have ended since the last call."""
        with self._lock:
            finished, self._finished = self._finished, set()
            return finished

    def close(self, seconds: float) -> None:
        for _ in self.threads:
            self.jobs.put(None)
        for thread in self.threads:
            thread.join(seconds / len(self.threads))

    def _run(self) -> None:
        while (job := self.jobs.get()) is not None:
            request_id, blocks, unused = job
            try:
                unused()
                load(self.pool, self.layout, self.bad, blocks)
            except Exception:
                logger.exception("could not load blocks of %s", request_id)
                self.bad.fail(block_id for _, block_id in blocks)
            with self._lock:
                self._finished.add(request_id)
