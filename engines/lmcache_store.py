"""Tests LMCache's connector and look-up client on the store, unmodified, on CPU memory and without vLLM.

Usage: lmcache_store.py --logs FOLDER --out FILE, with the Python of the engines' environment.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import select
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from outcome import Outcome
from pool import MIB, Pool
from process import end_on_sigterm

CHUNK_TOKENS = 256
LAYERS, HEADS, HEAD_SIZE = 4, 4, 64
CHUNKS = 5
ANSWER_SECONDS = 60
# How long a look-up leases what it finds, by default, and a little more.
LEASE_SECONDS = 5.5
DEVICE_REFUSAL = "No supported cpu connector found."


def engine_config(pool: Pool, save_chunk_meta: bool) -> Any:
    """LMCache's configuration. The master's address is given only under LMCache's own names."""
    from lmcache.v1.config import LMCacheEngineConfig

    extra = {
        "local_hostname": "127.0.0.1",
        "metadata_server": "P2PHANDSHAKE",
        "protocol": "tcp",
        "device_name": "",
        "global_segment_size": 0,
        "local_buffer_size": 64 * MIB,
        "master_server_address": pool.master_address,
        "transfer_timeout": 10,
        "save_chunk_meta": save_chunk_meta,
        "mooncake_prefer_local_alloc": True,
    }
    return LMCacheEngineConfig.from_dict(
        {
            "chunk_size": CHUNK_TOKENS,
            "local_cpu": True,
            "max_local_cpu_size": 0.25,
            "remote_url": f"mooncakestore://{pool.master_address}/",
            "remote_serde": "naive",
            "extra_config": extra,
        }
    )


def engine_metadata() -> Any:
    from lmcache.v1.metadata import LMCacheMetadata

    return LMCacheMetadata("tiny", 1, 1, 0, 0, torch.bfloat16, (LAYERS, 2, CHUNK_TOKENS, HEADS, HEAD_SIZE))


def key(number: int) -> Any:
    from lmcache.utils import CacheEngineKey

    return CacheEngineKey("tiny", 1, 0, number, torch.bfloat16)


class Chunk:
    """As much of LMCache's memory objects as its L2 adapters use."""

    def __init__(self, content: bytes) -> None:
        self.byte_array = memoryview(bytearray(content))


