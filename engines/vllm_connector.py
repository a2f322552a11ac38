"""Tests vLLM with this project's connector, `mooncake.vllm`: in every mode, one instance loads what another stored.

Usage: vllm_connector.py --models FOLDER --logs FOLDER --out FILE [--only PART], with the Python of the engines'
environment.
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from outcome import Outcome
from pool import MIB, Pool
from process import wait_until
from vllm_server import BLOCK_TOKENS, Answer, VllmServer
from vllm_store import PREFIX_BLOCKS, PREFIX_TOKENS, STORE_SECONDS, prompt, sources, tokens

SHAPE = "gqa"
# A prompt of 4,128 tokens takes nine steps, and no step ends at the end of a block.
CHUNK_TOKENS = 500
# Two requests of 10 blocks that grow to 13 do not fit into 22 blocks. vLLM reserves one more for itself.
SMALL_BLOCKS = 23
SMALL_MODEL_TOKENS = 2048
SMALL_PROMPT_TOKENS = 9 * BLOCK_TOKENS + 5
SMALL_OUTPUT_TOKENS = 3 * BLOCK_TOKENS
NODE_BYTES = 1024 * MIB
RECOVERED = "Recovered from KV load failure"


class ConnectorServer(VllmServer):
    """`vllm serve` with `mooncake.vllm`. `extra` are the connector's options, `flags` are further flags of vLLM."""

    def __init__(
        self,
        name: str,
        model: Path,
        logs: Path,
        config: Path | None = None,
        extra: dict[str, object] | None = None,
        role: str = "kv_both",
        flags: tuple[str, ...] = (),
    ) -> None:
        super().__init__(name, model, logs)
        self.command += flags
        if config is None:
            return
        transfer = {
            "kv_connector": "MooncakeStoreConnector",
            "kv_connector_module_path": "mooncake.vllm",
            "kv_role": role,
            "kv_load_failure_policy": "recompute",
            "kv_connector_extra_config": extra or {},
        }
        self.command += ["--kv-transfer-config", json.dumps(transfer)]
        self.env["MOONCAKE_CONFIG_PATH"] = str(config)


CHUNKED = (f"--max-num-batched-tokens={CHUNK_TOKENS}",)
SMALL = (f"--num-gpu-blocks-override={SMALL_BLOCKS}", f"--max-model-len={SMALL_MODEL_TOKENS}")
LAYERS: dict[str, object] = {"use_layerwise": True}
WITHIN: dict[str, object] = {"load_async": False}


