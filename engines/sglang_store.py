"""Tests SGLang's HiCache backend on the store, unmodified, on CPU tensors.

Usage: sglang_store.py --logs FOLDER --out FILE, with the Python of the engines' environment.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from outcome import Outcome
from pool import MIB, Pool
from process import end_on_sigterm, wait_until

SEGMENT_BYTES = 128 * MIB
TEST_SECONDS = 300
NODE_SECONDS = 60
LEASE_SECONDS = 30
LAYERS, HEADS, HEAD_SIZE, PAGE_TOKENS, PAGES = 4, 2, 64, 16, 8
# The layouts in which a page is one range of memory, as zero-copy calls need it.
LAYOUTS = ("page_first", "page_first_direct", "page_head")
SERVER_IMPORT = "import sglang.kernels.ops.kvcache.cache_move"
SERVER_MISSING = "No module named 'sgl_kernel'"


def environment(pool: Pool, segment_bytes: int = SEGMENT_BYTES) -> dict[str, str]:
    """The variables that SGLang's `load_from_env` reads."""
    return {
        "MOONCAKE_MASTER": pool.master_address,
        "MOONCAKE_TE_META_DATA_SERVER": "P2PHANDSHAKE",
        "MOONCAKE_GLOBAL_SEGMENT_SIZE": str(segment_bytes),
        "MOONCAKE_LOCAL_HOSTNAME": "127.0.0.1",
        "MOONCAKE_PROTOCOL": "tcp",
        "MOONCAKE_MASTER_METRICS_PORT": str(pool.http_port),
        "MC_TCP_BIND_ADDRESS": "127.0.0.1",
    }


def storage_config(extra: dict[str, Any] | None = None, **options: Any) -> Any:
    from sglang.srt.mem_cache.hicache_storage import HiCacheStorageConfig

    fields = {
        "tp_rank": 0,
        "tp_size": 1,
        "pp_rank": 0,
        "pp_size": 1,
        "attn_cp_rank": 0,
        "attn_cp_size": 1,
        "is_mla_model": False,
        "enable_storage_metrics": False,
        "is_page_first_layout": True,
        "model_name": "tiny",
        "extra_config": extra,
    }
    return HiCacheStorageConfig(**{**fields, **options})


def backend(extra: dict[str, Any] | None = None, **options: Any) -> Any:
    """A store of SGLang, set up and warmed up: the warm-up puts, looks up and gets an object of 4 KiB."""
    from sglang.srt.mem_cache.storage.mooncake_store.mooncake_store import MooncakeStore

    return MooncakeStore(storage_config(extra, **options))


def host_pool(layout: str) -> Any:
    """SGLang's own pool of host memory, with room for two copies of the pages: one to store, one to load into."""
    from sglang.srt.mem_cache.device_pool_info import KVBufferLayout, KVBuffers, MHABufferInfo
    from sglang.srt.mem_cache.pool_host.mha import MHATokenToKVPoolHost

    tokens = 2 * PAGES * PAGE_TOKENS
    device = [tuple(torch.zeros(PAGE_TOKENS, HEADS, HEAD_SIZE) for _ in range(LAYERS)) for _ in "kv"]
    pointers = [torch.tensor([layer.data_ptr() for layer in layers]) for layers in device]
    buffers = KVBuffers(
        k=device[0], v=device[1], k_data_ptrs=pointers[0], v_data_ptrs=pointers[1], layout=KVBufferLayout.NHD
    )
    geometry = {"head_num": HEADS, "head_dim": HEAD_SIZE, "v_head_dim": HEAD_SIZE}
    described = MHABufferInfo(
        buffers=buffers, page_size=PAGE_TOKENS, dtype=torch.float32, device=torch.device("cpu"), **geometry
    )
    return MHATokenToKVPoolHost(
        described,
        1.0,
        0,
        PAGE_TOKENS,
        layout,
        pin_memory=False,
        device_capacity_tokens=PAGE_TOKENS,
        start_layer=0,
        end_layer=LAYERS,
        host_token_capacity=tokens,
    )


def page_bytes(pool: Any, indices: torch.Tensor) -> list[bytes]:
    """The bytes of each range that SGLang passes for these token slots."""
    import ctypes

    return [ctypes.string_at(*piece) for piece in zip(*pool.get_page_buffer_meta(indices), strict=True)]


