"""Records the calls that the engines make on the store, for the contract tests in `python/tests/test_callers.py`.

Usage: callers.py --models FOLDER --logs FOLDER --out FOLDER [--only NAME], with the Python of the engines'
environment.

Each output file holds the calls of one engine, ordered by their begin. Random values are replaced: addresses by a
buffer and an offset in it; hashes, UUIDs, processes and stores by numbers; the master's address by a word.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from model import PROMPT_IDS
from pool import MIB, Pool
from process import wait_until
from vllm_server import BLOCK_TOKENS, RECORDER, VllmServer

BLOCKS = 4
SECONDS = 300
RANDOM = re.compile(r"[0-9a-f]{64}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{32}")
# Integers below this are not addresses of a process.
LEAST_ADDRESS = 1 << 32
HERE = Path(__file__).resolve().parent


class Script:
    """Converts recorded calls to a script without random values."""

    def __init__(self, master: str) -> None:
        self.master = master
        self.names: dict[str, str] = {}
        self.stores: dict[tuple[int, int], int] = {}
        self.buffers: dict[int, list[tuple[int, int, int]]] = {}
        self.sizes: list[int] = []

    def value(self, pid: int, value: Any) -> Any:
        if isinstance(value, list):
            return [self.value(pid, item) for item in value]
        if isinstance(value, dict):
            return {key: self.value(pid, item) for key, item in value.items()}
        if isinstance(value, str):
            named = value.replace(self.master, "MASTER")
            return RANDOM.sub(lambda found: self.names.setdefault(found[0], f"random-{len(self.names)}"), named)
        if isinstance(value, int) and value >= LEAST_ADDRESS:
            return self.place(pid, value)
        return value

    def place(self, pid: int, address: int) -> dict[str, list[int]]:
        for number, begin, size in self.buffers.get(pid, []):
            if begin <= address < begin + size:
                return {"at": [number, address - begin]}
        raise ValueError(f"{address:#x} lies in no registered buffer")

    def remember(self, call: dict[str, Any]) -> None:
        """Numbers a registered buffer. If a process registers the same buffer again, it keeps its number."""
        begin, size = call["args"]
        known = self.buffers.setdefault(call["pid"], [])
        if not any((begin, size) == buffer[1:] for buffer in known):
            known.insert(0, (len(self.sizes), begin, size))
            self.sizes.append(size)

    def call(self, call: dict[str, Any]) -> dict[str, Any]:
        if call["method"] == "register_buffer":
            self.remember(call)
        pid = call["pid"]
        store = self.stores.setdefault((pid, call["store"]), len(self.stores))
        parts = {part: self.value(pid, call[part]) for part in ("args", "kwargs", "result")}
        return {"store": store, "method": call["method"], **parts}


def write_script(name: str, logs: Path, out: Path, pool: Pool) -> None:
    lines = [line for file in logs.glob(f"{name}.*.jsonl") for line in file.read_text().splitlines()]
    calls = sorted(map(json.loads, lines), key=lambda call: call["begin"])
    script = Script(pool.master_address)
    written = [json.dumps(script.call(call)) for call in calls]
    text = ",\n".join(written)
    (out / f"{name}.json").write_text(f'{{"buffers": {json.dumps(script.sizes)}, "calls": [\n{text}\n]}}\n')
    print(f"{name}: {len(calls)} calls", flush=True)


def record_vllm(pool: Pool, models: Path, logs: Path) -> None:
    """Records two instances: one stores blocks with groups, the other loads them and empties the pool."""
    config = pool.write_config(embedded_bytes=64 * MIB)
    prompt = list(PROMPT_IDS)[:100] * 6
    prompt = prompt[: BLOCKS * BLOCK_TOKENS + 8]
    options: dict[str, Any] = {"record": logs / "vllm", "extra": {"enable_group_semantics": "true"}}
    with VllmServer("records-A", models / "gqa", logs, config, **options) as first:
        first.complete(prompt, 4)
        wait_until(lambda: len(pool.keys()) == BLOCKS, SECONDS, "the blocks are stored")
        with VllmServer("records-B", models / "gqa", logs, config, **options) as second:
            second.complete(prompt, 4)
            second.reset(external=True)


def record_script(name: str, code: list[str], pool: Pool, logs: Path, env: dict[str, str]) -> None:
    env = {**os.environ, "PYTHONPATH": str(RECORDER), "MOONCAKE_RECORD": str(logs / name), **env}
    with (logs / f"{name}.log").open("w") as output:
        subprocess.run(
            [sys.executable, str(HERE / "caller.py"), *code, pool.master_address],
            stdout=output,
            stderr=output,
            timeout=SECONDS,
            check=True,
            env=env,
        )


def recorders(models: Path, logs: Path) -> dict[str, Callable[[Pool], None]]:
    from sglang_store import environment

    def other(name: str) -> Callable[[Pool], None]:
        def record(pool: Pool) -> None:
            config = {"MOONCAKE_CONFIG_PATH": str(pool.write_config(embedded_bytes=0))} if name == "vllm_ec" else {}
            record_script(name, [name], pool, logs, {**environment(pool, 32 * MIB), **config})

        return record

    names = ("vllm_ec", "sglang", "sglang_linker", "lmcache", "lmcache_meta")
    return {"vllm": lambda pool: record_vllm(pool, models, logs), **{name: other(name) for name in names}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--logs", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", action="append")
    arguments = parser.parse_args()
    arguments.logs.mkdir(parents=True, exist_ok=True)
    for name, record in recorders(arguments.models, arguments.logs).items():
        if arguments.only and name not in arguments.only:
            continue
        for old in arguments.logs.glob(f"{name}.*.jsonl"):
            old.unlink()
        with Pool(arguments.logs, [64 * MIB]) as pool:
            record(pool)
            write_script(name, arguments.logs, arguments.out, pool)


if __name__ == "__main__":
    main()
