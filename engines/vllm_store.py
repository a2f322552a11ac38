"""Tests vLLM with its own MooncakeStoreConnector on the pool: one instance computes, another one loads.

Usage: vllm_store.py --models FOLDER --logs FOLDER --out FILE [--shapes gqa,mha], with the Python of the engines'
environment.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from model import PROMPT_IDS, SHAPES
from outcome import Outcome
from pool import MIB, Pool
from process import end_on_sigterm, wait_until
from vllm_embeddings import embeddings
from vllm_server import BLOCK_TOKENS, Answer, VllmServer

PREFIX_TOKENS = 4096
TAIL_TOKENS = 32
PREFIX_BLOCKS = PREFIX_TOKENS // BLOCK_TOKENS
ROUNDS = 3
STORE_SECONDS = 60.0
END_SECONDS = 60.0
PARTS = ("standalone", "embedded", "load_async_off", "embeddings")
REFUSAL = "AssertionError: load_async must be True"


def tokens(seed: str, count: int) -> list[int]:
    return random.Random(seed).choices(PROMPT_IDS, k=count)


def prompt(prefix: str, tail: str) -> list[int]:
    """4,096 tokens that prompts share, and 32 tokens of its own, so that a hit leaves tokens to compute."""
    return tokens(f"prefix {prefix}", PREFIX_TOKENS) + (tokens(f"tail {tail}", TAIL_TOKENS) if tail else [])


def sources(answer: Answer) -> tuple[int, int]:
    """The numbers of prompt tokens from the pool and from the engine's own cache."""
    return answer.pool_tokens, answer.local_tokens