class Runs:
    def __init__(self, outcome: Outcome, logs: Path, pool: Pool) -> None:
        self.outcome, self.logs, self.pool = outcome, logs, pool

    def own_test(self) -> None:
        """Runs the test that SGLang ships with the backend."""
        from sglang.srt.mem_cache.storage.mooncake_store import mooncake_store

        script = Path(mooncake_store.__file__).with_name("test_mooncake_store.py")
        log = self.logs / "sglang-own-test.log"
        with log.open("w") as output:
            status = subprocess.run(
                [sys.executable, str(script)], stdout=output, stderr=output, timeout=TEST_SECONDS, check=False
            ).returncode
        passed = "All tests passed" in log.read_text(errors="replace")
        self.outcome.equal("SGLang's own test: exit status and last word", (status, passed), (0, True))

    def layout(self, layout: str, extra: dict[str, Any] | None) -> None:
        """Stores and loads pages with the zero-copy calls that the cache controller makes."""
        name = f"{layout}{', groups' if extra else ''}"
        store, memory = backend({**(extra or {}), "extra_backend_tag": name.replace(", ", "-")}), host_pool(layout)
        store.register_mem_pool_host(memory)
        memory.kv_buffer.copy_(torch.randn(memory.kv_buffer.shape))
        slots = PAGES * PAGE_TOKENS
        source, target = torch.arange(slots), torch.arange(slots, 2 * slots)
        keys = [f"page-{layout}-{page}" for page in range(PAGES)]
        self.outcome.equal(f"{name}: no page exists", store.batch_exists(keys), 0)
        self.outcome.equal(
            f"{name}: pages are stored", store.batch_set_v1(keys[:-1], source[:-PAGE_TOKENS]), [True] * 7
        )
        self.outcome.equal(f"{name}: a run of pages exists", store.batch_exists(keys), PAGES - 1)
        self.outcome.equal(f"{name}: storing again is no error", store.batch_set_v1(keys, source), [True] * PAGES)
        self.outcome.equal(f"{name}: pages are loaded", store.batch_get_v1(keys, target), [True] * PAGES)
        self.outcome.equal(f"{name}: bytes", page_bytes(memory, target) == page_bytes(memory, source), True)
        missing = store.batch_get_v1(["nowhere"], target[:PAGE_TOKENS])
        self.outcome.equal(f"{name}: a page that was never stored", missing, [False])
        self.outcome.equal(
            f"{name}: memory of a miss is left alone", page_bytes(memory, target) == page_bytes(memory, source), True
        )

    def embeddings(self) -> None:
        from sglang.srt.mem_cache.storage.mooncake_store.mooncake_embedding_store import MooncakeEmbeddingStore

        store = MooncakeEmbeddingStore()
        rows, size = 8, 64 << 10
        source = torch.randint(0, 255, (rows, size), dtype=torch.uint8)
        target = torch.zeros_like(source)
        for buffer in (source, target):
            store.register_buffer(buffer)
        names = [f"embedding-{row}" for row in range(rows)]
        sizes = [size] * rows

        def places(tensor: torch.Tensor) -> list[int]:
            return [tensor[row].data_ptr() for row in range(rows)]

        self.outcome.equal("embeddings: none exists", store.batch_is_exist(names), [False] * rows)
        self.outcome.equal("embeddings: put", store.batch_put(names, places(source), sizes), [True] * rows)
        self.outcome.equal("embeddings: all exist", store.batch_is_exist(names), [True] * rows)
        self.outcome.equal("embeddings: get", store.batch_get(names, places(target), sizes), [True] * rows)
        self.outcome.equal("embeddings: bytes", torch.equal(source, target), True)

    def host_memory(self) -> None:
        from sglang.srt.mem_cache.storage.mooncake_store.mooncake_store import MooncakeHostTensorAllocator

        tensor = MooncakeHostTensorAllocator().allocate((4, 1024), torch.float32)
        tensor.fill_(3)
        self.outcome.equal("host tensors come from the store's allocator", tensor.sum().item(), 3.0 * 4 * 1024)

    def layer_wise(self) -> None:
        """Loads layer by layer with SGLang's direct linker, on the linker's own device pool entry."""
        from sglang.srt.mem_cache.hicache_storage import PoolName, PoolTransfer
        from sglang.srt.mem_cache.hybrid_cache.linker_pool_assembler import DevicePoolEntry
        from sglang.srt.mem_cache.storage.mooncake_store.mooncake_direct_linker import MooncakeDirectLinker

        rows = 2 * PAGES
        layers = [torch.randn(rows * PAGE_TOKENS, HEADS, HEAD_SIZE) for _ in range(LAYERS)]
        entry = DevicePoolEntry(
            name=PoolName.KV,
            indices_from_pool=PoolName.KV,
            device_pool=None,
            components=[layers],
            layer_mapping={layer: layer for layer in range(LAYERS)},
            page_size=PAGE_TOKENS,
            rows_are_pages=False,
        )
        storage = backend({"extra_backend_tag": "linker"}, is_mla_model=True)
        storage.mla_suffix = storage.mha_suffix = "cp0_pp0"
        storage.registered_pools = {PoolName.KV: entry}
        linker = MooncakeDirectLinker.__new__(MooncakeDirectLinker)
        done: list[int] = []
        failures: list[BaseException] = []
        linker.storage, linker.pools, linker.num_layers = storage, storage.registered_pools, LAYERS
        linker.layer_done_counter = SimpleNamespace(
            complete=lambda _, layer: done.append(layer), fail=lambda _, error: failures.append(error)
        )
        linker.register_buffers()
        slots = PAGES * PAGE_TOKENS
        keys = [f"linked-{page}" for page in range(PAGES)]
        stored = PoolTransfer(name=PoolName.KV, keys=keys, host_indices=torch.arange(slots))
        loaded = PoolTransfer(name=PoolName.KV, keys=keys, host_indices=torch.arange(slots, 2 * slots))
        self.outcome.equal("linker: pages are stored", storage.batch_set_v2([stored]), {PoolName.KV: [True] * PAGES})
        linker.load_layer_wise(0, [[loaded]])
        self.outcome.equal("linker: layers come in turn, none fails", (done, failures), (list(range(LAYERS)), []))
        equal = [torch.equal(layer[:slots], layer[slots:]) for layer in layers]
        self.outcome.equal("linker: bytes of each layer", equal, [True] * LAYERS)
        absent = PoolTransfer(name=PoolName.KV, keys=["nowhere"] * 1, host_indices=torch.arange(PAGE_TOKENS))
        linker.load_layer_wise(1, [[absent]])
        self.outcome.equal("linker: a lost page is a failure, not bytes", [type(f) for f in failures], [RuntimeError])

    def clear(self) -> None:
        store = backend()

        def empty() -> bool:
            store.clear()
            return not self.pool.keys()

        # SGLang's clear keeps objects under a lease, so it is repeated until the leases end.
        wait_until(empty, LEASE_SECONDS, "SGLang's clear empties the pool")
        self.outcome.equal("clear empties the pool", self.pool.keys(), [])

    def server(self) -> None:
        """Checks why SGLang's server does not run on the CPU: PyPI has its kernels only for GPUs."""
        run = subprocess.run(
            [sys.executable, "-c", SERVER_IMPORT],
            capture_output=True,
            text=True,
            timeout=TEST_SECONDS,
            check=False,
            env={**os.environ, "SGLANG_USE_CPU_ENGINE": "1"},
        )
        self.outcome.equal(
            f"SGLang's server needs more than PyPI has ({SERVER_MISSING})", SERVER_MISSING in run.stderr, True
        )


