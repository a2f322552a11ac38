"""Moves blocks between the KV cache and the pool: the connector's half in a worker of vLLM."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass

from mooncake.vllm.bad_blocks import BadBlocks
from mooncake.vllm.config import Options
from mooncake.vllm.key import KeySpace, Topology
from mooncake.vllm.layer_send import LayerSender
from mooncake.vllm.layerwise import LayerReceiver
from mooncake.vllm.layout import BlockLayout
from mooncake.vllm.lookup import LookupServer
from mooncake.vllm.pending import PendingSaves
from mooncake.vllm.plan import Load, Save, StepPlan
from mooncake.vllm.pool import Pool
from mooncake.vllm.receive import Receiver, load
from mooncake.vllm.send import Sender
from mooncake.vllm.stage import Stage
from mooncake.vllm.stream import Gate, Mark, at_once, no_marks

logger = logging.getLogger(__name__)

CLOSE_SECONDS = 10.0
MIB = 1 << 20


@dataclass(frozen=True)
class Place:
    """The place of a worker. `model` is the first part of its keys."""

    model: str
    rank: int
    topology: Topology


class Worker:
    """Moves the blocks of one worker. The engine's thread calls its methods, in this order per step: `begin`, `load`,
    the methods per layer, `save`, the `take_*` methods.
    """

    def __init__(
        self,
        pool: Pool,
        layout: BlockLayout,
        place: Place,
        options: Options,
        can_put: bool,
        mark: Mark = no_marks,
        gate: Gate | None = None,
    ) -> None:
        """`mark` and `gate` belong to the device of the KV cache. Only the layer-wise mode uses the gate."""
        layers = options.use_layerwise
        self.pool = pool
        self.layout = layout
        self.place = place
        self.can_put = can_put
        self.mark = mark
        self.keys = KeySpace(place.model, place.topology.shard(place.rank))
        self.bad = BadBlocks()
        self.pending = PendingSaves(options.save_wait_ms / 1000)
        self.plan = StepPlan()
        stage = self._stage(options) if can_put and options.save_buffer_mb > 0 else None
        self.sender = None if layers else Sender(pool, layout, self.pending, stage)
        self.layer_sender = LayerSender(pool, layout, self.pending, stage) if layers else None
        self.receiver = Receiver(pool, layout, self.bad, options.recv_threads) if options.loads_between_steps else None
        self.layer_receiver = LayerReceiver(pool, layout, self.bad, gate) if layers else None
        self.lookup: LookupServer | None = None

    def serve_lookups(self, name: str) -> None:
        """Starts to answer the scheduler's look-ups. Only for worker 0. Raises OSError if the socket cannot be
        created.
        """
        spaces = [KeySpace(self.place.model, shard) for shard in self.place.topology.shards()]
        pattern = f"^{re.escape(self.place.model)}@"

        def count(hashes: list[bytes], first: int) -> int:
            # The keys of all parts of a block follow each other, so the keys before the first gap are whole blocks.
            keys = [key for parts in zip(*(space.keys(hashes) for space in spaces), strict=True) for key in parts]
            return self.pool.leading(keys, first * len(spaces)) // len(spaces)

        self.lookup = LookupServer(name, count, lambda: self.pool.remove(pattern))

    def cancel_preempted(self, plan: StepPlan) -> None:
        """Cancels the saves of the blocks that preempted requests lost. On return, none of them is read any more."""
        self.pending.cancel(plan.preempted)

    def begin(self, plan: StepPlan) -> None:
        """Begins a step."""
        self.plan = plan
        self.pending.finish(plan.held)
        self.cancel_preempted(plan)
        if self.layer_sender is not None and self.can_put:
            saves = {request_id: self._to_save(save) for request_id, save in plan.saves.items()}
            self.layer_sender.begin(saves)

    def load(self) -> None:
        """Starts the loads of the step. Loads within the step and not layer-wise have ended on return."""
        if not self.plan.loads:
            return
        # Earlier steps may still run on the device and use these blocks for the requests that had them before.
        unused = self.mark()
        within = []
        for request_id, part in self.plan.loads.items():
            if part.between_steps and self.receiver is not None:
                self.receiver.submit(request_id, self._to_load(part), unused)
            else:
                within += self._to_load(part)
        if self.layer_receiver is not None:
            self.layer_receiver.begin(within, unused)
        elif within:
            unused()
            load(self.pool, self.layout, self.bad, within)

    def wait_for_layer(self, name: str) -> None:
        """Ensures that device work which is queued after this call finds this layer of all blocks loaded."""
        if self.layer_receiver is not None and name in self.layout.index:
            self.layer_receiver.wait(self.layout.index[name])

    def save_layer(self, name: str) -> None:
        """Queues the save of this layer, which the step has computed."""
        if self.layer_sender is not None and name in self.layout.index:
            self.layer_sender.layer(self.layout.index[name], self.mark)

    def save(self) -> None:
        """Ends the step: queues the saves of the blocks that it completed, except those computed from bad blocks."""
        if self.layer_receiver is not None:
            self.layer_receiver.end()
        refused: set[int] = set()
        computed = self.mark() if self.plan.saves else at_once
        for request_id, save in self.plan.saves.items():
            admitted = self.bad.admit(save)
            if not admitted:
                refused.update(save.block_ids)
            if self.sender is not None and self.can_put:
                self.sender.submit(request_id, self._to_save(save) if admitted else [], computed)
        if self.layer_sender is not None:
            self.layer_sender.end(refused, self.mark)
        self.plan = StepPlan()

    def take_finished(self) -> tuple[set[str], set[str]]:
        """The held requests whose saves have ended, and those whose loads between steps have ended; each once."""
        loaded = self.receiver.take_finished() if self.receiver is not None else set()
        return self.pending.take_finished(), loaded

    def take_failed_blocks(self) -> set[int]:
        """The blocks whose load has failed since the last call."""
        return self.bad.take_failed()

    def take_stats(self) -> dict[str, int] | None:
        """What the worker did since the last call, by names of `stats`; None if there is nothing to tell."""
        return self.pool.stats.take(self.pool.breaker, self.pending)

    def close(self) -> None:
        """Ends the threads after the jobs that wait. Gives each thread about 10 s."""
        for part in (self.sender, self.receiver):
            if part is not None:
                part.close(CLOSE_SECONDS)
        for layers in (self.layer_sender, self.layer_receiver):
            if layers is not None:
                layers.thread.close(CLOSE_SECONDS)
        if self.lookup is not None:
            self.lookup.close()
        self.pool.breaker.close()

    def _stage(self, options: Options) -> Stage | None:
        """Memory for copies of blocks, or of layers."""
        layers = self.layout.layers
        piece = max(layer.block_bytes for layer in layers) if options.use_layerwise else self.layout.block_bytes
        stage = Stage.of(self.pool.store, piece, options.save_buffer_mb * MIB)
        if stage is None:
            logger.warning(
                "local_buffer_size is too small for a block of %d bytes: a preemption waits for saves that run", piece
            )
        return stage

    def _to_load(self, part: Load) -> list[tuple[str, int]]:
        return list(zip(self.keys.keys(part.hashes), part.block_ids, strict=True))

    def _to_save(self, save: Save) -> Sequence[tuple[str, int]]:
        """Pairs of key and block id, for the blocks that this rank has to store."""
        pairs = zip(self.keys.keys(save.hashes), save.block_ids[save.first_block :], strict=True)
        topology, rank = self.place.topology, self.place.rank
        return [pair for index, pair in enumerate(pairs, save.first_block) if topology.writes(rank, index)]
