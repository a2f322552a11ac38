"""Tests vLLM with its own connector when a node dies, when the master dies, and when the pool is too small.

Usage: vllm_faults.py --models FOLDER --logs FOLDER --out FILE [--cpp PYTHON] [--scenarios NAMES] [--rounds N], with
the Python of the engines' environment. With --cpp the scenarios also run on the C++ package. The table then shows its
figures too, but does not check them.
"""

from __future__ import annotations

import argparse
import statistics
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from http.client import HTTPException
from pathlib import Path

from comparison import Figures, Row, compare
from outcome import Outcome
from pool import MIB, Pool
from process import end_on_sigterm, wait_until
from store_package import OURS, Package, cpp_package
from vllm_server import BLOCK_TOKENS, Answer, VllmServer
from vllm_store import prompt, tokens

SHAPE = "gqa"
NODE_BYTES = 512 * MIB
SHORT_TOKENS = 2048
TAIL_TOKENS = 32
OUTPUT_TOKENS = 16
# More than any package needs to save blocks, or to notice that a node or a master is gone or back.
SETTLE_SECONDS = 60.0
# A load of 24 MiB begins some tens of ms after the request, and takes about as long.
KILL_AFTER_SECONDS = 0.05
LOOKUPS = 3
# After a loss, the first request stores and the second one hits. Some packages need more, until they notice the new
# master.
MOST_REQUESTS = 6
SMALL_POOL_BYTES = 160_000_000
SMALL_POOL_PROMPTS = 10


def short(name: str) -> list[int]:
    """2,048 tokens of whole blocks (24 MiB), and 32 more, so that a hit leaves tokens to compute."""
    return tokens(name, SHORT_TOKENS + TAIL_TOKENS)


def attempt(server: VllmServer, ids: list[int]) -> Answer | None:
    """Sends a prompt. None if the request fails."""
    try:
        answer = server.complete(ids)
    except (OSError, HTTPException) as error:
        print(f"  a request failed: {error}", flush=True)
        return None
    return answer if len(answer.tokens) == OUTPUT_TOKENS else None


def ask_counted(server: VllmServer, ids: list[int], operation: str) -> Answer:
    """Sends a prompt, and waits until vLLM has counted an operation of the connector."""
    before = server.operation(operation, "total")
    answer = server.complete(ids)
    what = f"vLLM {server.name} counts {operation}"
    wait_until(lambda: server.operation(operation, "total") > before, SETTLE_SECONDS, what)
    return answer


def save(server: VllmServer, ids: list[int]) -> Answer:
    """Sends a prompt, and waits until its blocks are put."""
    return ask_counted(server, ids, "save_put")


@dataclass
class Stage:
    """The settings with which the scenarios of one package run."""

    package: Package
    model: Path
    logs: Path
    rounds: int

    def pool(self, node_bytes: int = NODE_BYTES) -> Pool:
        return Pool(self.logs, [node_bytes], self.package)

    def server(self, scenario: str, pool: Pool, policy: str = "recompute") -> VllmServer:
        name = f"faults-{scenario}-{self.package.file_name}"
        config = pool.write_config(embedded_bytes=0)
        return VllmServer(name, self.model, self.logs, config, policy=policy).on(self.package)

    def say(self, text: str) -> None:
        print(f"  {self.package.name}: {text}", flush=True)


def node_killed(stage: Stage) -> Figures:
    """Kills the only node just before a request whose blocks it holds."""
    cold_ms, killed_ms, wrong = [], [], 0
    with stage.pool() as pool, stage.server("recompute", pool) as server:
        server.complete(short("warm-up"))
        for turn in map(str, range(stage.rounds)):
            cold = save(server, prompt(turn, "a"))
            server.forget()
            pool.nodes[-1].kill()
            killed = server.complete(prompt(turn, "a"))
            stage.say(f"cold {cold.ttft_ms:.0f} ms, node killed {killed.ttft_ms:.0f} ms")
            cold_ms.append(cold.ttft_ms)
            killed_ms.append(killed.ttft_ms)
            wrong += killed.tokens != cold.tokens
            pool.start_node(NODE_BYTES)
            wait_until(lambda: len(pool.segments()) == 1, SETTLE_SECONDS, "the dead node's segment is unmounted")
            server.forget()
    above = statistics.median(after - before for before, after in zip(cold_ms, killed_ms, strict=True))
    return {
        "cold": statistics.median(cold_ms),
        "killed": statistics.median(killed_ms),
        "above": above,
        "wrong": wrong,
    }


