"""The saves of the layer-wise mode: each layer of a block is stored while the model computes later layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mooncake.vllm.layerwise import LayerThread
from mooncake.vllm.layout import BlockLayout
from mooncake.vllm.pending import Hold, PendingSaves
from mooncake.vllm.pool import Pool, Ranges
from mooncake.vllm.stage import Stage
from mooncake.vllm.stream import Mark, Reached

# The blocks of each request that a step completes, as pairs of key and block id.
Saves = Mapping[str, Sequence[tuple[str, int]]]


class LayerSave:
    """The saves of one step. The sending thread calls its methods, in the order start, layer, finish."""

    def __init__(
        self, pool: Pool, layout: BlockLayout, pending: PendingSaves, stage: Stage | None, saves: Saves
    ) -> None:
        """With `stage`, layers are copied there and put from there."""
        self.pool = pool
        self.layout = layout
        self.pending = pending
        self.stage = stage
        self.saves = saves
        self.holds = {request_id: pending.begin(request_id) for request_id in saves}
        self.open: dict[str, tuple[int, Hold]] = {}
        self.revoked: set[str] = set()
        self.written: set[int] = set()

    def start(self) -> None:
        """Opens a put session for each block that the pool does not hold. Of several blocks with one key, it stores
        the first.
        """
        by_key: dict[str, tuple[int, Hold]] = {}
        for request_id, blocks in self.saves.items():
            for key, block_id in blocks:
                by_key.setdefault(key, (block_id, self.holds[request_id]))
        missing = self.pool.missing(list(by_key))
        started = self.pool.start_puts(missing, self.layout.block_bytes)
        self.open = {key: by_key[key] for key in missing if key in started}

    def layer(self, place: int) -> None:
        """Writes one layer of all blocks."""
        if place in self.written or not self.open:
            return
        self.written.add(place)
        keys = list(self.open)
        most = len(keys) if self.stage is None else self.stage.size // self.layout.layers[place].block_bytes
        for start in range(0, len(keys), most):
            self._write(place, keys[start : start + most])
        self._revoke()

    def finish(self, refused_blocks: set[int]) -> None:
        """Writes the layers that were not announced, then publishes all blocks except `refused_blocks`."""
        self._give_up({key for key, (block_id, _) in self.open.items() if block_id in refused_blocks})
        for place in range(len(self.layout.layers)):
            self.layer(place)
        # The engine need not wait for what the pool does with the bytes.
        self.end()
        self._revoke()
        if self.open:
            self.pool.end_puts(list(self.open))
            self.open = {}

    def end(self) -> None:
        """Gives the engine its blocks back."""
        for hold in self.holds.values():
            self.pending.end(hold)

    def _write(self, place: int, keys: Sequence[str]) -> None:
        """Writes one layer of some blocks. Gives those up that cannot be written, or whose save was cancelled."""
        with self.pending.reading(*{self.open[key][1] for key in keys}) as live:
            there = [key for key in keys if self.open[key][1] in live]
            ranges: dict[str, Ranges] = {key: self.layout.layer_buffers(place, self.open[key][0]) for key in there}
            if self.stage is None:
                written = self.pool.put_ranges(ranges)
            else:
                ranges = self._copied(place, ranges, self.stage)
        if self.stage is not None:
            written = self.pool.put_ranges(ranges)
        self._give_up(set(keys) - written)

    def _copied(self, place: int, ranges: dict[str, Ranges], stage: Stage) -> dict[str, Ranges]:
        """The same ranges in the stage; none if they could not be copied."""
        copies = stage.copy([(addresses, lengths) for addresses, lengths, _ in ranges.values()]) if ranges else []
        if copies is None:
            return {}
        offset = self.layout.offsets[place]
        return {key: (*copy, [offset]) for key, copy in zip(ranges, copies, strict=True)}

    def _give_up(self, keys: set[str]) -> None:
        """Leaves these blocks out from now on. Their sessions are revoked by `_revoke`."""
        self.revoked |= keys
        self.open = {key: block for key, block in self.open.items() if key not in keys}

    def _revoke(self) -> None:
        revoked, self.revoked = self.revoked, set()
        if revoked:
            self.pool.revoke_puts(sorted(revoked))


class LayerSender:
    """Saves the blocks of a step, layer by layer, while the step runs."""

    def __init__(self, pool: Pool, layout: BlockLayout, pending: PendingSaves, stage: Stage | None = None) -> None:
        self.pool = pool
        self.layout = layout
        self.pending = pending
        self.stage = stage
        self.thread = LayerThread("mooncake-send-layers")
        self.step: LayerSave | None = None

    def begin(self, saves: Saves) -> None:
        """Begins a step that will complete these blocks."""
        self.step = LayerSave(self.pool, self.layout, self.pending, self.stage, saves) if saves else None
        if self.step is not None:
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

    @staticmethod
    def _finish(step: LayerSave, refused_blocks: set[int], computed: Reached) -> None:
        try:
            computed()
            step.finish(refused_blocks)
        finally:
            step.end()