@dataclass
class Modes:
    """One model, vLLM's answers without a store, and the parts of the test."""

    outcome: Outcome
    model: Path
    logs: Path
    plain: dict[tuple[str, str], list[int]] = field(default_factory=dict)

    def server(
        self,
        name: str,
        config: Path | None = None,
        extra: dict[str, object] | None = None,
        flags: tuple[str, ...] = (),
        role: str = "kv_both",
    ) -> ConnectorServer:
        return ConnectorServer(f"connector-{name}", self.model, self.logs, config, extra, role, flags)

    def ask(self, server: VllmServer, prefix: str, tail: str, wanted: tuple[int, int]) -> Answer:
        """Sends a prompt. Checks where the tokens came from, and that the output equals that without a store."""
        answer = server.complete(prompt(prefix, tail))
        case = f"{server.name}, prompt {prefix}{tail or ' exactly'}"
        self.outcome.equal(f"{case}: tokens from (pool, own cache)", sources(answer), wanted)
        self.outcome.equal(f"{case}: the output without a store", answer.tokens, self.plain.get((prefix, tail)))
        return answer

    def time(self, case: str, answer: Answer) -> None:
        self.outcome.time(case, [answer.ttft_ms], *sources(answer))

    def wait_stored(self, pool: Pool, prompts: int) -> None:
        wanted = prompts * PREFIX_BLOCKS
        wait_until(lambda: len(pool.keys()) >= wanted, STORE_SECONDS, f"{wanted} blocks are in the pool")
        self.outcome.equal(f"the pool holds the blocks of {prompts} prompts", len(pool.keys()), wanted)

    def without_store(self) -> None:
        """Records the reference answers: cold, and with the prefix in vLLM's own cache, with the same step size as the
        tests.
        """
        for name, flags, prefixes in (("plain", (), "01"), ("plain-chunked", CHUNKED, "23")):
            with self.server(name, flags=flags) as server:
                for prefix in prefixes:
                    for tail in "ab":
                        self.plain[prefix, tail] = server.complete(prompt(prefix, tail)).tokens
                    self.plain[prefix, ""] = server.complete(prompt(prefix, "")).tokens

    def modes(self) -> None:
        """Each mode loads what another mode stored: between steps, within a step, layer by layer, and in chunks."""
        hit = (PREFIX_TOKENS, 0)
        with Pool(self.logs, [NODE_BYTES]) as pool:
            config = pool.write_config(embedded_bytes=0)
            with self.server("between-steps", config) as server:
                self.time("cold, stores", self.ask(server, "0", "a", (0, 0)))
                self.wait_stored(pool, 1)
            with self.server("by-layers", config, LAYERS) as server:
                self.time("by layers, pool hit", self.ask(server, "0", "b", hit))
                self.time("by layers, cold, stores", self.ask(server, "1", "a", (0, 0)))
                self.wait_stored(pool, 2)
            with self.server("within-a-step", config, WITHIN) as server:
                self.time("within a step, pool hit", self.ask(server, "1", "b", hit))
            with self.server("fresh", config) as server:
                self.time("between steps, pool hit", self.ask(server, "1", "b", hit))
                self.time("between steps, local hit", self.ask(server, "1", "b", (0, PREFIX_TOKENS)))
                self.ask(server, "0", "", (PREFIX_TOKENS - BLOCK_TOKENS, 0))
            self.chunked(pool, config)
            self.consumer(pool, config)

    def chunked(self, pool: Pool, config: Path) -> None:
        hit = (PREFIX_TOKENS, 0)
        with self.server("chunked", config, flags=CHUNKED) as server:
            self.ask(server, "2", "a", (0, 0))
            self.wait_stored(pool, 3)
        with self.server("chunked-by-layers", config, LAYERS, CHUNKED) as server:
            self.ask(server, "2", "b", hit)
            self.ask(server, "3", "a", (0, 0))
            self.wait_stored(pool, 4)
        with self.server("chunked-fresh", config, flags=CHUNKED) as server:
            self.ask(server, "3", "b", hit)

    def consumer(self, pool: Pool, config: Path) -> None:
        """A consumer loads blocks and stores none: what it computes stays out of the pool. Then a reset empties the
        pool.
        """
        before = sorted(pool.keys())
        with self.server("consumer", config, role="kv_consumer") as server:
            self.ask(server, "0", "b", (PREFIX_TOKENS, 0))
            server.complete(tokens("of a consumer", PREFIX_TOKENS))
            self.outcome.equal("a consumer stores nothing", sorted(pool.keys()), before)
            self.outcome.equal("the reset of the external cache succeeds", server.reset(external=True), True)
            self.outcome.equal("the pool is empty after it", pool.keys(), [])

    def node_killed(self) -> None:
        """Kills the only node while vLLM runs: vLLM computes the lost blocks, with the same output."""
        for name, extra in (("between-steps", {}), ("by-layers", LAYERS)):
            with Pool(self.logs, [NODE_BYTES]) as pool:
                config = pool.write_config(embedded_bytes=0)
                with self.server(f"killed-{name}", config, extra) as server:
                    self.ask(server, "0", "a", (0, 0))
                    self.wait_stored(pool, 1)
                    self.outcome.equal(f"{name}: the reset of its own cache", server.reset(external=False), True)
                    pool.nodes[0].kill()
                    answer = server.complete(prompt("0", "a"))
                    self.outcome.equal(f"{name}: node killed, same output", answer.tokens, self.plain["0", "a"])
                    # Either the look-up found no blocks, or vLLM discarded the failed load.
                    computed = answer.pool_tokens == 0 or RECOVERED in server.process.output()
                    self.outcome.equal(f"{name}: node killed, its blocks are computed", computed, True)
                    self.time(f"{name}: node killed", answer)
                    pool.start_node(NODE_BYTES)
                    self.outcome.equal(f"{name}: the reset of its own cache", server.reset(external=False), True)
                    answer = server.complete(prompt("1", "a"))
                    self.outcome.equal(f"{name}: a new node, same output", answer.tokens, self.plain["1", "a"])

    def preempted(self) -> None:
        """Runs two requests that do not fit into memory together. Another instance loads what they stored.

        Their own output is not compared: it depends on which of their tokens vLLM computes together.
        """
        prompts = [tokens(f"small {number}", SMALL_PROMPT_TOKENS) for number in range(2)]
        with self.server("small-plain", flags=SMALL) as server:
            for ids in prompts:
                server.complete(ids)
            wanted = [server.complete(ids).tokens for ids in prompts]
        with Pool(self.logs, [NODE_BYTES]) as pool:
            config = pool.write_config(embedded_bytes=0)
            for name, extra in (("small", {}), ("small-by-layers", LAYERS)):
                with self.server(name, config, extra, SMALL) as server:
                    with ThreadPoolExecutor(len(prompts)) as threads:
                        found = list(threads.map(lambda ids, to=server: to.complete(ids, SMALL_OUTPUT_TOKENS), prompts))
                    preemptions = server.metrics()["vllm:num_preemptions_total"]
                self.outcome.equal(f"{name}: a request is preempted", preemptions > 0, True)
                lengths = [len(one.tokens) for one in found]
                self.outcome.equal(f"{name}: both come to their end", lengths, [SMALL_OUTPUT_TOKENS] * 2)
                with self.server(f"{name}-fresh", config, extra, SMALL) as server:
                    loaded = [server.complete(ids) for ids in prompts]
                    self.outcome.equal(f"{name}, fresh: what was stored is right", [a.tokens for a in loaded], wanted)
                    hits = [one.pool_tokens for one in loaded]
                    self.outcome.equal(f"{name}, fresh: pool hits", hits, [9 * BLOCK_TOKENS] * 2)
                    self.outcome.equal(f"{name}: the reset of the pool", server.reset(external=True), True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--logs", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", choices=["modes", "node_killed", "preempted"], action="append")
    arguments = parser.parse_args()
    outcome = Outcome("mooncake.vllm")
    modes = Modes(outcome, arguments.models / SHAPE, arguments.logs)
    if arguments.only != ["preempted"]:  # That part records its own reference.
        outcome.section("without a store", modes.without_store)
    for part in arguments.only or ["modes", "node_killed", "preempted"]:
        outcome.section(part.replace("_", " "), getattr(modes, part))
    outcome.write(arguments.out)


if __name__ == "__main__":
    main()
