"""Decides which blocks to load and to save: the connector's half in the process of vLLM's scheduler."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from mooncake.vllm import stored
from mooncake.vllm.plan import Load, Save, StepPlan
from mooncake.vllm.stored import StoredBlocks


class Request(stored.Request, Protocol):
    """The attributes of `vllm.v1.request.Request` that the scheduler reads."""

    @property
    def request_id(self) -> str: ...
    @property
    def num_tokens(self) -> int: ...
    @property
    def num_prompt_tokens(self) -> int: ...


class Lookups(Protocol):
    """The methods of `lookup.LookupClient` that the scheduler uses."""

    def begin_step(self) -> None: ...
    def count(self, request_id: str, hashes: Sequence[bytes], first: int) -> int | None: ...
    def forget(self, request_id: str) -> None: ...


@dataclass(frozen=True)
class Rules:
    """The options that the scheduler follows. `block_tokens` is the number of tokens in a block. If `can_defer`, vLLM
    asks again in a later step for a request whose look-up is not answered yet.
    """

    block_tokens: int
    saves: bool
    save_decode_cache: bool
    loads_between_steps: bool
    can_defer: bool = True


@dataclass
class Tracker:
    """The progress of one request. Saves were planned for the first `saved` blocks; `loaded` is true once a load was
    planned.
    """

    request: Request
    block_ids: list[int] = field(default_factory=list)
    saved: int = 0
    computed_from: int | None = None
    loaded: bool = False

    def restart(self) -> None:
        """Resets the progress after a preemption, which takes the request's blocks."""
        self.block_ids = []
        self.saved = 0
        self.computed_from = None
        self.loaded = False

    def save(self, computed_tokens: int, scheduled_tokens: int, rules: Rules) -> Save | None:
        """The save of the blocks that this step completes; None if it completes none.

        `computed_tokens` may be less than before: tokens whose load failed are computed again, and their blocks saved
        again.
        """
        first_computed = computed_tokens // rules.block_tokens
        self.saved = min(self.saved, first_computed)
        if self.computed_from is None or first_computed < self.computed_from:
            self.computed_from = first_computed
        limit = self.request.num_tokens if rules.save_decode_cache else self.request.num_prompt_tokens
        end = min(computed_tokens + scheduled_tokens, limit) // rules.block_tokens
        # Tokens that speculative decoding has only guessed have no hash yet.
        end = min(end, len(self.request.block_hashes), len(self.block_ids))
        if end <= self.saved:
            return None
        hashes = tuple(bytes(block_hash) for block_hash in self.request.block_hashes[self.saved : end])
        save = Save(self.saved, tuple(self.block_ids[:end]), hashes, min(self.computed_from, end))
        self.saved, self.computed_from = end, None
        return save


