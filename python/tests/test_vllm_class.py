"""The class that vLLM instantiates, with stand-ins for the vLLM modules that it imports."""

from __future__ import annotations

import importlib
import json
import sys
import types
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from cluster import Cluster, Memory, content, wait_until
from mooncake.vllm.device import block_layout, block_shape, register
from mooncake.vllm.plan import StepPlan

SECONDS = 10.0
BLOCKS, BLOCK_BYTES, BLOCK_TOKENS = 8, 4096, 4


class FullAttentionSpec:
    pass


class SlidingWindowSpec:
    pass


class Base:
    """The parts of `KVConnectorBase_V1` that the connector uses."""

    def __init__(self, vllm_config: Any, role: str, kv_cache_config: Any) -> None:
        self.given = (vllm_config, role, kv_cache_config)
        self.bound: object = None

    def bind_connector_metadata(self, connector_metadata: object) -> None:
        self.bound = connector_metadata

    def get_num_new_matched_tokens(self, request: Any, num_computed_tokens: int) -> tuple[int | None, bool]:
        raise NotImplementedError


class Tensor:
    """The attributes of a tensor that the connector reads: registered memory, in blocks."""

    def __init__(self, memory: Memory, device: str = "cpu", dtype: str = "uint8", inner: int = 1) -> None:
        self.memory = memory
        self.device = SimpleNamespace(type=device)
        self.dtype = dtype
        self.shape = [BLOCKS, BLOCK_BYTES // inner, inner]
        self.strides = [BLOCK_BYTES, 1, BLOCK_BYTES // inner]

    def data_ptr(self) -> int:
        return self.memory.address

    def stride(self) -> tuple[int, ...]:
        return tuple(self.strides)

    def element_size(self) -> int:
        return 1

    def untyped_storage(self) -> Tensor:
        return self

    def nbytes(self) -> int:
        return self.memory.size


class BlockStored:
    """An event of a vLLM version without names of adapters."""

    __struct_fields__ = ("block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium")

    def __init__(self, **values: Any) -> None:
        assert tuple(values) == self.__struct_fields__
        self.values = tuple(values.values())


class KVConnectorStats:
    """The counts of a connector in vLLM."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data


class KVConnectorPromMetrics:
    """The metrics of a connector in vLLM."""

    def __init__(self, *_: object) -> None:
        pass


class Gauge:
    """A metric with its values by label."""

    made: ClassVar[dict[str, Gauge]] = {}

    def __init__(self, name: str, documentation: str, labelnames: list[str]) -> None:
        self.values: dict[tuple[object, ...], float] = {}
        self.made[name] = self

    def labels(self, *values: object) -> SimpleNamespace:
        def add(number: float) -> None:
            self.values[values] = self.values.get(values, 0) + number

        return SimpleNamespace(set=lambda number: self.values.update({values: number}), inc=add)


class Counter(Gauge):
    pass


@pytest.fixture
def connector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The class, imported from `mooncake.vllm` as vLLM imports it."""
    base = {
        "KVConnectorBase_V1": Base,
        "KVConnectorMetadata": object,
        "KVConnectorRole": SimpleNamespace(SCHEDULER="s"),
    }
    contents: dict[str, dict[str, Any]] = {
        "vllm.distributed.kv_transfer.kv_connector.v1.base": base,
        "vllm.v1.kv_cache_interface": {"FullAttentionSpec": FullAttentionSpec},
        "vllm.utils.network_utils": {"get_ip": lambda: "localhost"},
        "vllm.distributed.kv_events": {"BlockStored": BlockStored, "KVConnectorKVEvents": object},
        "vllm.distributed.kv_transfer.kv_connector.v1.metrics": {
            "KVConnectorStats": KVConnectorStats,
            "KVConnectorPromMetrics": KVConnectorPromMetrics,
        },
    }
    made: set[str] = set()
    for name, values in contents.items():
        parts = name.split(".")
        for end in range(1, len(parts) + 1):
            module = types.ModuleType(".".join(parts[:end]))
            if module.__name__ not in made:
                made.add(module.__name__)
                monkeypatch.setitem(sys.modules, module.__name__, module)
        vars(sys.modules[name]).update(values)
    own = ("mooncake.vllm.connector", "mooncake.vllm.kv_events", "mooncake.vllm.kv_stats")
    for name in own:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield importlib.import_module("mooncake.vllm").MooncakeStoreConnector
    for name in own:
        sys.modules.pop(name, None)


def vllm_config(extra: dict[str, Any] | None = None, role: str = "kv_both", **parallel: int) -> SimpleNamespace:
    sizes = {"tensor_parallel_size": 1, "pipeline_parallel_size": 1, "rank": 0, **parallel}
    return SimpleNamespace(
        kv_transfer_config=SimpleNamespace(
            kv_connector_extra_config=extra or {}, kv_role=role, engine_id=uuid.uuid4().hex
        ),
        cache_config=SimpleNamespace(block_size=BLOCK_TOKENS, cache_dtype="auto", num_gpu_blocks=BLOCKS),
        parallel_config=SimpleNamespace(**sizes),
        model_config=SimpleNamespace(
            model="/models/m",
            revision=None,
            get_total_num_kv_heads=lambda: 2,
            hf_text_config=SimpleNamespace(num_hidden_layers=2),
        ),
        load_config=SimpleNamespace(download_dir=None, load_format="auto"),
    )


def cache_config(*specs: object) -> SimpleNamespace:
    return SimpleNamespace(num_blocks=BLOCKS, kv_cache_groups=[SimpleNamespace(kv_cache_spec=spec) for spec in specs])


@pytest.mark.parametrize(
    ("config", "cache", "message"),
    [
        (vllm_config({"backend": "x"}), cache_config(FullAttentionSpec()), "no option 'backend'"),
        (vllm_config(prefill_context_parallel_size=2), cache_config(FullAttentionSpec()), "prefill context"),
        (vllm_config({"load_async": False}, tensor_parallel_size=2), cache_config(FullAttentionSpec()), "one rank"),
        (vllm_config({"use_layerwise": True}, pipeline_parallel_size=2), cache_config(FullAttentionSpec()), "one rank"),
        (vllm_config(), cache_config(SlidingWindowSpec()), "has SlidingWindowSpec"),
        (vllm_config(), cache_config(FullAttentionSpec(), FullAttentionSpec()), "one group"),
        (
            vllm_config(),
            cache_config(SimpleNamespace(kv_cache_specs={"a": FullAttentionSpec(), "b": SlidingWindowSpec()})),
            "has FullAttentionSpec, SlidingWindowSpec",
        ),
    ],
)
def test_what_it_does_not_support(connector: Any, config: Any, cache: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        connector(config, "s", cache)


def test_what_it_tells_vllm(connector: Any) -> None:
    made = connector(vllm_config(), "s", cache_config(FullAttentionSpec()))
    assert (made.requires_kv_delivery, made.get_block_ids_with_load_errors(), made.get_finished(set())) == (
        False,
        set(),
        (None, None),
    )
    layers = [connector.requires_piecewise_for_cudagraph(extra) for extra in ({}, {"use_layerwise": True})]
    assert layers == [False, True]
    assert made.reset_cache() is False, "no worker answers"
    made.shutdown()


def test_both_halves_on_a_real_pool(
    connector: Any, cluster: Cluster, store: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mooncake.json"
    settings = {"master_server_address": cluster.master_address, "global_segment_size": 0, "local_buffer_size": "64MB"}
    path.write_text(json.dumps(settings))
    monkeypatch.setenv("MOONCAKE_CONFIG_PATH", str(path))
    config, cache = vllm_config(), cache_config(FullAttentionSpec())
    scheduler, worker = connector(config, "s", cache), connector(config, "w", cache)
    memory = Memory(BLOCKS * BLOCK_BYTES)
    worker.register_kv_caches({"layers.0": Tensor(memory)})
    request = SimpleNamespace(request_id="r", num_tokens=9, num_prompt_tokens=9, block_hashes=[b"a", b"b"])
    assert matched(scheduler, request) == (0, False)
    scheduler.update_state_after_alloc(request, SimpleNamespace(get_block_ids=lambda: ([3, 4, 5],)), 0)
    new = SimpleNamespace(req_id="r", block_ids=([3, 4, 5],), num_computed_tokens=0)
    run(scheduler, worker, [new], {"r": 9}, lambda: memory.write(3 * BLOCK_BYTES, content("a b", 2 * BLOCK_BYTES)))
    assert scheduler.request_finished(request, [3, 4, 5]) == (True, None)
    run(scheduler, worker, [], {})
    wait_until(lambda: worker.get_finished(set()) == ({"r"}, None), SECONDS, "the blocks are stored")

    again = SimpleNamespace(request_id="s", num_tokens=9, num_prompt_tokens=9, block_hashes=[b"a", b"b"])
    assert matched(scheduler, again) == (8, True)
    scheduler.update_state_after_alloc(again, SimpleNamespace(get_block_ids=lambda: ([0, 1],)), 8)
    run(scheduler, worker, [], {})
    wait_until(lambda: worker.get_finished(set()) == (None, {"s"}), SECONDS, "the blocks are loaded")
    assert worker.get_block_ids_with_load_errors() == set()
    assert memory.read(0, 2 * BLOCK_BYTES) == content("a b", 2 * BLOCK_BYTES)
    scheduler.update_connector_output(SimpleNamespace(finished_recving={"s"}))
    counts = worker.get_kv_connector_stats()
    assert counts.reduce() == {"pool_away": 0, "saved_blocks": 2, "loaded_blocks": 2}
    assert worker.get_kv_connector_stats() is None
    assert scheduler.reset_cache() is True
    assert (cluster.http("/get_all_keys") or "").split() == []
    worker.shutdown()
    scheduler.shutdown()


@pytest.mark.parametrize("extra", [{}, {"use_layerwise": True}], ids=["whole", "layers"])
def test_what_it_stores_vllm_publishes(
    connector: Any,
    cluster: Cluster,
    store: object,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    extra: dict[str, Any],
) -> None:
    path = tmp_path / "mooncake.json"
    settings = {"master_server_address": cluster.master_address, "global_segment_size": 0, "local_buffer_size": "64MB"}
    path.write_text(json.dumps(settings))
    monkeypatch.setenv("MOONCAKE_CONFIG_PATH", str(path))
    config, cache = vllm_config(extra), cache_config(FullAttentionSpec())
    config.kv_events_config = SimpleNamespace(enable_kv_cache_events=True)
    scheduler, worker = connector(config, "s", cache), connector(config, "w", cache)
    memory = Memory(BLOCKS * BLOCK_BYTES)
    worker.register_kv_caches({"layers.0": Tensor(memory)})
    assert (list(scheduler.take_events()), worker.get_kv_connector_kv_cache_events()) == ([], None)
    request = SimpleNamespace(
        request_id="r",
        num_tokens=9,
        num_prompt_tokens=9,
        block_hashes=[b"a", b"b"],
        all_token_ids=list(range(100, 109)),
        lora_request=SimpleNamespace(lora_int_id=7, lora_name="seven"),
    )
    scheduler.update_state_after_alloc(request, SimpleNamespace(get_block_ids=lambda: ([3, 4, 5],)), 0)
    new = SimpleNamespace(req_id="r", block_ids=([3, 4, 5],), num_computed_tokens=0)
    run(scheduler, worker, [new], {"r": 9})
    found: list[Any] = []

    def all_told() -> bool:
        parts = worker.get_kv_connector_kv_cache_events()
        scheduler.update_connector_output(SimpleNamespace(finished_recving=None, kv_cache_events=parts))
        found.extend(event.values for event in scheduler.take_events())
        return len(found) == 2

    wait_until(all_told, SECONDS, "both blocks are told of")
    assert sorted(found, key=repr) == [
        ([b"a"], None, [100, 101, 102, 103], BLOCK_TOKENS, 7, "CPU"),
        ([b"b"], b"a", [104, 105, 106, 107], BLOCK_TOKENS, 7, "CPU"),
    ]
    assert scheduler.reset_cache() is True
    worker.shutdown()
    scheduler.shutdown()


def test_a_vllm_that_takes_no_events_is_served_without(
    connector: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delattr(sys.modules["vllm.distributed.kv_events"], "KVConnectorKVEvents")
    config = vllm_config()
    config.kv_events_config = SimpleNamespace(enable_kv_cache_events=True)
    scheduler = connector(config, "s", cache_config(FullAttentionSpec()))
    assert list(scheduler.take_events()) == []
    assert "none are published" in caplog.text
    scheduler.shutdown()


def test_its_counts_are_metrics_of_vllm(connector: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = ({"pool_away": away, "saved_blocks": 2} for away in (1, 0))
    both = connector.build_kv_connector_stats(one).aggregate(connector.build_kv_connector_stats(other))
    assert both.reduce() == {"pool_away": 1, "saved_blocks": 4}
    assert connector.build_kv_connector_stats().is_empty()
    both.reset()
    assert both.is_empty()
    Gauge.made.clear()
    kinds = {Gauge: Gauge, Counter: Counter}
    metrics = connector.build_prom_metrics(vllm_config(), kinds, ["engine"], {0: ["e0"], 1: ["e1"]})
    for data in (one, other):
        metrics.observe(data, 1)
    values = {name: metric.values for name, metric in Gauge.made.items() if metric.values.get(("e1",)) != 0}
    assert values == {"vllm:mooncake_saved_blocks": {("e1",): 4}}
    assert Gauge.made["vllm:mooncake_pool_away"].values == {("e1",): 0}
    monkeypatch.delitem(sys.modules, "mooncake.vllm.kv_stats")
    monkeypatch.delattr(sys.modules["vllm.distributed.kv_transfer.kv_connector.v1.metrics"], "KVConnectorStats")
    assert connector.build_kv_connector_stats(one) is None
    assert connector.build_prom_metrics(vllm_config(), kinds, [], {}) is None


def matched(scheduler: Any, request: Any) -> tuple[int, bool]:
    """What the scheduler learns of a request, in one of its steps."""
    found: list[tuple[int, bool]] = []

    def is_known() -> bool:
        tokens, between = scheduler.get_num_new_matched_tokens(request, 0)
        found.extend([] if tokens is None else [(tokens, between)])
        return bool(found)

    wait_until(is_known, SECONDS, "the pool has answered")
    return found[0]


def run(scheduler: Any, worker: Any, new: list[Any], scheduled: dict[str, int], compute: Any = lambda: None) -> None:
    """Runs one step, with the calls in vLLM's order."""
    cached = SimpleNamespace(req_ids=[], resumed_req_ids=set(), new_block_ids=[], num_computed_tokens=[])
    output = SimpleNamespace(
        scheduled_new_reqs=new,
        scheduled_cached_reqs=cached,
        num_scheduled_tokens=scheduled,
        finished_req_ids=set(),
        preempted_req_ids=set(),
    )
    metadata = scheduler.build_connector_meta(output)
    assert isinstance(metadata.plan, StepPlan)
    worker.handle_preemptions(metadata)
    worker.bind_connector_metadata(metadata)
    worker.wait_for_layer_load("layers.0")
    compute()
    worker.save_kv_layer("layers.0", None, None)
    worker.start_load_kv(None)
    worker.wait_for_save()


# Tensors


def test_the_tensors_of_a_cache() -> None:
    one, two = Memory(BLOCKS * BLOCK_BYTES), Memory(BLOCKS * BLOCK_BYTES)
    caches = {"a": Tensor(one), "b": [Tensor(two)], "c": Tensor(one)}
    layout = block_layout(caches, BLOCKS)
    assert (layout.block_bytes, layout.index) == (2 * BLOCK_BYTES, {"a": 0, "b": 1, "c": 0})
    registered: list[tuple[int, int]] = []

    def register_buffer(address: int, length: int) -> int:
        registered.append((address, length))
        return 0

    register(SimpleNamespace(register_buffer=register_buffer), caches)
    assert registered == [(one.address, one.size), (two.address, two.size)]
    shapes = [
        block_shape({"a": tensor}, block_layout({"a": tensor}, BLOCKS))
        for tensor in (Tensor(one), Tensor(two), Tensor(one, dtype="int8"), Tensor(one, inner=2))
    ]
    assert shapes[0] == shapes[1]
    assert len({repr(shape) for shape in shapes}) == 3
    for wrong, message in ((Tensor(one, device="tpu"), "does not know"), ([Tensor(one)] * 2, "2 tensors")):
        with pytest.raises(ValueError, match=message):
            block_layout({"a": wrong}, BLOCKS)


def test_a_store_without_a_way_to_the_device_is_refused_at_the_start() -> None:
    one = Memory(BLOCKS * BLOCK_BYTES)
    refusing = SimpleNamespace(register_buffer=lambda address, length: -600)
    register(refusing, {"a": Tensor(one)})
    cache = {"a": Tensor(one, device="cuda")}
    assert block_layout(cache, BLOCKS).block_bytes == BLOCK_BYTES
    with pytest.raises(ValueError, match="refuses the KV cache"):
        register(refusing, cache)
