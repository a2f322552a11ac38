#!/usr/bin/env python3
"""Measures the steps of an engine with `mooncake.vllm` while its pool does not work.

    .venv/bin/python bench/outage.py [FAULT ...]

A small engine (`paged_engine.py`) with a model that takes 10 ms a step serves conversations with common beginnings, and
preempts requests now and then. After two seconds, a part of the pool is paused or killed for five; then it comes back.
Each run has a master and two nodes of its own, which are reached by TCP. Times are those of the engine's thread,
without the time in which it was ready to run but the machine ran something else.
"""

from __future__ import annotations

import os
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, NamedTuple
from unittest import mock

from mooncake.store import ReplicateConfig
from mooncake.vllm.config import Options
from mooncake.vllm.key import Topology
from mooncake.vllm.layout import BlockLayout, Layer
from mooncake.vllm.lookup import LookupClient, socket_name
from mooncake.vllm.pool import Pool
from mooncake.vllm.scheduler import Rules, Scheduler
from mooncake.vllm.worker import Place, Worker
from paged_engine import Connector, Engine, Limits, Request, Work
from table import markdown

sys.path.append(str(Path(__file__).resolve().parents[1] / "python" / "tests"))
from cluster import MIB, Cluster, Memory, pause, resume, wait_until

BLOCK, LAYERS, PART_BYTES = 16, 2, 64 << 10
LIMITS = Limits(blocks=48, block_tokens=BLOCK, running=4, step_tokens=96, chunk_tokens=32)
STEP_SECONDS = 0.01
BEFORE_SECONDS, OUTAGE_SECONDS, BACK_SECONDS = 2.0, 5.0, 60.0


class StampModel:
    """Computes a block as bytes that tell its content, and checks the blocks before it. A step takes some time."""

    layers: ClassVar = [f"l.{i}" for i in range(LAYERS)]

    def __init__(self) -> None:
        self.memory = Memory(LAYERS * LIMITS.blocks * PART_BYTES)

    def layout(self) -> BlockLayout:
        size = LIMITS.blocks * PART_BYTES
        return BlockLayout(
            {
                name: Layer(self.memory.address + i * size, PART_BYTES, ((0, PART_BYTES),))
                for i, name in enumerate(self.layers)
            }
        )

    def forward(self, batch: Sequence[Work], before: Callable[[str], None], after: Callable[[str], None]) -> list[int]:
        time.sleep(STEP_SECONDS)
        for number, name in enumerate(self.layers):
            before(name)
            for request, start, length in batch:
                whole = (start + length) // BLOCK
                for index in range(whole):
                    at = (number * LIMITS.blocks + request.blocks[index]) * PART_BYTES
                    # The first and the last bytes of the part are enough to see wrong or torn content.
                    stamp = request.block_hashes[index] + bytes([number])
                    ends = (at, at + PART_BYTES - len(stamp))
                    if (index + 1) * BLOCK > start:
                        for end in ends:
                            self.memory.write(end, stamp)
                    else:
                        found = [self.memory.read(end, len(stamp)) for end in ends]
                        assert found == [stamp, stamp], f"block {index} of {request.request_id} is wrong"
            after(name)
        return [request.num_tokens for request, _, _ in batch]


@contextmanager
def connected(model: StampModel, cluster: Cluster, options: Options) -> Iterator[Connector]:
    # Memory of a paused process on this host could be read without it; that of another host cannot.
    with mock.patch.dict(os.environ, {"MOONCAKE_TRANSPORTS": "tcp"}):
        store = cluster.store()
    pool = Pool(store, ReplicateConfig())
    worker = Worker(pool, model.layout(), Place(f"m-{uuid.uuid4().hex[:8]}", 0, Topology()), options, True)
    name = socket_name(uuid.uuid4().hex)
    worker.serve_lookups(name)
    client = LookupClient(name, options.lookup_timeout_ms, options.lookup_wait_ms)
    connector = Connector(Scheduler(Rules(BLOCK, True, False, options.loads_between_steps), client), worker, client)
    yield connector
    connector.close()


def engine_seconds() -> float:
    """The time that passed for this thread: without the time in which it waited for a processor."""
    waited_ns = int(Path("/proc/thread-self/schedstat").read_text().split()[1])
    return time.monotonic() - waited_ns / 1e9


