"""Measures growing conversations over two vLLM instances behind round-robin, with and without a pool.

Columns: without a pool; with each package's pool; with each package's pool when it is too small, alone and with a disk
behind it.

Usage: vllm_multi_turn.py --models FOLDER --logs FOLDER --out FILE [--cpp PYTHON] [--conversations N] [--turns N], with
the Python of the engines' environment. Writes `multi-turn-figures.json`, `multi-turn.md` and `multi-turn.svg` into the
folder of the logs.

Each turn of a conversation goes to the other instance than the turn before. Between two turns of a conversation, an
instance serves more conversations than its own cache holds. Without a pool, each turn therefore computes its whole
prompt.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from comparison import Figures, Row, compare
from multi_turn_plot import plot
from outcome import Outcome
from pool import MIB, Pool
from process import end_on_sigterm
from report import machine
from store_package import ENGINES_PYTHON, OURS, Package, cpp_package
from vllm_server import VllmServer, core_list, cores
from vllm_store import tokens

SHAPE = "gqa"
INSTANCES = 2
# The number of requests that one instance serves at a time, so that prefill of one meets decoding of another.
IN_FLIGHT = 2
FIRST_TOKENS = 1024
OUTPUT_TOKENS = 32
# Together with the answer before it, each turn adds 1,024 tokens.
TURN_TOKENS = 1024 - OUTPUT_TOKENS
# 16,384 tokens, 192 MiB: two prompts of 6,144 tokens with their answers fit, eight do not.
OWN_CACHE_BLOCKS = 128
BATCH_TOKENS = 2048
NODE_BYTES = 1024 * MIB
# A third of the final size of eight conversations, 576 MiB.
SMALL_NODE_BYTES = 192 * MIB


@dataclass(frozen=True)
class Setup:
    """One column of the table. Its name is that of its package."""

    package: Package
    node_bytes: int = 0
    disk: bool = False
    # If it fails, the table omits the column and the run goes on.
    may_fail: bool = False


NO_POOL = Setup(Package("no pool", ENGINES_PYTHON, ours=False))


def setups(cpp: Package | None) -> list[Setup]:
    """All columns. The columns with only a small pool have no limits."""
    small = replace(OURS, name=f"{OURS.name}, small pool", ours=False)
    small_and_disk = replace(OURS, name=f"{OURS.name}, small pool and disk")
    ours = [Setup(OURS, NODE_BYTES), Setup(small, SMALL_NODE_BYTES), Setup(small_and_disk, SMALL_NODE_BYTES, disk=True)]
    if cpp is None:
        return [NO_POOL, *ours]
    return [
        NO_POOL,
        Setup(cpp, NODE_BYTES, may_fail=True),
        *ours,
        Setup(replace(cpp, name=f"{cpp.name}, small pool"), SMALL_NODE_BYTES, may_fail=True),
        Setup(replace(cpp, name=f"{cpp.name}, small pool and disk"), SMALL_NODE_BYTES, disk=True, may_fail=True),
    ]


@dataclass(frozen=True)
class Sample:
    """The figures of one answered request."""

    tokens: int
    answer_tokens: int
    ttft_ms: float
    itl_ms: float


@dataclass
class Conversation:
    """The tokens of a conversation so far: prompts and answers."""

    number: int
    said: list[int] = field(default_factory=list)

    def ask(self, server: VllmServer, turn: int) -> Sample:
        """Sends one turn. Raises OSError if it fails."""
        count = TURN_TOKENS if self.said else FIRST_TOKENS
        self.said += tokens(f"conversation {self.number} turn {turn}", count)
        answer = server.stream(self.said, OUTPUT_TOKENS)
        sample = Sample(len(self.said) + len(answer.tokens), len(answer.tokens), answer.ttft_ms, answer.itl_ms)
        self.said += answer.tokens
        return sample


@dataclass
class Bench:
    """The load, which is the same for all packages."""

    model: Path
    logs: Path
    conversations: int
    turns: int

    def run(self, setup: Setup) -> dict[str, float]:
        """Measures one column."""
        package = setup.package
        with ExitStack() as stack:
            config = None
            if setup.node_bytes:
                pool = Pool(self.logs, [setup.node_bytes], package, disk=setup.disk)
                config = stack.enter_context(pool).write_config(embedded_bytes=0)
            print(f"  {package.name}: {INSTANCES} vLLM instances start", flush=True)
            servers = self.start(stack, package, config)
            for server in servers:
                server.complete(tokens("warm-up", FIRST_TOKENS))
            return self.converse(package, servers)

    def start(self, stack: ExitStack, package: Package, config: Path | None) -> list[VllmServer]:
        """Starts instances with equal numbers of cores, and with a cache of their own that is too small."""
        mine = cores()
        each = max(len(mine) // INSTANCES, 1)
        servers = []
        for number in range(INSTANCES):
            name = f"multi-turn-{number}-{package.file_name}"
            server = VllmServer(name, self.model, self.logs, config).on(package)
            server.command += [
                f"--num-gpu-blocks-override={OWN_CACHE_BLOCKS}",
                f"--max-num-batched-tokens={BATCH_TOKENS}",
            ]
            begin = number * each % len(mine)
            server.env["VLLM_CPU_OMP_THREADS_BIND"] = core_list(mine[begin : begin + each])
            servers.append(server)
        with ThreadPoolExecutor(INSTANCES) as threads:
            entered = [threads.submit(server.__enter__) for server in servers]
        # Instances that have started must be stopped, even if another one has not.
        for future in entered:
            if future.exception() is None:
                stack.push(future.result())
        return [future.result() for future in entered]

    def converse(self, package: Package, servers: Sequence[VllmServer]) -> dict[str, float]:
        before = [server.metrics() for server in servers]
        conversations = [Conversation(number) for number in range(self.conversations)]
        samples: list[Sample] = []
        seconds: list[float] = []
        cpu_seconds = [cpu(servers)]
        with ExitStack() as stack:
            workers = [stack.enter_context(ThreadPoolExecutor(IN_FLIGHT)) for _ in servers]
            for turn in range(self.turns):
                begin = time.monotonic()
                asked: list[Future[Sample]] = []
                for conversation in conversations:
                    instance = (conversation.number + turn) % INSTANCES
                    asked.append(workers[instance].submit(conversation.ask, servers[instance], turn))
                answered = [future.result() for future in asked]
                seconds.append(time.monotonic() - begin)
                cpu_seconds.append(cpu(servers))
                samples += answered
                ttft_ms = statistics.mean(sample.ttft_ms for sample in answered)
                done = f"turn {turn + 1} of {self.turns}: {seconds[-1]:.0f} s"
                print(f"  {package.name}, {done}, mean TTFT {ttft_ms:.0f} ms", flush=True)
        figures = {
            **phase("first", samples[: self.conversations], seconds[0]),
            **phase("later", samples[self.conversations :], sum(seconds[1:])),
            "short": sum(sample.answer_tokens < OUTPUT_TOKENS for sample in samples),
            "first_cpu": cpu_seconds[1] - cpu_seconds[0],
            "later_cpu": cpu_seconds[-1] - cpu_seconds[1],
        }
        return {**figures, **sources(servers, before)}


def cpu(servers: Sequence[VllmServer]) -> float:
    """Processor seconds so far. Other load on the machine affects them less than wall-clock times."""
    return sum(server.process.cpu_seconds() for server in servers)


def phase(name: str, samples: Sequence[Sample], seconds: float) -> dict[str, float]:
    return {
        f"{name}_ttft": statistics.mean(sample.ttft_ms for sample in samples),
        f"{name}_rate": sum(sample.tokens for sample in samples) / seconds,
        f"{name}_itl": statistics.mean(sample.itl_ms for sample in samples),
    }


def sources(servers: Sequence[VllmServer], before: Sequence[dict[str, float]]) -> dict[str, float]:
    """The shares of prompt tokens from the pool and from the engines' own caches, in percent."""

    def grown(metric: str) -> float:
        return sum(
            server.metrics().get(metric, 0.0) - old.get(metric, 0.0)
            for server, old in zip(servers, before, strict=True)
        )

    prompts = grown("vllm:prompt_tokens_total")
    return {
        "pool": grown("vllm:external_prefix_cache_hits_total") / prompts * 100,
        "local": grown("vllm:prefix_cache_hits_total") / prompts * 100,
    }


