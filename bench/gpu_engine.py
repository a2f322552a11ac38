#!/usr/bin/env python3
"""Measures conversations on a small engine with and without a pool: time to the first token, and tokens a second.

    make gpu-engine                         # on a machine with a GPU: a model of 8 B parameters' shape
    make gpu-engine ARGS="--shape 1b"
    make gpu-engine ARGS="--device cpu"     # a small model; --device double: its KV cache in the memory of a double

The engine (`paged_engine.py`) has a paged KV cache, continuous batching and prefix look-ups. It loads and saves through
the two halves of `mooncake.vllm`'s connector, whole blocks or layer by layer. The model (`llama.py`) has random
weights. The cache holds a part of the conversations only, so that their beginnings are gone when the next turn comes.
The outputs of all runs must be equal.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import uuid
from collections.abc import Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from llama import Cache, Llama, Shape
from mooncake.store import ReplicateConfig
from mooncake.vllm.config import Options, model_tag
from mooncake.vllm.device import block_layout, block_shape, register
from mooncake.vllm.key import Topology
from mooncake.vllm.layout import BlockLayout, Layer
from mooncake.vllm.lookup import LookupClient, socket_name
from mooncake.vllm.pool import Pool
from mooncake.vllm.scheduler import Rules, Scheduler
from mooncake.vllm.stream import gate_on, marks_on
from mooncake.vllm.worker import Place, Worker
from paged_engine import Connector, Engine, Limits, Request
from table import markdown

sys.path.append(str(Path(__file__).resolve().parents[1] / "python" / "tests"))
from cluster import MIB, Cluster

if TYPE_CHECKING:
    from collections.abc import Iterator

SHAPES = {
    "tiny": Shape(layers=3, width=64, heads=4, kv_heads=2, head=16, inner=128, words=512),
    "small": Shape(layers=8, width=512, heads=8, kv_heads=4, head=64, inner=1536, words=2048),
    "1b": Shape(layers=16, width=2048, heads=32, kv_heads=8, head=64, inner=8192, words=32_000),
    "8b": Shape(layers=32, width=4096, heads=32, kv_heads=8, head=128, inner=14_336, words=32_000),
}
MODES: dict[str, Options | None] = {
    "no pool": None,
    "pool, whole blocks": Options(),
    "pool, layer by layer": Options(use_layerwise=True),
}


class Talk(NamedTuple):
    """How many users talk for how many turns; the tokens of a question and of an answer; how many users at a time."""

    users: int
    turns: int
    question: int
    answer: int
    at_once: int


class Size(NamedTuple):
    """The work of a run. `node_bytes` is the memory of the pool."""

    talk: Talk
    limits: Limits
    node_bytes: int


def size_of(device: str, shape: Shape) -> Size:
    """The work for a device and a model. The cache has room for the users at a time, and not for all."""
    if device == "cuda":
        limits = Limits(blocks=320, block_tokens=128, running=8, step_tokens=1024, chunk_tokens=128)
        return Size(Talk(users=16, turns=4, question=1024, answer=64, at_once=4), limits, 24 << 30)
    if shape == SHAPES["tiny"]:
        limits = Limits(blocks=18, block_tokens=16, running=4, step_tokens=64, chunk_tokens=16)
        return Size(Talk(users=6, turns=2, question=60, answer=4, at_once=2), limits, 64 * MIB)
    limits = Limits(blocks=36, block_tokens=64, running=2, step_tokens=256, chunk_tokens=64)
    return Size(Talk(users=8, turns=3, question=250, answer=6, at_once=2), limits, 1024 * MIB)


class TorchCache:
    """A KV cache in torch's tensors, one for each layer."""

    def __init__(self, shape: Shape, limits: Limits, device: str) -> None:
        kind = torch.float32 if device == "cpu" else torch.bfloat16
        size = (limits.blocks, 2, limits.block_tokens, shape.kv_heads, shape.head)
        self.tensors = {f"layers.{i}": torch.zeros(size, dtype=kind, device=device) for i in range(shape.layers)}
        self.by_number = list(self.tensors.values())

    def read(self, layer: int, block_ids: Sequence[int]) -> torch.Tensor:
        blocks = self.by_number[layer][torch.tensor(block_ids, device=self.by_number[layer].device)]
        return blocks.transpose(0, 1).flatten(1, 2)

    def write(self, layer: int, block_id: int, start: int, part: torch.Tensor) -> None:
        self.by_number[layer][block_id, :, start : start + part.shape[1]] = part

    def register(self, store: Any) -> tuple[BlockLayout, list[object]]:
        """Registers the cache with the store. Returns its layout, and what decides what the bytes of a block are."""
        register(store, self.tensors)
        layout = block_layout(self.tensors, self.by_number[0].shape[0])
        return layout, block_shape(self.tensors, layout)