class Runs:
    def __init__(self, outcome: Outcome, pool: Pool) -> None:
        self.outcome, self.pool = outcome, pool

    def connector(self, save_chunk_meta: bool) -> None:
        """Moves chunks of 256 tokens through the connector, with or without LMCache's header in the object."""
        from lmcache.v1.storage_backend.connector.mooncakestore_connector import MooncakestoreConnector
        from lmcache.v1.storage_backend.local_cpu_backend import LocalCPUBackend

        config = engine_config(self.pool, save_chunk_meta)
        memory = LocalCPUBackend(config, engine_metadata(), dst_device="cpu")
        loop = asyncio.new_event_loop()
        connector = MooncakestoreConnector(loop, memory, config)
        shapes = (connector.meta_shapes, connector.meta_dtypes, connector.meta_fmt)
        chunks = [memory.allocate(*shapes) for _ in range(CHUNKS)]
        for chunk in chunks:
            chunk.raw_tensor.copy_(torch.randint(0, 255, chunk.raw_tensor.shape, dtype=torch.uint8))
        calls = self.chunk_calls("meta" if save_chunk_meta else "plain", connector, chunks, 1000 * save_chunk_meta)
        loop.run_until_complete(asyncio.wait_for(calls, ANSWER_SECONDS))
        loop.close()

    async def chunk_calls(self, name: str, connector: Any, chunks: list[Any], first: int) -> None:
        keys = [key(first + number) for number in range(1, CHUNKS + 1)]
        missing = key(first + 999)
        found = [await connector.exists(each) for each in keys]
        self.outcome.equal(f"{name}: no chunk exists", found, [False] * CHUNKS)
        await connector.batched_put(keys[:-1], chunks[:-1])
        await connector.put(keys[-1], chunks[-1])
        found = [await connector.exists(each) for each in keys]
        self.outcome.equal(f"{name}: all chunks exist", found, [True] * CHUNKS)
        run = await connector.batched_async_contains("lookup", [*keys, missing])
        self.outcome.equal(f"{name}: the run of chunks that exist", run, CHUNKS)
        got = await connector.batched_get([*keys, missing])
        equal = [
            torch.equal(here.raw_tensor, there.raw_tensor) for here, there in zip(got, chunks, strict=False) if here
        ]
        self.outcome.equal(f"{name}: a miss is None", [each is None for each in got], [False] * CHUNKS + [True])
        self.outcome.equal(f"{name}: bytes", equal, [True] * CHUNKS)
        await connector.close()

    def lookup(self) -> None:
        """Tests LMCache's look-up client, which passes only the master's address, under LMCache's own name for it."""
        from lmcache.v1.lookup_client.mooncake_lookup_client import MooncakeLookupClient
        from mooncake.store import MooncakeDistributedStore

        client = MooncakeLookupClient(engine_config(self.pool, True), engine_metadata(), self.pool.master_address)
        tokens = list(range(3 * CHUNK_TOKENS + 10))
        self.outcome.equal("look-up client: nothing is there", client.lookup(tokens), 0)
        store = MooncakeDistributedStore()
        code = store.setup("127.0.0.1", "P2PHANDSHAKE", 0, 16 * MIB, "tcp", "", self.pool.master_address)
        names = [each.to_string() for _, _, each in client.token_database.process_tokens(tokens)][:2]
        self.outcome.equal(
            "look-up client: two chunks are put", (code, [store.put(n, b"x") for n in names]), (0, [0, 0])
        )
        self.outcome.equal("look-up client: the tokens of two chunks", client.lookup(tokens), 2 * CHUNK_TOKENS)
        store.close()

    def l2_adapter(self) -> None:
        """Moves objects through the L2 adapter that LMCache's multi-process mode makes of our connector."""
        from lmcache.v1.distributed.api import ObjectKey
        from lmcache.v1.distributed.l2_adapters.factory import create_l2_adapter
        from lmcache.v1.distributed.l2_adapters.native_plugin_l2_adapter import NativePluginL2AdapterConfig

        named = {"module_path": "mooncake.lmcache", "class_name": "StoreConnector"}
        parameters = {"master_server_addr": self.pool.master_address}
        adapter = create_l2_adapter(NativePluginL2AdapterConfig.from_dict({**named, "adapter_params": parameters}))
        keys = [
            ObjectKey(bytes([number] * 32), "tiny", 0, cache_salt="salt" * (number % 2)) for number in range(CHUNKS)
        ]
        chunks = [Chunk(os.urandom(100_000 + number)) for number in range(CHUNKS)]
        ends = [adapter.get_store_event_fd(), adapter.get_lookup_and_lock_event_fd(), adapter.get_load_event_fd()]
        waiting = select.poll()

        def result(end: int, query: Callable[[], Any]) -> Any:
            waiting.register(ends[end], select.POLLIN)
            found = query()
            while found is None or found == {}:
                assert waiting.poll(1000 * ANSWER_SECONDS), "the task does not end"
                found = query()
            waiting.unregister(ends[end])
            return found

        def found(task: int) -> list[bool]:
            bits = result(1, lambda: adapter.query_lookup_and_lock_result(task))
            return [bits.test(number) for number in range(CHUNKS)]

        self.outcome.equal(
            "L2: nothing is there", found(adapter.submit_lookup_and_lock_task(keys, {})), [False] * CHUNKS
        )
        task = adapter.submit_store_task(keys[1:], chunks[1:])
        stored = result(0, adapter.pop_completed_store_tasks)[task]
        lengths = sum(len(chunk.byte_array) for chunk in chunks[1:])
        self.outcome.equal("L2: stored", (stored.is_successful(), stored.bytes_transferred()), (True, lengths))
        there = [False] + [True] * (CHUNKS - 1)
        self.outcome.equal("L2: found", found(adapter.submit_lookup_and_lock_task(keys, {})), there)
        loaded = [Chunk(bytes(len(chunk.byte_array))) for chunk in chunks]
        task = adapter.submit_load_task(keys, loaded)
        bits = result(2, lambda: adapter.query_load_result(task))
        self.outcome.equal("L2: loaded", [bits.test(number) for number in range(CHUNKS)], there)
        equal = [here.byte_array == chunk.byte_array for here, chunk in zip(loaded, chunks, strict=True)]
        self.outcome.equal("L2: bytes", equal, there)
        adapter.submit_unlock(keys)
        deadline = time.monotonic() + ANSWER_SECONDS
        # Nothing is removed before its lease ends.
        while any(found(adapter.submit_lookup_and_lock_task(keys, {}))) and time.monotonic() < deadline:
            time.sleep(LEASE_SECONDS)
            adapter.delete(keys)
        self.outcome.equal("L2: deleted", adapter.get_usage().total_bytes_used, 0)
        adapter.close()

    def in_vllm(self) -> None:
        """Checks why LMCache does not run in vLLM on the CPU: it has no connector for the KV cache of that device."""
        from lmcache.utils import EngineType
        from lmcache.v1.gpu_connector import CreateGPUConnector

        try:
            CreateGPUConnector(engine_config(self.pool, True), engine_metadata(), EngineType.VLLM)
            refusal = "made"
        except RuntimeError as error:
            refusal = str(error)
        self.outcome.equal("LMCache inside of vLLM refuses the CPU", refusal, DEVICE_REFUSAL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--logs", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="where the outcome goes, as JSON")
    arguments = parser.parse_args()
    end_on_sigterm()
    os.environ["LMCACHE_TRACK_USAGE"] = "false"
    outcome = Outcome("LMCache")
    with Pool(arguments.logs, [128 * MIB]) as pool:
        runs = Runs(outcome, pool)
        outcome.section("connector, plain chunks", lambda: runs.connector(save_chunk_meta=False))
        outcome.section("connector, chunks with a header", lambda: runs.connector(save_chunk_meta=True))
        outcome.section("look-up client", runs.lookup)
        outcome.section("L2 adapter of the multi-process mode", runs.l2_adapter)
        outcome.section("inside of vLLM", runs.in_vllm)
    outcome.write(arguments.out)
    # Ends LMCache's threads, which would keep the process alive.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