ROWS = [
    Row("first_ttft", "first turn: mean TTFT", "ms"),
    Row("first_rate", "first turn: tokens in and out", "tokens/s"),
    Row("first_itl", "first turn: mean ITL", "ms"),
    Row("first_cpu", "first turn: processor time of vLLM", "s"),
    Row("later_ttft", "later turns: mean TTFT", "ms"),
    Row("later_rate", "later turns: tokens in and out", "tokens/s"),
    Row("later_itl", "later turns: mean ITL", "ms"),
    Row("later_cpu", "later turns: processor time of vLLM", "s"),
    Row("short", "answers shorter than asked for", "", 0),
    Row("pool", "prompt tokens from the pool", "%"),
    Row("local", "prompt tokens from the engines' own caches", "%"),
]
# Differences from the column without a pool, in percent of it.
CHANGES = [
    Row("later_ttft_change", "later turns: TTFT against no pool", "%", -50),
    Row("later_rate_change", "later turns: throughput against no pool", "%", 20, at_least=True),
    Row("later_itl_change", "later turns: ITL against no pool", "%"),
    Row("later_cpu_change", "later turns: processor time against no pool", "%"),
]
# A shorter load may fit into the engines' own caches, so its changes have no limits.
CONVERSATIONS, TURNS = 8, 6