class Load:
    """Conversations that begin alike, so that there are hits and saves in many steps, and preemptions."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.requests: list[Request] = []
        self.steps = 0
        self.longest = 0.0

    def run(self, seconds: float) -> None:
        """Runs steps, and notes how long the longest takes."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.arrive()
            started = engine_seconds()
            self.engine.step()
            self.longest = max(self.longest, engine_seconds() - started)
            self.steps += 1

    def arrive(self) -> None:
        while len(self.engine.waiting) < 3:
            number = len(self.requests)
            turns = number // 10 % 5 + 1
            own = [1000 * (number % 10) + i for i in range(turns * BLOCK)]
            prompt = [*range(4 * BLOCK), *own, number]
            self.requests.append(self.engine.add(f"r{number}", prompt, 4))
        if self.steps % 20 == 19 and len(self.engine.running) > 1:
            self.engine.preempt()

    def hits(self) -> int:
        """The tokens that were loaded from the pool so far."""
        return sum(request.hits for request in self.requests)


class Faults:
    """A cluster whose parts are paused, killed and brought back."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def pause_master(self) -> Callable[[], None]:
        master = self.cluster.master
        pause(master.pid)
        return lambda: resume(master.pid)

    def kill_master(self) -> Callable[[], None]:
        self.cluster.master.kill()
        return self.cluster.start_master

    def pause_nodes(self) -> Callable[[], None]:
        nodes = list(self.cluster.nodes)
        for node in nodes:
            pause(node.pid)

        def end() -> None:
            for node in nodes:
                resume(node.pid)

        return end

    def kill_nodes(self) -> Callable[[], None]:
        nodes, self.cluster.nodes[:] = list(self.cluster.nodes), []
        for node in nodes:
            node.kill()

        def start() -> None:
            for _ in nodes:
                self.cluster.start_node(64 * MIB)

        return start


FAULTS = ["pause_master", "kill_master", "pause_nodes", "kill_nodes"]


class Outcome(NamedTuple):
    """Seconds of the longest steps, and tokens that were loaded."""

    fault: str
    without_pool: float
    with_pool: float
    longest: float
    hits_before: int
    hits_meanwhile: int
    hits_after: int
    preemptions: int


def outage(fault: str) -> Outcome:
    """Runs the load without a pool, with one, and through an outage until there are hits again."""
    plain = Load(Engine(StampModel(), LIMITS))
    plain.run(BEFORE_SECONDS)
    with Cluster("--default_kv_lease_ttl=300") as cluster:
        for _ in range(2):
            cluster.start_node(64 * MIB)
        model = StampModel()
        with connected(model, cluster, Options()) as connector:
            load = Load(Engine(model, LIMITS, connector))
            load.run(BEFORE_SECONDS)
            with_pool, before = load.longest, load.hits()
            load.longest, load.engine.preemptions = 0.0, 0
            end = getattr(Faults(cluster), fault)()
            load.run(OUTAGE_SECONDS)
            meanwhile = load.hits()
            longest, preemptions = load.longest, load.engine.preemptions
            end()

            def is_back() -> bool:
                load.run(0.2)
                return load.hits() > meanwhile and not connector.worker.pool.breaker.is_away()

            wait_until(is_back, BACK_SECONDS, "there are hits again")
            after = load.hits()
    hits = (before, meanwhile - before, after - meanwhile)
    return Outcome(fault, plain.longest, with_pool, longest, *hits, preemptions)


def main() -> None:
    rows = []
    for fault in sys.argv[1:] or FAULTS:
        if fault not in FAULTS:
            raise SystemExit(f"no fault {fault}; there are {', '.join(FAULTS)}")
        found = outage(fault)
        times = [f"{1000 * seconds:.1f} ms" for seconds in (found.without_pool, found.with_pool, found.longest)]
        hits = [f"{tokens:,}" for tokens in (found.hits_before, found.hits_meanwhile, found.hits_after)]
        rows.append([fault.replace("_", " "), *times, *hits])
    columns = ["fault", "without a pool", "before", "longest step in the fault", "hits before", "in it", "after"]
    print(markdown([columns, *rows]))


if __name__ == "__main__":
    main()