class Scheduler:
    """Plans the loads and saves of each step. `lookups` tells how many blocks of a prompt, from the first on, the pool
    holds. `stored`, if set, records the planned saves.
    """

    def __init__(self, rules: Rules, lookups: Lookups) -> None:
        self.rules = rules
        self.lookups = lookups
        self.stored: StoredBlocks | None = None
        self._trackers: dict[str, Tracker] = {}
        self._local_blocks: dict[str, int] = {}
        self._loads: dict[str, Load] = {}
        self._loading: set[str] = set()
        self._saving: set[str] = set()
        self._held: set[str] = set()

    def matched(self, request: Request, computed_tokens: int) -> tuple[int | None, bool]:
        """How many tokens after the computed ones can be loaded, and whether they are loaded between steps. None
        instead of a number: the pool has not answered yet, and a later step knows.

        At least one token is left to compute, because the next token is sampled from it. A request that was loaded and
        comes back because its load failed is not loaded again: otherwise it could repeat that for ever.
        """
        tracker = self._trackers.get(request.request_id)
        if tracker is not None and tracker.loaded:
            return 0, False
        block_tokens = self.rules.block_tokens
        blocks = min((request.num_tokens - 1) // block_tokens, len(request.block_hashes))
        if blocks * block_tokens <= computed_tokens:
            return 0, False
        first = computed_tokens // block_tokens
        found = self.lookups.count(request.request_id, request.block_hashes[:blocks], first)
        if found is None and self.rules.can_defer:
            return None, False
        hit_tokens = (found or 0) * block_tokens - computed_tokens
        if hit_tokens <= 0:
            return 0, False
        self._local_blocks[request.request_id] = computed_tokens // block_tokens
        return hit_tokens, self.rules.loads_between_steps

    def allocated(self, request: Request, block_ids: Sequence[int], external_tokens: int) -> None:
        """Records a request's blocks. The blocks after its local hit are to be loaded, for `external_tokens` tokens.

        After a load between steps, vLLM calls it again with 0 tokens.
        """
        tracker = self._trackers.setdefault(request.request_id, Tracker(request))
        first = self._local_blocks.pop(request.request_id, 0)
        if external_tokens <= 0:
            return
        tracker.loaded = True
        last = first + external_tokens // self.rules.block_tokens
        hashes = tuple(bytes(block_hash) for block_hash in request.block_hashes[first:last])
        self._loads[request.request_id] = Load(tuple(block_ids[first:last]), hashes, self.rules.loads_between_steps)
        if self.rules.loads_between_steps:
            self._loading.add(request.request_id)

    def loaded(self, request_ids: Iterable[str]) -> None:
        """Records that the workers have ended the loads of these requests between steps."""
        self._loading.difference_update(request_ids)

    def finished(self, request_id: str) -> bool:
        """Ends a request. Returns whether its blocks must stay until the workers report that its saves have ended.

        During a load between steps vLLM keeps the blocks anyway. The request's saves ended before it was preempted and
        loaded again.
        """
        self._local_blocks.pop(request_id, None)
        self._trackers.pop(request_id, None)
        self.lookups.forget(request_id)
        is_held = request_id in self._saving and request_id not in self._loading
        self._saving.discard(request_id)
        if is_held:
            self._held.add(request_id)
        return is_held

    def plan(self, output: Any) -> StepPlan:
        """The plan for one `SchedulerOutput` of vLLM. It ends a step of the scheduler."""
        self.lookups.begin_step()
        plan = StepPlan(loads=self._loads, preempted=self._preempted(output) & self._saving, held=self._held)
        self._loads, self._held = {}, set()
        if not self.rules.saves:
            return plan
        for new in output.scheduled_new_reqs:
            self._plan_save(plan, new.req_id, new.block_ids, True, new.num_computed_tokens, output)
        cached = output.scheduled_cached_reqs
        resumed = _resumed(cached)
        for place, request_id in enumerate(cached.req_ids):
            blocks, computed_tokens = cached.new_block_ids[place], cached.num_computed_tokens[place]
            self._plan_save(plan, request_id, blocks, request_id in resumed, computed_tokens, output)
        self._saving.update(plan.saves)
        return plan

    def _plan_save(
        self,
        plan: StepPlan,
        request_id: str,
        blocks: tuple[list[int], ...] | None,
        is_whole_table: bool,
        computed_tokens: int,
        output: Any,
    ) -> None:
        tracker = self._trackers.get(request_id)
        if tracker is None:
            return
        if is_whole_table:
            tracker.block_ids = []
        tracker.block_ids += blocks[0] if blocks else []
        save = tracker.save(computed_tokens, output.num_scheduled_tokens[request_id], self.rules)
        if save is None:
            return
        plan.saves[request_id] = save
        if self.stored is not None:
            self.stored.plan(tracker.request, save)

    def _preempted(self, output: Any) -> set[str]:
        """The requests that lost their blocks. If vLLM does not tell, all saving requests that are not scheduled."""
        told = getattr(output, "preempted_req_ids", None)
        if told is None:
            return self._saving - set(output.num_scheduled_tokens)
        for request_id in told:
            if request_id in self._trackers:
                self._trackers[request_id].restart()
        return set(told)


def _resumed(cached: Any) -> set[str]:
    """The requests whose blocks are all new. Newer and older versions of vLLM report them differently."""
    if hasattr(cached, "resumed_req_ids"):
        return set(cached.resumed_req_ids)
    return {
        request_id for request_id, again in zip(cached.req_ids, cached.resumed_from_preemption, strict=True) if again
    }