def node_killed_in_load(stage: Stage) -> Figures:
    """Kills the only node while a request loads from it. Requests for other blocks of the node follow at once."""
    names = [f"fails {number}" for number in range(5)]
    with stage.pool() as pool, stage.server("fail", pool, "fail") as server, ThreadPoolExecutor(1) as threads:
        for name in names:
            save(server, short(name))
        server.forget()
        loading = threads.submit(attempt, server, short(names[0]))
        time.sleep(KILL_AFTER_SECONDS)
        pool.nodes[0].kill()
        at_once = loading.result() is None
        after = [attempt(server, short(name)) is None for name in names[1:]]
    return {"failed": at_once + sum(after), "after": sum(after), "asked": len(names)}


def lookups(server: VllmServer, name: str) -> tuple[list[float], float]:
    """The TTFT in ms of prompts in vLLM's own cache, and, from vLLM's metrics, their longest look-up in ms."""
    ttft_ms, longest_ms = [], 0.0
    for _ in range(LOOKUPS):
        before = server.operation("lookup_exists", "time_seconds_sum")
        ttft_ms.append(ask_counted(server, short(name), "lookup_exists").ttft_ms)
        longest_ms = max(longest_ms, (server.operation("lookup_exists", "time_seconds_sum") - before) * 1e3)
    return ttft_ms, longest_ms


def requests_until_hit(server: VllmServer, name: str) -> int:
    """The number of requests until one hits; `MOST_REQUESTS + 1` if none does."""
    for request in range(1, MOST_REQUESTS + 1):
        server.forget()
        if server.complete(short(name)).pool_tokens == SHORT_TOKENS:
            return request
    return MOST_REQUESTS + 1


def master_killed(stage: Stage) -> Figures:
    """Times look-ups of prompts in vLLM's own cache without a master; then starts a master on the same port and counts
    until hits.
    """
    name = "stays"
    with stage.pool() as pool, stage.server("master", pool) as server:
        save(server, short(name))
        with_master, _ = lookups(server, name)
        pool.masters[-1].kill()
        without_master, longest_ms = lookups(server, name)
        stage.say(f"TTFT with the master {with_master}, without {without_master}")
        pool.start_master()
        began = time.monotonic()
        wait_until(lambda: bool(pool.segments()), SETTLE_SECONDS, "the node has mounted its segment again")
        mounted_seconds = time.monotonic() - began
        requests = requests_until_hit(server, name)
        hit_seconds = time.monotonic() - began
    before_ms = statistics.median(with_master)
    return {
        "longest": longest_ms,
        "local": before_ms,
        "above": statistics.median(without_master) - before_ms,
        "mounted": mounted_seconds,
        "requests": requests,
        "hit": hit_seconds,
    }


def small_pool(stage: Stage) -> Figures:
    """Puts ten prompts into a pool with room for six, then requests all of them again, newest first."""
    names = [f"ten {number}" for number in range(SMALL_POOL_PROMPTS)]
    with stage.pool(SMALL_POOL_BYTES) as pool, stage.server("small-pool", pool) as server:
        for name in names:
            save(server, short(name))
        refused = server.operation("save_put", "failed_keys_total")
        held = len(pool.keys())
        server.forget()
        hit_tokens = [server.complete(short(name)).pool_tokens for name in reversed(names)]
        stage.say(f"{held} blocks held, tokens from the pool, newest prompt first: {hit_tokens}")
        failed_loads = server.operation("load_get", "failed_keys_total")
    return {
        "refused": refused,
        "held": held,
        "hits": sum(count == SHORT_TOKENS for count in hit_tokens),
        "parts": sum(count > 0 for count in hit_tokens),
        "tokens": sum(hit_tokens),
        "failed_loads": failed_loads,
    }


