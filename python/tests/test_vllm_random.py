"""The connector for vLLM under random requests, failures and preemptions: it stores and uses no wrong block.

A small engine replaces vLLM. It schedules chunks, computes blocks layer by layer from the blocks before them, and
recomputes what failed to load. Whatever it computes from a wrong block is wrong too, so wrong blocks spread.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from cluster import wait_until
from mooncake.vllm.breaker import Breaker
from mooncake.vllm.config import Options
from mooncake.vllm.key import Topology
from mooncake.vllm.layout import BlockLayout, Layer
from mooncake.vllm.pool import Pool
from mooncake.vllm.scheduler import Rules, Scheduler
from mooncake.vllm.worker import Place, Worker

BLOCK = 4
BLOCKS, LAYERS = 24, 3
LAYER_STRIDE = 1000
REQUESTS = 60
SECONDS = 20.0


Tokens = tuple[object, ...]


def right(block_hash: bytes, layer: int) -> Tokens:
    """The right tokens of a layer of a block."""
    return ((block_hash, layer),) * BLOCK


class Memory:
    """The tokens of each layer of each block, by the address of the layer's part of the block."""

    def __init__(self) -> None:
        self.values: dict[int, Tokens] = {}

    def layout(self) -> BlockLayout:
        return BlockLayout({f"l.{i}": Layer(i * LAYER_STRIDE, 1, ((0, 1),)) for i in range(LAYERS)})

    def holds(self, block_id: int, block_hash: bytes) -> bool:
        return all(self.values.get(i * LAYER_STRIDE + block_id) == right(block_hash, i) for i in range(LAYERS))


# Where staging memory begins, and how many layers of blocks the store lends at most.
STAGE, MOST_STAGED = 1_000_000, 8


class FlakyStore:
    """A store in a dictionary that checks its arguments and sometimes fails."""

    def __init__(self, memory: Memory, chance: random.Random) -> None:
        self.memory, self.chance = memory, chance
        self.lock = threading.Lock()
        self.objects: dict[str, dict[int, Tokens | None]] = {}
        self.writing: dict[str, dict[int, Tokens | None]] = {}
        self.stored = self.loaded = 0

    def fails(self, percent: int) -> bool:
        return self.chance.randrange(100) < percent

    def publish(self, key: str, parts: dict[int, Tokens | None]) -> None:
        block_hash = bytes.fromhex(key.rpartition("@")[2])
        assert parts == {i: right(block_hash, i) for i in range(LAYERS)}, f"a wrong block is stored: {key}"
        self.stored += 1
        self.objects[key] = parts

    def batch_probe_key(self, keys: list[str]) -> list[int]:
        with self.lock:
            if self.objects and self.fails(20):
                del self.objects[self.chance.choice(list(self.objects))]
            return [int(key in self.objects) for key in keys]

    def batch_prefix_len(self, keys: list[str], lease_from: int) -> int:
        if self.fails(5):
            return -900
        found = self.batch_probe_key(keys)
        return next((at for at, code in enumerate(found) if code != 1), len(keys))

    def _lend_from_mem_pool(self, size: int) -> Any:
        return SimpleNamespace(ptr=STAGE) if size <= MOST_STAGED else None

    def _copy_out(self, target: int, pointers: list[int], sizes: list[int]) -> int:
        with self.lock:
            for place, address in enumerate(expanded(pointers, sizes), target):
                self.memory.values[place] = self.memory.values.get(address, ())
            return -600 if self.fails(5) else 0

    def batch_put_from_multi_buffers(self, keys: list[str], pointers: Any, sizes: Any, config: Any) -> list[int]:
        with self.lock:
            codes = [-200 if self.fails(10) else 0 for _ in keys]
            for key, addresses, lengths, code in zip(keys, pointers, sizes, codes, strict=True):
                if code == 0:
                    places = enumerate(expanded(addresses, lengths))
                    parts = {i: self.memory.values.get(address) for i, address in places}
                    self.publish(key, parts)
            return codes

    def batch_get_into_multi_buffers(self, keys: list[str], pointers: Any, sizes: Any) -> list[int]:
        with self.lock:
            return [self._read(key, list(enumerate(row))) for key, row in zip(keys, pointers, strict=True)]

    def _read(self, key: str, places: list[tuple[int, int]]) -> int:
        parts = self.objects.get(key)
        if parts is None or self.fails(20):
            for _, address in places[: self.chance.randrange(len(places) + 1)]:
                self.memory.values[address] = ("torn",) * BLOCK
            return -800
        for part, address in places:
            self.memory.values[address] = parts[part] or ()
        self.loaded += 1
        return len(places)

    def batch_put_session_start(self, keys: list[str], sizes: list[int], config: Any) -> list[int]:
        with self.lock:
            codes = [-705 if key in self.objects else -200 if self.fails(10) else 0 for key in keys]
            assert not any(key in self.writing for key in keys), "a session is left open"
            self.writing.update({key: {} for key, code in zip(keys, codes, strict=True) if code == 0})
            return codes

    def batch_put_from_multi_buffer_ranges(self, keys: list[str], pointers: Any, sizes: Any, offsets: Any) -> list[int]:
        with self.lock:
            codes = [-800 if self.fails(5) else 1 for _ in keys]
            for key, row, places, code in zip(keys, pointers, offsets, codes, strict=True):
                if code == 1:
                    self.writing[key][places[0]] = self.memory.values.get(row[0])
            return codes

    def batch_put_session_end(self, keys: list[str]) -> list[int]:
        with self.lock:
            for key in keys:
                self.publish(key, self.writing.pop(key))
            return [0] * len(keys)

    def batch_put_session_revoke(self, keys: list[str]) -> list[int]:
        with self.lock:
            for key in keys:
                del self.writing[key]
            return [0] * len(keys)

    def batch_get_session_start(self, keys: list[str]) -> list[int]:
        with self.lock:
            return [0 if key in self.objects and not self.fails(5) else -704 for key in keys]

    def batch_get_into_multi_buffer_ranges(self, keys: list[str], pointers: Any, sizes: Any, offsets: Any) -> list[int]:
        with self.lock:
            rows = zip(keys, pointers, offsets, strict=True)
            return [self._read(key, list(zip(places, row, strict=True))) for key, row, places in rows]

    def batch_get_session_end(self, keys: list[str]) -> int:
        return 0

    def remove_by_regex(self, regex_pattern: str, force: bool) -> int:
        return 0