@dataclass
class Prompts:
    """The scenario of one model, and vLLM's answers without a store."""

    outcome: Outcome
    model: Path
    logs: Path
    shape: str
    plain: dict[tuple[str, str], list[int]] = field(default_factory=dict)

    def server(self, name: str, config: Path | None = None, **options: object) -> VllmServer:
        return VllmServer(f"{self.shape}-{name}", self.model, self.logs, config, **options)  # type: ignore[arg-type]

    def ask(self, server: VllmServer, prefix: str, tail: str, wanted: tuple[int, int]) -> Answer:
        """Sends a prompt. Checks where the tokens came from, and that the output equals that without a store."""
        answer = server.complete(prompt(prefix, tail))
        case = f"{server.name}, prompt {prefix}{tail or ' exactly'}"
        self.outcome.equal(f"{case}: tokens from (pool, own cache)", sources(answer), wanted)
        self.outcome.equal(f"{case}: the output without a store", answer.tokens, self.plain.get((prefix, tail)))
        return answer

    def time(self, case: str, answers: list[Answer]) -> None:
        pool_tokens, local_tokens = sources(answers[0])
        times_ms = [answer.ttft_ms for answer in answers]
        self.outcome.time(f"{self.shape}: {case}", times_ms, pool_tokens, local_tokens)

    def without_store(self) -> None:
        """Records the reference answers. A hit computes in other chunks than a cold run, so hits are compared with
        hits.
        """
        cold: list[Answer] = []
        local: list[Answer] = []
        with self.server("plain") as server:
            for prefix in map(str, range(ROUNDS)):
                for tail, answers in (("a", cold), ("b", local), ("c", local)):
                    answer = server.complete(prompt(prefix, tail))
                    answers.append(answer)
                    self.plain[prefix, tail] = answer.tokens
            server.complete(prompt("whole", ""))
            self.plain["whole", ""] = server.complete(prompt("whole", "")).tokens
            for prefix in ("left", "right"):
                self.plain[prefix, "a"] = server.complete(prompt(prefix, "a")).tokens
                self.plain[prefix, "b"] = server.complete(prompt(prefix, "b")).tokens
        self.outcome.equal("without a store, cold: no token is cached", {sources(answer) for answer in cold}, {(0, 0)})
        wanted = {(0, PREFIX_TOKENS)}
        self.outcome.equal("without a store, again: the prefix is", {sources(answer) for answer in local}, wanted)
        self.time("no store, cold", cold)
        self.time("no store, local hit", local)

    def standalone(self) -> None:
        """A stores into two storage nodes; a new instance B loads; both run at once; a reset empties the pool."""
        with Pool(self.logs, [1024 * MIB, 1024 * MIB]) as pool:
            config = pool.write_config(embedded_bytes=0)
            with self.server("A", config) as first:
                cold = [self.ask(first, str(prefix), "a", (0, 0)) for prefix in range(ROUNDS)]
                first.complete(prompt("whole", ""))
                self.wait_stored(pool, ROUNDS + 1)
                self.time("A, cold, stores", cold)
                with self.server("B", config) as second:
                    self.pool_hits(second)
                    self.store_metrics(first, second)
                    self.at_once(pool, first, second)
                    self.reset(pool, first, second)

    def wait_stored(self, pool: Pool, prompts: int) -> None:
        wanted = prompts * PREFIX_BLOCKS
        wait_until(lambda: len(pool.keys()) >= wanted, STORE_SECONDS, f"{wanted} blocks are in the pool")
        self.outcome.equal(f"{self.shape}: the pool holds the {wanted} blocks put", len(pool.keys()), wanted)

    def pool_hits(self, server: VllmServer) -> None:
        hits = [self.ask(server, str(prefix), "b", (PREFIX_TOKENS, 0)) for prefix in range(ROUNDS)]
        local = [self.ask(server, str(prefix), "c", (0, PREFIX_TOKENS)) for prefix in range(ROUNDS)]
        # vLLM computes the last block of a prompt even if the whole prompt hits.
        whole = self.ask(server, "whole", "", (PREFIX_TOKENS - BLOCK_TOKENS, 0))
        self.time("B, pool hit", hits)
        self.time("B, local hit", local)
        self.time("B, pool hit of the whole prompt", [whole])
        above = statistics.median(answer.ttft_ms for answer in hits) - statistics.median(
            answer.ttft_ms for answer in local
        )
        self.outcome.time(f"{self.shape}: pool hit above local hit (medians)", [above])

    def store_metrics(self, first: VllmServer, second: VllmServer) -> None:
        """Checks vLLM's counts of the store's operations (keys, bytes, failures), and records their mean times."""
        token_bytes = SHAPES[self.shape].token_bytes
        stored = (ROUNDS + 1) * PREFIX_TOKENS
        loaded = stored - BLOCK_TOKENS
        for server, operation, amount in ((first, "save_put", stored), (second, "load_get", loaded)):
            name = f"vllm:mooncake_store_operation_{{}}:{operation}"
            metrics = server.metrics()
            found = [int(metrics[name.format(part)]) for part in ("keys_total", "bytes_total", "failed_keys_total")]
            wanted = [amount // BLOCK_TOKENS, amount * token_bytes, 0]
            self.outcome.equal(f"{server.name}: vLLM counts keys, bytes, failures of {operation}", found, wanted)
        for server, operation in ((first, "save_put"), (second, "load_get"), (second, "lookup_exists")):
            metrics = server.metrics()
            name = f"vllm:mooncake_store_operation_time_seconds_{{}}:{operation}"
            mean_ms = metrics[name.format("sum")] / metrics[name.format("count")] * 1e3
            self.outcome.time(f"{self.shape}: {server.name[-1]}, mean {operation} by vLLM's metrics", [mean_ms])

    def at_once(self, pool: Pool, first: VllmServer, second: VllmServer) -> None:
        """Both instances compute at the same time; then each loads what the other stored, again at the same time."""
        with ThreadPoolExecutor(2) as threads:
            for left, right, tail, wanted in (
                ("left", "right", "a", (0, 0)),
                ("right", "left", "b", (PREFIX_TOKENS, 0)),
            ):
                asked = [
                    threads.submit(self.ask, server, prefix, tail, wanted)
                    for server, prefix in ((first, left), (second, right))
                ]
                answers = [future.result() for future in asked]
                self.wait_stored(pool, ROUNDS + 3)
        self.time("A and B at once, pool hit", answers)

    def reset(self, pool: Pool, first: VllmServer, second: VllmServer) -> None:
        self.outcome.equal(
            f"{second.name}: the reset of the external cache succeeds", second.reset(external=True), True
        )
        self.outcome.equal(f"{self.shape}: the pool is empty after it", pool.keys(), [])
        self.outcome.equal(f"{first.name}: the reset of its own cache succeeds", first.reset(external=False), True)
        self.ask(first, "0", "a", (0, 0))

    def embedded(self) -> None:
        """Runs without storage nodes: the engines lend memory themselves. Uses groups and asynchronous look-ups."""
        with Pool(self.logs, []) as pool:
            config = pool.write_config(embedded_bytes=512 * MIB)
            record = self.logs / f"calls-{self.shape}"
            extra: dict[str, object] = {"enable_group_semantics": "true", "lookup_async": True}
            with self.server("C-embedded", config, extra=extra, record=record) as first:
                self.ask(first, "0", "a", (0, 0))
                self.wait_stored(pool, 1)
                with self.server("D-embedded", config, extra=extra) as second:
                    hit = self.ask(second, "0", "b", (PREFIX_TOKENS, 0))
                    self.ask(second, "left", "a", (0, 0))
                    self.wait_stored(pool, 2)
                    self.ask(first, "left", "b", (PREFIX_TOKENS, 0))
                self.time("D, embedded, groups, lookup_async: pool hit", [hit])
            self.groups(record)

    def groups(self, record: Path) -> None:
        """Checks that every put carried one group id per key."""
        lines = [line for file in self.logs.glob(f"{record.name}.*.jsonl") for line in file.read_text().splitlines()]
        puts = [call for call in map(json.loads, lines) if call["method"] == "batch_put_from_multi_buffers"]
        lengths = [(len(put["args"][0]), len(put["args"][3]["ReplicateConfig"]["group_ids"])) for put in puts]
        self.outcome.equal("C-embedded: groups passed with the 32 keys", lengths, [(PREFIX_BLOCKS, PREFIX_BLOCKS)])

    def load_async_off(self) -> None:
        """Checks that the connector's option `load_async` cannot be off: vLLM asserts that at the first request."""
        with Pool(self.logs, [256 * MIB]) as pool:
            config = pool.write_config(embedded_bytes=0)
            with self.server("E-load_async-off", config, extra={"load_async": False}) as server:
                try:
                    outcome = str(server.complete(prompt("0", "a")).tokens)
                except OSError as error:
                    outcome = type(error).__name__
                self.outcome.equal(f"{server.name}: the first request fails", outcome, "OSError")
                wait_until(lambda: REFUSAL in server.process.output(), END_SECONDS, f"vLLM says {REFUSAL}")
                self.outcome.equal(f"{server.name}: vLLM says {REFUSAL}", REFUSAL in server.process.output(), True)


def embedding_store(outcome: Outcome, logs: Path) -> None:
    """Tests the client of vLLM's shared embedding cache. The model runner that feeds the cache needs a GPU."""
    with Pool(logs, [64 * MIB]) as pool:
        embeddings(outcome, pool.write_config(embedded_bytes=0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=Path, required=True, help="folder with one model a shape, see model.py")
    parser.add_argument("--logs", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="where the outcome goes, as JSON")
    parser.add_argument("--shapes", default="gqa,mha", help="sizes of the KV cache to run, see model.py")
    parser.add_argument("--parts", default="", help=f"only these: {','.join(PARTS)}")
    arguments = parser.parse_args()
    end_on_sigterm()
    outcome = Outcome("vLLM")
    parts = set(filter(None, arguments.parts.split(","))) or set(PARTS)
    for index, shape in enumerate(arguments.shapes.split(",")):
        prompts = Prompts(outcome, arguments.models / shape, arguments.logs, shape)
        outcome.section(f"{shape}: without a store", prompts.without_store)
        if "standalone" in parts:
            outcome.section(f"{shape}: storage nodes", prompts.standalone)
        if "embedded" in parts and index == 0:
            outcome.section(f"{shape}: embedded segments", prompts.embedded)
        if "load_async_off" in parts and index == 0:
            outcome.section(f"{shape}: load_async off", prompts.load_async_off)
        outcome.write(arguments.out)
    if "embeddings" in parts:
        outcome.section("shared embedding cache", lambda: embedding_store(outcome, arguments.logs))
        outcome.write(arguments.out)


if __name__ == "__main__":
    main()