class DoubleCache:
    """A KV cache in the memory of the driver's test double, which the processor cannot access."""

    def __init__(self, shape: Shape, limits: Limits) -> None:
        from gpu import DeviceMemory

        self.shape = (2, limits.block_tokens, shape.kv_heads, shape.head)
        self.blocks, self.layers = limits.blocks, shape.layers
        self.token_bytes = 4 * shape.kv_heads * shape.head
        self.half_bytes = self.token_bytes * limits.block_tokens
        self.memory = DeviceMemory(2 * self.half_bytes * self.blocks * self.layers)

    def read(self, layer: int, block_ids: Sequence[int]) -> torch.Tensor:
        parts = [self.memory.read(self._at(layer, block_id), 2 * self.half_bytes) for block_id in block_ids]
        blocks = [torch.frombuffer(bytearray(part), dtype=torch.float32).view(self.shape) for part in parts]
        return torch.cat(blocks, dim=1)

    def write(self, layer: int, block_id: int, start: int, part: torch.Tensor) -> None:
        for half in range(2):
            at = self._at(layer, block_id) + half * self.half_bytes + start * self.token_bytes
            self.memory.write(at, part[half].contiguous().numpy().tobytes())

    def register(self, store: Any) -> tuple[BlockLayout, list[object]]:
        if store.register_buffer(self.memory.address, self.memory.size) != 0:
            raise SystemExit("the store refuses the double's memory")
        strides = [self.half_bytes * 2 // 4, 1]
        layers = {
            f"layers.{number}": Layer.of(
                self.memory.address + self._at(number, 0), [self.blocks, strides[0]], strides, 4, self.blocks
            )
            for number in range(self.layers)
        }
        return BlockLayout(layers), [*self.shape]

    def _at(self, layer: int, block_id: int) -> int:
        return 2 * self.half_bytes * (layer * self.blocks + block_id)


@contextmanager
def connected(cache: Any, shape: Shape, limits: Limits, cluster: Cluster, options: Options) -> Iterator[Connector]:
    """The halves of the connector, as `mooncake.vllm.connector` makes them."""
    store = cluster.store(buffer_bytes=256 * MIB)
    layout, block = cache.register(store)
    place = Place(model_tag("llama", repr(shape), "", {"block": block}), 0, Topology(kv_heads=shape.kv_heads))
    device = cache.by_number[0].device if isinstance(cache, TorchCache) else torch.device("cpu")
    gate = gate_on(device, options.stream_wait_ms) if options.use_layerwise else None
    worker = Worker(Pool(store, ReplicateConfig()), layout, place, options, True, marks_on(device), gate)
    name = socket_name(uuid.uuid4().hex)
    worker.serve_lookups(name)
    client = LookupClient(name, options.lookup_timeout_ms, options.lookup_wait_ms)
    rules = Rules(limits.block_tokens, True, False, options.loads_between_steps)
    try:
        yield Connector(Scheduler(rules, client), worker, client)
    finally:
        client.close()
        worker.close()
        store.close()


class Outcome(NamedTuple):
    """Outputs by request, seconds to the first token by turn, and what the run took."""

    outputs: dict[str, list[int]]
    first_token: list[list[float]]
    seconds: float
    tokens: int
    hits: int


def converse(engine: Engine, talk: Talk, words: int, seed: int) -> Outcome:
    """Runs the conversations turn by turn. The model's answers become parts of the next prompts."""
    random = torch.Generator().manual_seed(seed)
    histories: list[list[int]] = [[] for _ in range(talk.users)]
    requests: dict[str, Request] = {}
    first_token: list[list[float]] = []
    started = time.perf_counter()
    for turn in range(talk.turns):
        todo = list(range(talk.users))
        asked: list[Request] = []
        active: dict[int, Request] = {}
        while todo or active:
            while todo and len(active) < talk.at_once:
                user = todo.pop(0)
                question = torch.randint(words, (talk.question,), generator=random).tolist()
                histories[user] += question
                active[user] = engine.add(f"u{user}t{turn}", list(histories[user]), talk.answer)
                asked.append(active[user])
            engine.step()
            for user, request in list(active.items()):
                if request.state == "ended":
                    histories[user] += request.output
                    del active[user]
        requests.update({one.request_id: one for one in asked})
        first_token.append([one.first_token - one.arrived for one in asked])
    seconds = time.perf_counter() - started
    while not engine.is_idle():
        engine.step()
    outputs = {name: one.output for name, one in requests.items()}
    tokens = sum(one.num_tokens for one in requests.values())
    return Outcome(outputs, first_token, seconds, tokens, sum(one.hits for one in requests.values()))


def run(device: str, shape: Shape, options: Options | None) -> Outcome:
    """One run, with its own pool and cache."""
    size = size_of(device, shape)
    cache: Any = DoubleCache(shape, size.limits) if device == "double" else TorchCache(shape, size.limits, device)
    on: Cache = cache
    model = Llama(shape, size.limits, on, "cpu" if device == "double" else device)
    with ExitStack() as stack:
        connector = None
        if options is not None:
            cluster = stack.enter_context(Cluster())
            cluster.start_node(size.node_bytes)
            connector = stack.enter_context(connected(cache, shape, size.limits, cluster, options))
        # Not a part of the figures: the first steps compile, allocate and connect.
        converse(Engine(model, size.limits, connector), size.talk._replace(users=1, turns=1), shape.words, 1)
        return converse(Engine(model, size.limits, connector), size.talk, shape.words, 2)


def compare(device: str, shape: Shape) -> dict[str, Outcome]:
    """Runs all modes, and checks that their outputs are equal."""
    found = {name: run(device, shape, options) for name, options in MODES.items()}
    wanted = found["no pool"].outputs
    for name, outcome in found.items():
        assert outcome.outputs == wanted, f"{name}: the outputs are not those without a pool"
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", choices=["cuda", "cpu", "double"], default="cuda")
    parser.add_argument("--shape", choices=list(SHAPES), help="default: 8b on a GPU, else small")
    arguments = parser.parse_args()
    shape = SHAPES[arguments.shape or ("8b" if arguments.device == "cuda" else "small")]
    name = torch.cuda.get_device_name() if arguments.device == "cuda" else arguments.device
    talk = size_of(arguments.device, shape).talk
    print(f"{name}, {shape.parameters / 1e9:.3g} B parameters, {talk}\n")
    rows = [["", "first token, turn 1", *(f"turn {i}" for i in range(2, talk.turns + 1)), "tokens/s", "tokens hit"]]
    for mode, outcome in compare(arguments.device, shape).items():
        turns = [f"{1000 * statistics.median(seconds):.1f} ms" for seconds in outcome.first_token]
        rows.append([mode, *turns, f"{outcome.tokens / outcome.seconds:,.0f}", f"{outcome.hits:,}"])
    print(markdown(rows))
    print("\nMedians. Tokens a second count prompts and answers. All outputs are equal.")


if __name__ == "__main__":
    main()
