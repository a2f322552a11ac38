"""The layer-wise mode: moves blocks layer by layer while the model runs.

A layer is loaded while earlier layers are computed, and stored while later layers are computed (`layer_send`).

An object is written in a put session, which publishes it once all layers are written, and read in a get session. Keys
and objects are the same as without this mode, so instances with and without it share them.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Sequence

from mooncake.vllm.bad_blocks import BadBlocks
from mooncake.vllm.layout import BlockLayout
from mooncake.vllm.pool import Pool, Ranges
from mooncake.vllm.stream import Gate, Reached

logger = logging.getLogger(__name__)

POLL_SECONDS = 1.0


class LayerThread:
    """A thread that runs jobs in the order in which they were submitted."""

    def __init__(self, name: str) -> None:
        # Needs no limit: each step adds one entry per layer.
        self.jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.thread.start()

    def submit(self, job: Callable[[], None]) -> None:
        self.jobs.put(job)

    def is_alive(self) -> bool:
        return self.thread.is_alive()

    def close(self, seconds: float) -> None:
        """Ends the thread after the jobs that wait. Returns after at most `seconds`, even if they still run."""
        self.jobs.put(None)
        self.thread.join(seconds)

    def _run(self) -> None:
        while (job := self.jobs.get()) is not None:
            try:
                job()
            except Exception:
                logger.exception("a layer could not be moved")


class LayerLoad:
    """The loads of one step. The receiving thread calls `run`."""

    def __init__(
        self,
        pool: Pool,
        layout: BlockLayout,
        bad: BadBlocks,
        blocks: Sequence[tuple[str, int]],
        gate: Gate | None,
        count: int,
    ) -> None:
        """`count` is the value of `gate` before the first layer. Each layer advances it by one."""
        self.pool = pool
        self.layout = layout
        self.bad = bad
        self.blocks = blocks
        self.gate = gate
        self.count = count
        self.ready = [threading.Event() for _ in layout.layers]

    def run(self, unused: Reached) -> None:
        """Loads all layers. If a layer of a block fails, skips the block's other layers; other blocks go on."""
        by_key: dict[str, list[int]] = {}
        for key, block_id in self.blocks:
            by_key.setdefault(key, []).append(block_id)
        good: set[str] = set()
        try:
            good = self.pool.start_gets(list(by_key))
            unused()
            opened = sorted(good)
            for place in range(len(self.ready)):
                ranges = {key: self._ranges(place, by_key[key]) for key in by_key if key in good}
                good = self.pool.get_ranges(ranges) if ranges else good
                if not self._open(place):
                    good = set()
            self.pool.end_gets(opened)
        except Exception:
            good = set()
            raise
        finally:
            if not self._open(len(self.ready) - 1):
                good = set()
            self.pool.count_loads(len(good), len(by_key))
            self.bad.load(block_id for key in by_key if key in good for block_id in by_key[key])
            self.bad.fail(block_id for key in by_key if key not in good for block_id in by_key[key])

    def give_up(self) -> None:
        """Gives the loads up: records all blocks as failed, and releases everything that waits for a layer."""
        self.bad.fail(block_id for _, block_id in self.blocks)
        self._open(len(self.ready) - 1)

    def _open(self, last: int) -> bool:
        """Releases everything that waits for the layers up to `last`. Returns False if the device went on before."""
        for ready in self.ready[: last + 1]:
            ready.set()
        return self.gate is None or self.gate.open(self.count + last + 1)

    def _ranges(self, place: int, block_ids: Sequence[int]) -> Ranges:
        """The ranges of one layer of an object, for all blocks that need it."""
        ranges: Ranges = ([], [], [])
        for block_id in block_ids:
            for column, part in zip(ranges, self.layout.layer_buffers(place, block_id), strict=True):
                column += part
        return ranges


class LayerReceiver:
    """Loads the blocks of a step, layer by layer, while the step runs."""

    def __init__(self, pool: Pool, layout: BlockLayout, bad: BadBlocks, gate: Gate | None = None) -> None:
        """`gate` makes the device wait for layers. Without a gate, the engine's thread waits."""
        self.pool = pool
        self.layout = layout
        self.bad = bad
        self.gate = gate
        self.thread = LayerThread("mooncake-receive-layers")
        self.step: LayerLoad | None = None
        self.over = threading.Event()
        # The number of layers in all steps so far.
        self.count = 0

    def begin(self, blocks: Sequence[tuple[str, int]], unused: Reached) -> None:
        """Begins a step that reads these blocks, given as pairs of key and block id.

        The receiving thread writes them only after `unused` has returned.
        """
        if not blocks:
            return
        self.step = step = LayerLoad(self.pool, self.layout, self.bad, blocks, self.gate, self.count)
        self.count += len(self.layout.layers)
        self.over = over = threading.Event()

        def run() -> None:
            try:
                step.run(unused)
            finally:
                over.set()

        self.thread.submit(run)

    def wait(self, place: int) -> None:
        """Ensures that device work which is queued after this call runs once the layer is loaded, or known to have
        failed.
        """
        step = self.step
        if step is None or step.ready[place].is_set():
            return
        if self.gate is None or not self.gate.wait(step.count + place + 1):
            self._wait(step.ready[place])

    def end(self) -> None:
        """Waits until all layers are loaded or have failed. If the thread has died, all blocks count as failed."""
        if self.step is not None:
            self._wait(self.over)
            if not self.over.is_set():
                self.step.give_up()
            self.step = None

    def _wait(self, event: threading.Event) -> None:
        # The wait has no limit, because blocks that are still being written must not be used. The store's own calls
        # have limits.
        while not event.wait(POLL_SECONDS) and self.thread.is_alive():
            logger.warning("still waiting for a layer")