@dataclass(frozen=True)
class Scenario:
    """A scenario that runs on each package, and the figures that it returns."""

    title: str
    run: Callable[[Stage], Figures]
    rows: tuple[Row, ...]


SCENARIOS = {
    "recompute": Scenario(
        "Node killed, policy `recompute`",
        node_killed,
        (
            Row("cold", "TTFT cold, 4,128 tokens", "ms"),
            Row("killed", "TTFT of the next request", "ms"),
            Row("above", "above the cold one", "ms", 500),
            Row("wrong", "outputs that differ from the cold ones", "", 0),
        ),
    ),
    "fail": Scenario(
        "Node killed within a load, policy `fail`",
        node_killed_in_load,
        (
            Row("asked", "requests asked", ""),
            Row("failed", "failed", "", 1),
            Row("after", "failed after the one that was loading", "", 0),
        ),
    ),
    "master": Scenario(
        "Master killed, and back on the same port",
        master_killed,
        (
            Row("longest", "longest look-up without a master, by vLLM's metrics", "ms", 300),
            Row("local", "TTFT of a local hit with a master, median", "ms"),
            Row("above", "without one above that, median", "ms", 300),
            Row("mounted", "new master up until the node is mounted", "s"),
            Row("requests", "requests to the new master until the first hit", "", 2),
            Row("hit", "new master up until that hit", "s"),
        ),
    ),
    "small-pool": Scenario(
        "Pool of 160 MB, ten prompts of 25 MB",
        small_pool,
        (
            Row("refused", "blocks refused in the first pass", "", 0),
            Row("held", f"blocks held after it, of {SMALL_POOL_PROMPTS * SHORT_TOKENS // BLOCK_TOKENS}", ""),
            Row("hits", "prompts that hit as a whole, newest first", "", 6, at_least=True),
            Row("parts", "prompts that hit as a whole or in part", ""),
            Row("tokens", "tokens from the pool", ""),
            Row("failed_loads", "blocks that failed to load", "", 0),
        ),
    ),
}


def run(outcome: Outcome, scenario: Scenario, stages: list[Stage]) -> None:
    """Runs one scenario on each package. A failure of the C++ package does not fail the run."""
    found: list[tuple[Package, Figures]] = []
    for stage in stages:
        stage.say("begins")
        try:
            found.append((stage.package, scenario.run(stage)))
        except Exception as error:
            traceback.print_exc()
            found.append((stage.package, {}))
            text = f"{scenario.title}, {stage.package.name}: runs to its end"
            if stage.package.ours:
                outcome.check(text, False, f"{type(error).__name__}: {error}")
            else:
                stage.say(f"did not run to its end: {type(error).__name__}: {error}")
    compare(outcome, scenario.title, scenario.rows, found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--logs", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cpp", type=Path, help="the Python of an environment with the C++ package")
    parser.add_argument("--scenarios", default=",".join(SCENARIOS), help=f"of {','.join(SCENARIOS)}")
    parser.add_argument("--rounds", type=int, default=2, help="kills of a node under the policy recompute")
    arguments = parser.parse_args()
    end_on_sigterm()
    outcome = Outcome("vLLM, faults")
    chosen = [OURS, *([cpp_package(arguments.cpp)] if arguments.cpp else [])]
    stages = [Stage(package, arguments.models / SHAPE, arguments.logs, arguments.rounds) for package in chosen]
    for name in arguments.scenarios.split(","):
        outcome.section(SCENARIOS[name].title, partial(run, outcome, SCENARIOS[name], stages))
        outcome.write(arguments.out)


if __name__ == "__main__":
    main()
