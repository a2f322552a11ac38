"""One `vllm serve` process on the CPU: its answers and its metrics."""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from pool import LOOPBACK
from process import EngineProcess, free_port, wait_until
from store_package import ENGINES_PYTHON, Package

START_SECONDS = 300.0
ANSWER_SECONDS = 300.0
METRICS_SECONDS = 20.0
FORGET_SECONDS = 60.0
MODEL_TOKENS = 8192
BLOCK_TOKENS = 128
# More threads make a model of this size slower.
MAX_CORES = 8
RECORDER = Path(__file__).parent / "recorder"
VLLM_COMMAND = ENGINES_PYTHON.parent / "vllm"


@dataclass(frozen=True)
class Answer:
    """The tokens of one greedy completion, its TTFT in ms, and the prompt tokens from the pool and the own cache."""

    tokens: list[int]
    ttft_ms: float
    pool_tokens: int
    local_tokens: int


@dataclass(frozen=True)
class Stream:
    """The tokens of one greedy completion, its TTFT, and the mean time between tokens, both in ms."""

    tokens: list[int]
    ttft_ms: float
    itl_ms: float


def cores() -> list[int]:
    return sorted(os.sched_getaffinity(0))


def core_list(chosen: list[int]) -> str:
    """The cores in the form that vLLM takes, at most `MAX_CORES`."""
    return ",".join(map(str, chosen[:MAX_CORES]))


class VllmServer:
    """A server that runs inside a `with` block. Without `config` it has no connector."""

    def __init__(
        self,
        name: str,
        model: Path,
        logs: Path,
        config: Path | None = None,
        extra: dict[str, object] | None = None,
        policy: str = "fail",
        record: Path | None = None,
    ) -> None:
        self.name = name
        self.model = model
        self.log = logs / f"vllm-{name}.log"
        self.port = free_port()
        self.command = [str(ENGINES_PYTHON), str(VLLM_COMMAND), "serve", str(model), *self._flags()]
        self.env = self._env()
        if config is not None:
            transfer = {
                "kv_connector": "MooncakeStoreConnector",
                "kv_role": "kv_both",
                "kv_load_failure_policy": policy,
                "kv_connector_extra_config": {"lookup_rpc_port": self.port, **(extra or {})},
            }
            self.command += ["--kv-transfer-config", json.dumps(transfer)]
            self.env["MOONCAKE_CONFIG_PATH"] = str(config)
        if record is not None:
            self.env.update(PYTHONPATH=str(RECORDER), MOONCAKE_RECORD=str(record))

    def _flags(self) -> list[str]:
        return [
            "--served-model-name=tiny",
            "--host=127.0.0.1",
            f"--port={self.port}",
            "--dtype=bfloat16",
            f"--max-model-len={MODEL_TOKENS}",
            f"--max-num-batched-tokens={MODEL_TOKENS}",
            f"--block-size={BLOCK_TOKENS}",
            "--max-num-seqs=4",
            "--enforce-eager",
            "--enable-prefix-caching",
        ]

    def _env(self) -> dict[str, str]:
        return {
            **LOOPBACK,
            "HF_HUB_OFFLINE": "1",
            "TRANSFORMERS_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1",
            "VLLM_HOST_IP": "127.0.0.1",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_CPU_OMP_THREADS_BIND": core_list(cores()),
            # Enables the endpoints that reset the caches.
            "VLLM_SERVER_DEV_MODE": "1",
            "PYTHONHASHSEED": "0",
        }

    def on(self, package: Package) -> VllmServer:
        """Makes this server use the store of that package."""
        self.command[0] = str(package.python)
        self.env.update(package.variables)
        return self

    def __enter__(self) -> VllmServer:
        self.process = EngineProcess(self.command, self.log, self.env)
        try:
            self.process.wait_ready(self._healthy, START_SECONDS)
        except BaseException:
            self.process.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stop()

    def _healthy(self) -> bool:
        try:
            with urllib.request.urlopen(self._url("/health"), timeout=5) as reply:
                return bool(reply.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def _url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def metrics(self) -> dict[str, float]:
        """vLLM's counters, summed over all labels except those that name an operation."""
        with urllib.request.urlopen(self._url("/metrics"), timeout=10) as reply:
            lines = reply.read().decode().splitlines()
        found: dict[str, float] = {}
        for line in lines:
            if line.startswith("#") or "_bucket" in line or "_created" in line:
                continue
            name, value = line.rsplit(" ", 1)
            metric, _, labels = name.partition("{")
            operation = labels.partition('operation="')[2].partition('"')[0]
            key = f"{metric}:{operation}" if operation else metric
            found[key] = found.get(key, 0.0) + float(value)
        return found

    def operation(self, operation: str, part: str) -> float:
        """A counter of the connector's operations, like `keys_total` of `save_put`; 0 before the first operation."""
        return self.metrics().get(f"vllm:mooncake_store_operation_{part}:{operation}", 0.0)

    def complete(self, prompt: list[int], max_tokens: int = 16) -> Answer:
        """A greedy completion. Raises OSError if the server refuses it or breaks off.

        Send only one at a time: the sources of the tokens are read from the server's counters.
        """
        before = self.metrics()
        answer = self.stream(prompt, max_tokens)
        name = "vllm:prefix_cache_queries_total"
        queried = before.get(name, 0.0) + len(prompt)
        wait_until(lambda: self.metrics().get(name, 0.0) >= queried, METRICS_SECONDS, "vLLM counts the request")
        after = self.metrics()

        def grown(metric: str) -> int:
            return int(after.get(metric, 0.0) - before.get(metric, 0.0))

        pool_tokens, local_tokens = (
            grown("vllm:external_prefix_cache_hits_total"),
            grown("vllm:prefix_cache_hits_total"),
        )
        return Answer(answer.tokens, answer.ttft_ms, pool_tokens, local_tokens)

    def stream(self, prompt: list[int], max_tokens: int) -> Stream:
        """A greedy completion; many may run at a time. Raises OSError if the server refuses it or breaks off."""
        body = {
            "model": "tiny",
            "prompt": prompt,
            "max_tokens": max_tokens,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            "return_token_ids": True,
        }
        request = urllib.request.Request(
            self._url("/v1/completions"), json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        tokens: list[int] = []
        begin = first = last = time.perf_counter()
        with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as reply:
            for line in reply:
                event = line.removeprefix(b"data: ").strip()
                if not line.startswith(b"data: ") or event == b"[DONE]":
                    continue
                message = json.loads(event)
                if "error" in message:
                    raise OSError(f"vLLM {self.name}: {message['error']}")
                for choice in message["choices"]:
                    last = time.perf_counter()
                    first = first if tokens else last
                    tokens += choice.get("token_ids") or []
        return Stream(tokens, (first - begin) * 1e3, (last - first) * 1e3 / max(len(tokens) - 1, 1))

    def forget(self) -> None:
        """Empties the engine's own prefix cache, once no request holds a block of it. Raises TimeoutError."""
        wait_until(lambda: self.reset(external=False), FORGET_SECONDS, f"vLLM {self.name} empties its own cache")

    def reset(self, external: bool) -> bool:
        """Empties the engine's own prefix cache; with `external`, also the pool. False if vLLM reports a failure."""
        path = f"/reset_prefix_cache?reset_external={str(external).lower()}"
        request = urllib.request.Request(self._url(path), b"", method="POST")
        with urllib.request.urlopen(request, timeout=60) as reply:
            answer: dict[str, bool] = json.loads(reply.read())
        return answer["success"]