def changes(figures: Figures, without: Figures) -> dict[str, float]:
    names = ("later_ttft", "later_rate", "later_itl", "later_cpu")
    return {f"{name}_change": (figures[name] / without[name] - 1) * 100 for name in names}


def run(outcome: Outcome, bench: Bench, columns: Sequence[Setup]) -> None:
    """Measures all columns one after the other, first the column without a pool."""
    found: list[tuple[Package, Figures]] = []
    for setup in columns:
        try:
            figures = bench.run(setup)
        except Exception as error:
            if not setup.may_fail:
                raise
            print(f"  {setup.package.name}: left out: {type(error).__name__}: {error}", flush=True)
            continue
        without = found[0][1] if found else figures
        found.append((setup.package, {**figures, **(changes(figures, without) if found else {})}))
    whole = bench.conversations >= CONVERSATIONS and bench.turns >= TURNS
    rows = [*ROWS, *(CHANGES if whole else [replace(row, limit=None) for row in CHANGES])]
    compare(outcome, "Multi-turn", rows, found)
    write(outcome, bench, found)


def write(outcome: Outcome, bench: Bench, found: Sequence[tuple[Package, Figures]]) -> None:
    figures = {package.name: dict(each) for package, each in found}
    load = {**asdict(bench), "model": bench.model.name, "logs": str(bench.logs)}
    stored = {"machine": machine(), "load": load, "figures": figures}
    (bench.logs / "multi-turn-figures.json").write_text(json.dumps(stored, indent=1))
    (bench.logs / "multi-turn.md").write_text(f"{machine()}\n\n{outcome.tables[-1].markdown()}\n")
    (bench.logs / "multi-turn.svg").write_text(plot(figures))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--logs", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cpp", type=Path, help="the Python of an environment with the C++ package")
    parser.add_argument("--conversations", type=int, default=CONVERSATIONS)
    parser.add_argument("--turns", type=int, default=TURNS)
    arguments = parser.parse_args()
    end_on_sigterm()
    outcome = Outcome("vLLM, multi-turn")
    cpp = cpp_package(arguments.cpp) if arguments.cpp else None
    bench = Bench(arguments.models / SHAPE, arguments.logs, arguments.conversations, arguments.turns)
    outcome.section("multi-turn", lambda: run(outcome, bench, setups(cpp)))
    outcome.write(arguments.out)


if __name__ == "__main__":
    main()
