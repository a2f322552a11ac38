"""The layer-wise mode: moves blocks layer by layer while the model runs.

A layer is loaded while earlier layers are computed, and stored while later layers are computed.

An object is written in a put session, which publishes it once all layers are written, and read in a get session. Keys
and objects are the same as without this mode, so instances with and without it share them.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Mapping, Sequence

from mooncake.vllm.bad_blocks import BadBlocks
from mooncake.vllm.layout import BlockLayout
from mooncake.vllm.pending import PendingSaves
from mooncake.vllm.pool import Pool, Ranges
from mooncake.vllm.stream import Gate, Mark, Reached

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


class LayerSave:
    """The saves of one step. The sending thread calls its methods, in the order start, layer, finish."""

    def __init__(self, pool: Pool, layout: BlockLayout, saves: Mapping[str, Sequence[tuple[str, int]]]) -> None:
        """`saves` maps each request to pairs of key and block id."""
        self.pool = pool
        self.layout = layout
        self.saves = saves
        self.open: dict[str, int] = {}
        self.written: set[int] = set()

    def start(self) -> None:
        """Opens a put session for each block that the pool does not hold. Of several blocks with one key, it stores
        the first.
        """
        by_key: dict[str, int] = {}
        for blocks in self.saves.values():
            for key, block_id in blocks:
                by_key.setdefault(key, block_id)
        missing = self.pool.missing(list(by_key))
        started = self.pool.start_puts(missing, self.layout.block_bytes)
        self.open = {key: by_key[key] for key in missing if key in started}

    def layer(self, place: int) -> None:
        """Writes one layer of all blocks."""
        if place in self.written or not self.open:
            return
        self.written.add(place)
        ranges: dict[str, Ranges] = {
            key: self.layout.layer_buffers(place, block_id) for key, block_id in self.open.items()
        }
        self._revoke(set(self.open) - self.pool.put_ranges(ranges))

    def finish(self, refused_blocks: set[int]) -> None:
        """Writes the layers that were not announced, then publishes all blocks except `refused_blocks`."""
        self._revoke({key for key, block_id in self.open.items() if block_id in refused_blocks})
        for place in range(len(self.layout.layers)):
            self.layer(place)
        if self.open:
            self.pool.end_puts(list(self.open))
            self.open = {}

    def _revoke(self, keys: set[str]) -> None:
        if keys:
            self.pool.revoke_puts(sorted(keys))
            self.open = {key: block_id for key, block_id in self.open.items() if key not in keys}


class LayerSender:
    """Saves the blocks of a step, layer by layer, while the step runs."""

    def __init__(self, pool: Pool, layout: BlockLayout, pending: PendingSaves) -> None:
        self.pool = pool
        self.layout = layout
        self.pending = pending
        self.thread = LayerThread("mooncake-send-layers")
        self.step: LayerSave | None = None

    def begin(self, saves: Mapping[str, Sequence[tuple[str, int]]]) -> None:
        """Begins a step that will complete these blocks. `saves` maps each request to pairs of key and block id."""
        self.step = LayerSave(self.pool, self.layout, saves) if saves else None
        if self.step is not None:
            for request_id in saves:
                self.pending.begin(request_id)
            self.thread.submit(self.step.start)

    def layer(self, place: int, mark: Mark) -> None:
        """Queues the save of one layer. The model has issued the layer's computation; the device may not have run it
        yet.
        """
        step = self.step
        if step is not None:
            computed = mark()
            self.thread.submit(lambda: self._write(step, place, computed))

    def end(self, refused_blocks: set[int], mark: Mark) -> None:
        """Queues the end of the step, and returns at once. Blocks in `refused_blocks` are not published."""
        step, self.step = self.step, None
        if step is not None:
            computed = mark()
            self.thread.submit(lambda: self._finish(step, refused_blocks, computed))

    @staticmethod
    def _write(step: LayerSave, place: int, computed: Reached) -> None:
        computed()
        step.layer(place)

    def _finish(self, step: LayerSave, refused_blocks: set[int], computed: Reached) -> None:
        try:
            computed()
            step.finish(refused_blocks)
        finally:
            for request_id in step.saves:
                self.pending.end(request_id)


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
