"""A small inference engine: a paged KV cache with prefix hits, continuous batching, chunked prefill and preemption.

It stands in for vLLM in measurements and tests. It calls the two halves of `mooncake.vllm`'s connector in vLLM's order.
The model is an argument.
"""

from __future__ import annotations

import hashlib
import time
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import NamedTuple, Protocol

from mooncake.vllm.lookup import LookupClient
from mooncake.vllm.scheduler import Scheduler
from mooncake.vllm.worker import Worker


@dataclass(eq=False)
class Request:
    """A prompt, and how many tokens to answer. `block_tokens` is the engine's."""

    request_id: str
    prompt: Sequence[int]
    new_tokens: int
    block_tokens: int
    output: list[int] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)
    computed: int = 0
    state: str = "fresh"  # Then "loading", "loaded", "running" or "ended".
    is_new: bool = True
    hits: int = 0
    arrived: float = 0.0
    first_token: float = 0.0
    ended: float = 0.0
    lora_request: object = None
    _hashes: list[bytes] = field(default_factory=list)

    @property
    def all_token_ids(self) -> list[int]:
        return [*self.prompt, *self.output]

    @property
    def num_prompt_tokens(self) -> int:
        return len(self.prompt)

    @property
    def num_tokens(self) -> int:
        return len(self.prompt) + len(self.output)

    @property
    def block_hashes(self) -> list[bytes]:
        """A hash for each whole block, of all tokens up to its end."""
        tokens = self.all_token_ids
        for start in range(len(self._hashes) * self.block_tokens, len(tokens), self.block_tokens):
            part = tokens[start : start + self.block_tokens]
            if len(part) == self.block_tokens:
                before = self._hashes[-1] if self._hashes else b""
                self._hashes.append(hashlib.sha256(before + array("q", part).tobytes()).digest())
        return self._hashes

    def blocks_for(self, tokens: int) -> int:
        return -(-tokens // self.block_tokens)


class Blocks:
    """The blocks of the cache: who uses them, and which of the free ones still hold which content."""

    def __init__(self, count: int) -> None:
        self.users = [0] * count
        # The next to be taken is the first.
        self.free: OrderedDict[int, None] = OrderedDict.fromkeys(range(count))
        self.by_hash: dict[bytes, int] = {}
        self.hash_of: dict[int, bytes] = {}

    def take(self, count: int) -> list[int] | None:
        """Takes blocks, whose content is lost. None if too few are free."""
        if count > len(self.free):
            return None
        taken = [self.free.popitem(last=False)[0] for _ in range(count)]
        for block_id in taken:
            self.users[block_id] = 1
            self.by_hash.pop(self.hash_of.pop(block_id, b""), None)
        return taken

    def share(self, hashes: Iterable[bytes]) -> list[int]:
        """Takes the blocks with these contents, up to the first that the cache does not hold."""
        shared = []
        for block_hash in hashes:
            block_id = self.by_hash.get(block_hash)
            if block_id is None:
                break
            self.users[block_id] += 1
            self.free.pop(block_id, None)
            shared.append(block_id)
        return shared

    def publish(self, block_id: int, block_hash: bytes) -> None:
        """Records the content of a block that is complete."""
        if self.by_hash.setdefault(block_hash, block_id) == block_id:
            self.hash_of[block_id] = block_hash

    def release(self, block_ids: Sequence[int]) -> None:
        """Gives blocks back. The end of a prompt is reused first."""
        for block_id in reversed(block_ids):
            self.users[block_id] -= 1
            if not self.users[block_id]:
                self.free[block_id] = None

    def forget(self) -> None:
        """Forgets the contents of all blocks that are not in use."""
        for block_id in self.free:
            self.by_hash.pop(self.hash_of.pop(block_id, b""), None)


class Work(NamedTuple):
    """Tokens of a request to compute in one step: `length` of them, from `start` on."""

    request: Request
    start: int
    length: int


class Model(Protocol):
    """Computes the tokens of a step, layer by layer, and returns the next token of each request."""

    def forward(self, batch: Sequence[Work], before: Callable[[str], None], after: Callable[[str], None]) -> list[int]:
        """Calls `before` and `after` with the name of each layer, around its attention."""


class Connector(NamedTuple):
    """The halves of the connector, in one process."""

    scheduler: Scheduler
    worker: Worker
    client: LookupClient

    def close(self) -> None:
        self.client.close()
        self.worker.close()


@dataclass(frozen=True)
class Limits:
    """What fits into the cache and into one step. `chunk_tokens` is the most that one request computes in a step."""

    blocks: int
    block_tokens: int
    running: int
    step_tokens: int
    chunk_tokens: int


class Engine:
    """Runs requests step by step, with a pool or without."""

    def __init__(self, model: Model, limits: Limits, connector: Connector | None = None) -> None:
        self.model = model
        self.limits = limits
        self.connector = connector
        self.blocks = Blocks(limits.blocks)
        self.waiting: list[Request] = []
        self.running: list[Request] = []
        self.preemptions = 0
        self._held: dict[str, Request] = {}
        self._preempted: set[str] = set()
        self._finished: set[str] = set()

    def add(self, request_id: str, prompt: Sequence[int], new_tokens: int) -> Request:
        request = Request(request_id, prompt, new_tokens, self.limits.block_tokens, arrived=time.perf_counter())
        self.waiting.append(request)
        return request

    def is_idle(self) -> bool:
        return not (self.waiting or self.running or self._held)

    def preempt(self) -> None:
        """Takes the blocks of the request that began last. It starts again later."""
        victim = self.running.pop()
        self._release(victim)
        victim.state, victim.computed = "fresh", 0
        self.preemptions += 1
        self._preempted.add(victim.request_id)
        self.waiting.insert(0, victim)

    def step(self) -> None:
        """Schedules, computes and completes one step."""
        output, work = self._schedule()
        failed: set[int] = set()
        if self.connector is None:
            tokens = self.model.forward(work, lambda _: None, lambda _: None)
        else:
            worker = self.connector.worker
            worker.begin(self.connector.scheduler.plan(output))
            worker.load()
            tokens = self.model.forward(work, worker.wait_for_layer, worker.save_layer)
            worker.save()
            saved, loaded = worker.take_finished()
            failed = worker.take_failed_blocks()
            self._take_loaded(loaded, failed)
            for request_id in saved:
                self._release(self._held.pop(request_id))
        for one, token in zip(work, tokens, strict=True):
            self._advance(one, token, failed)

    # What runs in a step.

    def _schedule(self) -> tuple[SimpleNamespace, list[Work]]:
        budget, work = self.limits.step_tokens, []
        for request in list(self.running):
            if request in self.running and self._grow(request):
                work.append(self._work(request, budget))
                budget -= work[-1].length
        work = [one for one in work if one.request in self.running and one.length > 0]
        cached = [one.request for one in work]
        new: list[Request] = []
        for request in list(self.waiting) if not self._preempted else ():
            has_room = budget >= self.limits.chunk_tokens and len(self.running) < self.limits.running
            if not has_room or not self._admit(request):
                continue
            self.waiting.remove(request)
            self.running.append(request)
            work.append(self._work(request, budget))
            budget -= work[-1].length
            (new if request.is_new else cached).append(request)
            request.is_new = False
        return self._output(new, cached, work), work

    def _work(self, request: Request, budget: int) -> Work:
        """The next chunk of a request; empty if the budget is too small. Chunks end at multiples of their length,
        wherever a prefix hit ends, so that each is computed in the same way in any run.
        """
        chunk = self.limits.chunk_tokens
        count = min(request.num_tokens - request.computed, chunk - request.computed % chunk)
        return Work(request, request.computed, count if count <= budget else 0)

    def _grow(self, request: Request) -> bool:
        """Takes the blocks that a running request needs. Preempts others, or the request itself, if none is free."""
        while not self._take(request, request.blocks_for(request.num_tokens)):
            self.preempt()
            if request not in self.running:
                return False
        return True

    def _admit(self, request: Request) -> bool:
        """Starts a waiting request. False if it has to wait for the pool, for its load, or for blocks."""
        if request.state == "fresh" and not self._look_up(request):
            return False
        if request.state == "loading" or not self._take(request, request.blocks_for(request.num_tokens)):
            return False
        if request.state == "loaded" and self.connector is not None:
            self.connector.scheduler.allocated(request, request.blocks, 0)
        request.state = "running"
        return True

    def _look_up(self, request: Request) -> bool:
        """Takes blocks for the cached part of a prompt. False if the pool has not answered, or too few are free."""
        limit = (request.num_tokens - 1) // request.block_tokens
        request.blocks = self.blocks.share(request.block_hashes[:limit])
        request.computed = len(request.blocks) * request.block_tokens
        external: int | None = 0
        between = False
        if self.connector is not None:
            external, between = self.connector.scheduler.matched(request, request.computed)
        wanted = request.computed + (external or 0) if between else request.num_tokens
        if external is None or not self._take(request, request.blocks_for(wanted)):
            self._release(request)
            return False
        if self.connector is not None:
            self.connector.scheduler.allocated(request, request.blocks, external)
        request.computed += external
        request.hits += external
        if between and external:
            request.state = "loading"
        return True

    def _take(self, request: Request, count: int) -> bool:
        more = self.blocks.take(max(0, count - len(request.blocks)))
        if more is None:
            return False
        request.blocks += more
        return True

    def _release(self, request: Request) -> None:
        self.blocks.release(request.blocks)
        request.blocks = []

    def _output(self, new: list[Request], cached: list[Request], work: list[Work]) -> SimpleNamespace:
        """What vLLM's scheduler would tell the connector. It names all blocks of each request, as vLLM does for those
        that were resumed.
        """
        starts = {one.request.request_id: one.start for one in work}
        output = SimpleNamespace(
            scheduled_new_reqs=[
                SimpleNamespace(req_id=one.request_id, block_ids=(list(one.blocks),), num_computed_tokens=one.computed)
                for one in new
            ],
            scheduled_cached_reqs=SimpleNamespace(
                req_ids=[one.request_id for one in cached],
                resumed_req_ids={one.request_id for one in cached},
                new_block_ids=[(list(one.blocks),) for one in cached],
                num_computed_tokens=[starts[one.request_id] for one in cached],
            ),
            num_scheduled_tokens={one.request.request_id: one.length for one in work},
            preempted_req_ids=self._preempted,
            finished_req_ids=self._finished,
        )
        self._preempted, self._finished = set(), set()
        return output

    # What a step has done.

    def _take_loaded(self, loaded: set[str], failed: set[int]) -> None:
        """Of a load between steps, only the blocks before the first failed one count."""
        for request in [one for one in self.waiting if one.state == "loading"]:
            lost = [i for i, block_id in enumerate(request.blocks) if block_id in failed]
            if lost:
                request.computed = min(request.computed, lost[0] * request.block_tokens)
            if request.request_id not in loaded:
                continue
            self._publish(request)
            request.state = "loaded" if request.computed else "fresh"
            if not request.computed:
                self._release(request)
        if self.connector is not None:
            self.connector.scheduler.loaded(loaded)

    def _advance(self, work: Work, token: int, failed: set[int]) -> None:
        """Goes on behind the computed tokens, or back to the first block whose load failed."""
        request = work.request
        lost = [i for i, block_id in enumerate(request.blocks) if block_id in failed]
        if lost:
            request.computed = min(request.computed, lost[0] * request.block_tokens)
            return
        request.computed += work.length
        self._publish(request)
        if request.computed < request.num_tokens:
            return
        request.output.append(token)
        request.first_token = request.first_token or time.perf_counter()
        if len(request.output) == request.new_tokens:
            self._end(request)

    def _publish(self, request: Request) -> None:
        """Lets later requests use the blocks of a prompt. Those of answers may differ in their last bits from blocks
        that are computed from a prompt, so that outputs would depend on what was cached.
        """
        whole = min(request.computed, request.num_prompt_tokens) // request.block_tokens
        for block_id, block_hash in zip(request.blocks[:whole], request.block_hashes, strict=False):
            self.blocks.publish(block_id, block_hash)

    def _end(self, request: Request) -> None:
        request.state, request.ended = "ended", time.perf_counter()
        self.running.remove(request)
        self._finished.add(request.request_id)
        if self.connector is not None and self.connector.scheduler.finished(request.request_id):
            self._held[request.request_id] = request
        else:
            self._release(request)