def expanded(addresses: list[int], lengths: list[int]) -> list[int]:
    """The address of each byte: in this memory, of each layer of a block."""
    return [address + i for address, length in zip(addresses, lengths, strict=True) for i in range(length)]


class Lookups:
    """Asks the pool at once, and sometimes answers in a later step only."""

    def __init__(self, count: Callable[[Sequence[bytes]], int], chance: random.Random) -> None:
        self.answer, self.chance = count, chance

    def begin_step(self) -> None:
        pass

    def count(self, request_id: str, hashes: Sequence[bytes], first: int) -> int | None:
        return None if self.chance.randrange(5) == 0 else self.answer(hashes)

    def forget(self, request_id: str) -> None:
        pass


@dataclass
class Request:
    request_id: str
    num_prompt_tokens: int
    branch: int
    blocks: list[int] = field(default_factory=list)
    computed: int = 0
    state: str = "fresh"  # Then "loading", "ready" or "running".
    is_new: bool = True
    lora_request: object = None

    @property
    def all_token_ids(self) -> range:
        return range(self.num_tokens)

    @property
    def num_tokens(self) -> int:
        return self.num_prompt_tokens

    @property
    def size(self) -> int:
        """The number of blocks for all tokens."""
        return -(-self.num_tokens // BLOCK)

    @property
    def block_hashes(self) -> list[bytes]:
        """Prompts share their first two blocks; from the third on, their branch distinguishes them."""
        return [f"{index}/{self.branch if index > 1 else 0}".encode() for index in range(self.num_tokens // BLOCK)]


class Engine:
    """The steps of a scheduler with chunks, local prefix hits among running requests, and the policy `recompute`."""

    def __init__(self, options: Options, chance: random.Random) -> None:
        self.options, self.chance = options, chance
        self.memory = Memory()
        self.store = FlakyStore(self.memory, random.Random(chance.random()))
        pool = Pool(self.store, None)
        pool.breaker = Breaker(lambda: not self.store.fails(50), first_pause=0.01)
        self.worker = Worker(pool, self.memory.layout(), Place("m", 0, Topology()), options, True)
        keys = self.worker.keys
        rules = Rules(BLOCK, True, False, options.loads_between_steps)
        count = Lookups(lambda hashes: pool.leading(keys.keys([bytes(one) for one in hashes])), self.chance)
        self.scheduler = Scheduler(rules, count)
        self.free = list(range(BLOCKS))
        self.users = [0] * BLOCKS
        self.running: list[Request] = []
        self.waiting: list[Request] = []
        self.held: dict[str, Request] = {}
        self.preempted: set[str] = set()
        self.finished: set[str] = set()
        self.count = self.ended = self.failed = 0

    def release(self, request: Request) -> None:
        for block_id in request.blocks:
            self.users[block_id] -= 1
            if not self.users[block_id]:
                self.free.append(block_id)
        request.blocks = []

    def take(self, request: Request, wanted: int) -> bool:
        """Takes blocks until the request has this many. False if too few are free."""
        missing = wanted - len(request.blocks)
        if missing > len(self.free):
            return False
        for _ in range(missing):
            block_id = self.free.pop(self.chance.randrange(len(self.free)))
            self.users[block_id] += 1
            request.blocks.append(block_id)
        return True

    def local_hit(self, request: Request) -> list[int]:
        """Blocks that a running request has computed, or counts as computed because it loads them in this step."""
        best: list[int] = []
        for other in self.running:
            shared = 0
            limit = min(other.computed // BLOCK, (request.num_tokens - 1) // BLOCK)
            while shared < limit and other.block_hashes[shared] == request.block_hashes[shared]:
                shared += 1
            best = max(best, other.blocks[:shared], key=len)
        return list(best)

    def admit(self, request: Request) -> bool:
        """Starts a waiting request. False if it has to wait for blocks or for its load."""
        if request.state == "fresh" and not self.look_up(request):
            return False
        if request.state == "loading" or not self.take(request, request.size):
            return False
        if request.state == "ready":
            self.scheduler.allocated(request, list(request.blocks), 0)
        request.state = "running"
        return True

    def look_up(self, request: Request) -> bool:
        """Takes blocks for the cached part of the prompt. False if too few are free."""
        request.blocks = self.local_hit(request)
        for block_id in request.blocks:
            self.users[block_id] += 1
        request.computed = len(request.blocks) * BLOCK
        external, between = self.scheduler.matched(request, request.computed)
        if external is None:
            self.release(request)
            return False
        if not self.take(request, (request.computed + external) // BLOCK if between else request.size):
            self.release(request)
            return False
        self.scheduler.allocated(request, list(request.blocks), external)
        request.computed += external
        if between:
            request.state = "loading"
        return True

    def preempt(self) -> None:
        victim = self.running.pop()
        self.release(victim)
        victim.state, victim.computed = "fresh", 0
        self.preempted.add(victim.request_id)
        self.waiting.insert(0, victim)

    def schedule(self) -> tuple[SimpleNamespace, list[tuple[Request, int]]]:
        if self.running and self.chance.randrange(10) == 0:
            self.preempt()
        cached: list[Any] = [(request, None) for request in self.running]
        new: list[Any] = []
        while not self.preempted and self.waiting and len(self.running) < 4 and self.admit(self.waiting[0]):
            request = self.waiting.pop(0)
            self.running.append(request)
            (new if request.is_new else cached).append((request, list(request.blocks)))
            request.is_new = False
        work = [(one, min(self.chance.randrange(1, 11), one.num_tokens - one.computed)) for one, _ in [*cached, *new]]
        return self.output(cached, new, {request.request_id: tokens for request, tokens in work}), work

    def output(self, cached: Any, new: Any, scheduled: dict[str, int]) -> SimpleNamespace:
        output = SimpleNamespace(
            scheduled_new_reqs=[
                SimpleNamespace(req_id=one.request_id, block_ids=(blocks,), num_computed_tokens=one.computed)
                for one, blocks in new
            ],
            scheduled_cached_reqs=SimpleNamespace(
                req_ids=[one.request_id for one, _ in cached],
                resumed_req_ids={one.request_id for one, blocks in cached if blocks is not None},
                new_block_ids=[None if blocks is None else (blocks,) for _, blocks in cached],
                num_computed_tokens=[one.computed for one, _ in cached],
            ),
            num_scheduled_tokens=scheduled,
            preempted_req_ids=self.preempted,
            finished_req_ids=self.finished,
        )
        self.preempted, self.finished = set(), set()
        return output

    def compute(self, request: Request, tokens: int, layer: int) -> None:
        """Computes a layer of these tokens. It is right only if the layer is right for all tokens before them."""
        values, hashes = self.memory.values, request.block_hashes
        good = True
        for token in range(request.computed + tokens):
            index, offset = divmod(token, BLOCK)
            place = layer * LAYER_STRIDE + request.blocks[index]
            wanted = (hashes[index] if index < len(hashes) else request.request_id, layer)
            held = values.get(place, ("old",) * BLOCK)
            if token >= request.computed:
                values[place] = (*held[:offset], wanted if good else "wrong", *held[offset + 1 :])
            good = good and values.get(place, held)[offset] == wanted

    def step(self) -> None:
        output, work = self.schedule()
        plan = self.scheduler.plan(output)
        worker = self.worker
        worker.begin(plan)
        worker.load()
        for layer in range(LAYERS):
            worker.wait_for_layer(f"l.{layer}")
            for request, tokens in work:
                self.compute(request, tokens, layer)
            worker.save_layer(f"l.{layer}")
        worker.save()
        saved, loaded = worker.take_finished()
        failed = worker.take_failed_blocks()
        self.failed += len(failed)
        for request, tokens in work:
            self.advance(request, tokens, failed)
        self.scheduler.loaded(loaded)
        for request in [one for one in self.waiting if one.state == "loading"]:
            self.arrive(request, failed, request.request_id in loaded)
        for request_id in saved:
            self.release(self.held.pop(request_id))

    def advance(self, request: Request, tokens: int, failed: set[int]) -> None:
        """After a step: returns to the first failed block, or continues, or ends the request."""
        lost = [i for i in range(-(-request.computed // BLOCK)) if request.blocks[i] in failed]
        if lost:
            request.computed = lost[0] * BLOCK
            return
        request.computed += tokens
        if request.computed < request.num_tokens:
            return
        for block_id, block_hash in zip(request.blocks, request.block_hashes, strict=False):
            assert self.memory.holds(block_id, block_hash), f"{request.request_id} ends with a wrong block"
        self.end(request)

    def arrive(self, request: Request, failed: set[int], is_over: bool) -> None:
        """A load between steps has ended: only the blocks before the first failed one count."""
        for index, block_id in enumerate(request.blocks):
            if block_id in failed:
                request.computed = min(request.computed, index * BLOCK)
        if not is_over:
            return
        request.state = "ready"
        if not request.computed:
            self.release(request)
            request.state = "fresh"

    def end(self, request: Request) -> None:
        self.ended += 1
        self.running.remove(request)
        self.finished.add(request.request_id)
        if self.scheduler.finished(request.request_id):
            self.held[request.request_id] = request
        else:
            self.release(request)

    def arrivals(self) -> None:
        if len(self.waiting) < 3:
            self.count += 1
            tokens = self.chance.randrange(3, 26)
            self.waiting.append(Request(f"r{self.count}", tokens, self.chance.randrange(3)))


MODES = {
    "between": Options(recv_threads=2),
    "within": Options(load_async=False),
    "layers": Options(use_layerwise=True),
    "between, no copies": Options(recv_threads=2, save_buffer_mb=0),
    "layers, no copies": Options(use_layerwise=True, save_buffer_mb=0),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("number", range(3))
def test_no_wrong_block_is_stored_or_used(mode: str, number: int, caplog: pytest.LogCaptureFixture) -> None:
    seed = int(os.environ.get("VLLM_RANDOM_SEED", random.getrandbits(32))) + number
    print(f"VLLM_RANDOM_SEED={seed - number}, number {number}; threads make what is random depend on time, too")
    engine = Engine(MODES[mode], random.Random(seed))
    with caplog.at_level("ERROR"):

        def has_seen_enough() -> bool:
            for _ in range(20):
                engine.arrivals()
                engine.step()
            return engine.ended >= REQUESTS and min(engine.store.stored, engine.store.loaded, engine.failed) > 10

        def is_empty() -> bool:
            engine.step()
            return not (engine.running or engine.waiting or engine.held)

        wait_until(has_seen_enough, SECONDS, "blocks are stored, loaded, lost")
        wait_until(is_empty, SECONDS, "all requests end")
    engine.worker.close()
    wrong = [record.getMessage() + str(record.exc_info) for record in caplog.records if record.levelname == "ERROR"]
    assert wrong == [], "checks of the store that failed on a thread"
    assert (engine.ended, sorted(engine.free), engine.store.writing) == (engine.count, list(range(BLOCKS)), {})