def polling(outcome: Outcome, logs: Path) -> None:
    """Tests `check_server`: SGLang polls the master's `/get_all_segments` until there is a segment."""
    with Pool(logs, []) as pool:
        os.environ.update({**environment(pool, 0), "MOONCAKE_CHECK_SERVER": "true"})
        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.append(backend()), daemon=True)
        thread.start()
        thread.join(1)
        outcome.equal("check_server waits while no segment is there", (thread.is_alive(), found), (True, []))
        pool.start_node(SEGMENT_BYTES)
        thread.join(NODE_SECONDS)
        outcome.equal("check_server goes on when one is there", len(found), 1)
        del os.environ["MOONCAKE_CHECK_SERVER"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--logs", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="where the outcome goes, as JSON")
    arguments = parser.parse_args()
    end_on_sigterm()
    outcome = Outcome("SGLang")
    outcome.section("polling of the segments", lambda: polling(outcome, arguments.logs))
    with Pool(arguments.logs, [SEGMENT_BYTES, SEGMENT_BYTES]) as pool:
        os.environ.update(environment(pool))
        runs = Runs(outcome, arguments.logs, pool)
        outcome.section("its own test", runs.own_test)
        for layout in LAYOUTS:
            outcome.section(layout, lambda layout=layout: runs.layout(layout, None))  # type: ignore[misc]
        groups = {"enable_group_semantics": True}
        outcome.section("page_first, groups", lambda: runs.layout("page_first", groups))
        outcome.section("embeddings", runs.embeddings)
        outcome.section("host memory", runs.host_memory)
        outcome.section("layer by layer", runs.layer_wise)
        outcome.section("clear", runs.clear)
        outcome.section("server", runs.server)
    outcome.write(arguments.out)
    # SGLang never closes its stores. This ends their threads, which would keep the process alive.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
