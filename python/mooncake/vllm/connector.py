"""The connector class. vLLM creates one in its scheduler's process and one in each worker."""

from __future__ import annotations

import importlib
import inspect
import logging
import types
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorMetadata,
    KVConnectorRole,
)
from vllm.v1.kv_cache_interface import FullAttentionSpec

from mooncake.store import ReplicateConfig
from mooncake.vllm.config import Options, model_tag
from mooncake.vllm.connect import connect, read_config
from mooncake.vllm.device import block_layout, block_shape, first_tensor, register
from mooncake.vllm.key import Topology
from mooncake.vllm.lookup import LookupClient, socket_name
from mooncake.vllm.plan import StepPlan
from mooncake.vllm.pool import Pool
from mooncake.vllm.scheduler import Rules, Scheduler
from mooncake.vllm.stored import StoredBlocks, StoredParts
from mooncake.vllm.stream import gate_on, marks_on
from mooncake.vllm.weights import Source, identity
from mooncake.vllm.worker import Place, Worker

if TYPE_CHECKING:
    import torch

logger = logging.getLogger(__name__)


class PlanMetadata(KVConnectorMetadata):
    """A plan, as vLLM sends it from the scheduler to the workers."""

    def __init__(self, plan: StepPlan) -> None:
        self.plan = plan


class MooncakeStoreConnector(KVConnectorBase_V1):
    """Stores blocks of KV cache in the pool, and loads them from there so that vLLM need not compute them.

    Raises ValueError for options and models that it does not support, and RuntimeError if the store cannot be set up.
    """

    def __init__(self, vllm_config: Any, role: KVConnectorRole, kv_cache_config: Any = None) -> None:
        given = {"vllm_config": vllm_config, "role": role, "kv_cache_config": kv_cache_config}
        taken = inspect.signature(KVConnectorBase_V1.__init__).parameters
        super().__init__(**{name: value for name, value in given.items() if name in taken})
        transfer = vllm_config.kv_transfer_config
        self._vllm = vllm_config
        self._cache = kv_cache_config
        self._options = Options.from_extra_config(transfer.kv_connector_extra_config)
        self._can_put = self._options.saves(transfer.kv_role)
        self._scheduler: Scheduler | None = None
        self._client: LookupClient | None = None
        self._worker: Worker | None = None
        self._store: Any = None
        self._kv_events = _kv_events(vllm_config)
        self._stored_parts = StoredParts()
        self._check_supported()
        if role == KVConnectorRole.SCHEDULER:
            rules, timeout_ms = self._rules(), self._options.lookup_timeout_ms
            wait_ms = self._options.lookup_wait_ms if rules.can_defer else timeout_ms
            self._client = LookupClient(socket_name(transfer.engine_id), timeout_ms, wait_ms)
            self._scheduler = Scheduler(rules, self._client)
            if self._kv_events is not None:
                self._scheduler.stored = StoredBlocks(self._block_tokens(), len(self._topology().shards()))
        else:
            self._store = connect(read_config(_own_address()))

    @property
    def requires_kv_delivery(self) -> bool:
        """False: requests do not wait for their saves, because vLLM can compute a block again that was not stored."""
        return False

    @classmethod
    def requires_piecewise_for_cudagraph(cls, extra_config: dict[str, Any]) -> bool:
        """Whether CUDA graphs must be piecewise: in the layer-wise mode, the forward pass calls this connector per
        layer.
        """
        return bool(extra_config.get("use_layerwise", False))

    def shutdown(self) -> None:
        """Stores the blocks that wait for it, for at most 10 s per thread, and leaves the pool."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None
        if self._store is not None:
            self._store.close()
            self._store = None
        if self._client is not None:
            self._client.close()

    # Methods that vLLM calls in the scheduler.

    def get_num_new_matched_tokens(self, request: Any, num_computed_tokens: int) -> tuple[int | None, bool]:
        """How many tokens after the computed ones the pool holds, and whether they are loaded between steps. None
        instead of a number asks vLLM to call again in a later step.
        """
        return self._of_scheduler().matched(request, num_computed_tokens)

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        """Records the blocks to load from the pool."""
        self._of_scheduler().allocated(request, blocks.get_block_ids()[0], num_external_tokens)

    def build_connector_meta(self, scheduler_output: Any) -> PlanMetadata:
        """The plan of one step."""
        return PlanMetadata(self._of_scheduler().plan(scheduler_output))

    def request_finished(self, request: Any, block_ids: list[int]) -> tuple[bool, dict[str, Any] | None]:
        """Whether the request's blocks have to stay until `get_finished` returns the request; and None."""
        return self._of_scheduler().finished(request.request_id), None

    def update_connector_output(self, connector_output: Any) -> None:
        """Records the results that the workers reported."""
        scheduler = self._of_scheduler()
        scheduler.loaded(connector_output.finished_recving or ())
        parts = getattr(connector_output, "kv_cache_events", None)
        if scheduler.stored is not None and parts is not None:
            scheduler.stored.note(parts.get_all_events())

    def take_events(self) -> Iterable[Any]:
        """The events of the blocks that were stored in the pool since the last call."""
        stored = self._of_scheduler().stored
        if stored is None or self._kv_events is None:
            return ()
        events: Iterable[Any] = self._kv_events.events_of(stored.take(), self._block_tokens())
        return events

    def reset_cache(self) -> bool | None:
        """Removes the blocks of this model from the pool. Returns whether that succeeded; None in a worker."""
        if self._client is None:
            return None
        if self._scheduler is not None and self._scheduler.stored is not None:
            self._scheduler.stored.clear()
        return self._client.reset()

    # Methods that vLLM calls in a worker.

    def register_kv_caches(self, kv_caches: dict[str, torch.Tensor]) -> None:
        """Registers the KV cache with the store and starts the worker's threads. Raises ValueError if the pool cannot
        move it.
        """
        layout = block_layout(kv_caches, self._num_blocks())
        register(self._store, kv_caches)
        config = ReplicateConfig()
        config.replica_num = self._options.replica_num
        config.preferred_segment = self._options.preferred_segment
        shape = {"block": block_shape(kv_caches, layout), **self._shape()}
        model = model_tag(*self._model(), self._options.cache_prefix, shape)
        place = Place(model, self._vllm.parallel_config.rank, self._topology())
        device = first_tensor(next(iter(kv_caches.values()))).device
        gate = gate_on(device, self._options.stream_wait_ms) if self._options.use_layerwise else None
        pool = Pool(self._store, config)
        pool.stored = self._stored_parts if self._kv_events is not None else None
        self._worker = Worker(pool, layout, place, self._options, self._can_put, marks_on(device), gate)
        if place.rank == 0:
            self._worker.serve_lookups(socket_name(self._vllm.kv_transfer_config.engine_id))
        logger.info("%s: blocks of %d bytes in %d layers", model, layout.block_bytes, len(layout.layers))

    def handle_preemptions(self, kv_connector_metadata: KVConnectorMetadata) -> None:
        """Cancels the saves of the blocks that preempted requests lost."""
        if self._worker is not None:
            self._worker.cancel_preempted(_plan_of(kv_connector_metadata))

    def bind_connector_metadata(self, connector_metadata: KVConnectorMetadata) -> None:
        """Begins a step."""
        super().bind_connector_metadata(connector_metadata)
        if self._worker is not None:
            self._worker.begin(_plan_of(connector_metadata))

    def start_load_kv(self, forward_context: Any, **kwargs: Any) -> None:
        """Starts the loads of the step."""
        if self._worker is not None:
            self._worker.load()

    def wait_for_layer_load(self, layer_name: str) -> None:
        """Ensures that device work which is queued after this call finds the layer loaded."""
        if self._worker is not None:
            self._worker.wait_for_layer(layer_name)

    def save_kv_layer(self, layer_name: str, kv_layer: torch.Tensor, attn_metadata: Any, **kwargs: Any) -> None:
        """In the layer-wise mode, starts to store the layer."""
        if self._worker is not None:
            self._worker.save_layer(layer_name)

    def wait_for_save(self) -> None:
        """Starts to store the blocks that the step completed. Does not wait: blocks stay until `get_finished`."""
        if self._worker is not None:
            self._worker.save()

    def get_finished(self, finished_req_ids: set[str]) -> tuple[set[str] | None, set[str] | None]:
        """The requests that `request_finished` held and whose saves have ended, and the requests whose loads have
        ended. None instead of an empty set.
        """
        if self._worker is None:
            return None, None
        saved, loaded = self._worker.take_finished()
        return saved or None, loaded or None

    def get_block_ids_with_load_errors(self) -> set[int]:
        """The blocks whose load failed since the last call: vLLM has to compute them."""
        return set() if self._worker is None else self._worker.take_failed_blocks()

    def get_kv_connector_kv_cache_events(self) -> Any:
        """The blocks of which this worker stored its part since the last call; None if there are none."""
        return None if self._kv_events is None else self._kv_events.PartsOfStep.of(self._stored_parts)

    def get_kv_connector_stats(self) -> Any:
        """What this worker did since the last call; None if there is nothing to tell."""
        counts = self._worker.take_stats() if self._worker is not None else None
        return None if counts is None else self.build_kv_connector_stats(counts)

    @classmethod
    def build_kv_connector_stats(cls, data: dict[str, Any] | None = None) -> Any:
        """These counts in vLLM's type; None if this version of vLLM has none."""
        kv_stats = _optional("kv_stats")
        return None if kv_stats is None else kv_stats.PoolStats(data=data or {})

    @classmethod
    def build_prom_metrics(cls, *arguments: Any) -> Any:
        """The metrics that show the counts."""
        kv_stats = _optional("kv_stats")
        return None if kv_stats is None else kv_stats.PoolMetrics(*arguments)

    # Values from vLLM's configuration.

    def _of_scheduler(self) -> Scheduler:
        if self._scheduler is None:
            raise RuntimeError("this connector was made for a worker")
        return self._scheduler

    def _rules(self) -> Rules:
        options = self._options
        between, can_defer = options.loads_between_steps, _can_defer()
        return Rules(self._block_tokens(), self._can_put, options.save_decode_cache, between, can_defer)

    def _block_tokens(self) -> int:
        return int(self._vllm.cache_config.block_size * self._topology().dcp_size)

    def _num_blocks(self) -> int:
        blocks = getattr(self._cache, "num_blocks", None) or self._vllm.cache_config.num_gpu_blocks
        return int(blocks)

    def _topology(self) -> Topology:
        parallel, model = self._vllm.parallel_config, self._vllm.model_config
        return Topology(
            tp_size=parallel.tensor_parallel_size,
            pp_size=parallel.pipeline_parallel_size,
            dcp_size=getattr(parallel, "decode_context_parallel_size", 1),
            kv_heads=1 if getattr(model, "use_mla", False) else model.get_total_num_kv_heads(),
        )

    def _model(self) -> tuple[str, str]:
        """The model's name, and what tells its weights from others."""
        config, load = self._vllm.model_config, self._vllm.load_config
        if self._options.model_name:
            return self._options.model_name, self._options.model_name
        load_format = str(getattr(load.load_format, "value", load.load_format))
        return config.model, identity(Source(config.model, config.revision, load.download_dir, load_format))

    def _shape(self) -> dict[str, object]:
        """The values that, besides the tensors, determine the layout of a block's bytes."""
        topology = self._topology()
        layers = self._vllm.model_config.hf_text_config.num_hidden_layers
        sizes = [topology.tp_size, topology.pp_size, topology.dcp_size, topology.kv_heads, layers]
        return {"sizes": sizes, "tokens": self._block_tokens(), "type": str(self._vllm.cache_config.cache_dtype)}

    def _check_supported(self) -> None:
        parallel = self._vllm.parallel_config
        if getattr(parallel, "prefill_context_parallel_size", 1) > 1:
            raise ValueError("mooncake.vllm does not support prefill context parallelism")
        ranks = parallel.tensor_parallel_size * parallel.pipeline_parallel_size
        if ranks > 1 and not self._options.loads_between_steps:
            # Within a step, a rank does not learn that another rank's load failed, and would store blocks computed
            # from it.
            raise ValueError("mooncake.vllm needs load_async and no use_layerwise with more than one rank")
        groups = self._cache.kv_cache_groups if self._cache is not None else []
        specs = [spec for group in groups for spec in _specs(group.kv_cache_spec)]
        if len(groups) > 1 or not all(isinstance(spec, FullAttentionSpec) for spec in specs):
            kinds = ", ".join(sorted({type(spec).__name__ for spec in specs}))
            raise ValueError(f"mooncake.vllm supports one group of full attention; this model has {kinds}")


def _specs(spec: Any) -> Iterable[Any]:
    """The kinds of layers in a group."""
    inner = getattr(spec, "kv_cache_specs", None)
    return inner.values() if isinstance(inner, dict) else [spec]


def _can_defer() -> bool:
    """Whether this version of vLLM asks again in a later step if it gets no number of tokens."""
    answer = inspect.signature(KVConnectorBase_V1.get_num_new_matched_tokens).return_annotation
    return "None" in str(answer) or "Optional" in str(answer)


def _plan_of(metadata: KVConnectorMetadata) -> StepPlan:
    return metadata.plan if isinstance(metadata, PlanMetadata) else StepPlan()


def _kv_events(vllm_config: Any) -> types.ModuleType | None:
    """The module that makes events. None unless vLLM publishes KV events and takes them from connectors."""
    if not getattr(getattr(vllm_config, "kv_events_config", None), "enable_kv_cache_events", False):
        return None
    module = _optional("kv_events")
    if module is None:
        logger.warning("this version of vLLM takes no KV events from connectors: none are published for the pool")
    return module


def _optional(name: str) -> types.ModuleType | None:
    """A module of this package; None if this version of vLLM lacks what it imports."""
    try:
        return importlib.import_module(f"mooncake.vllm.{name}")
    except ImportError:
        return None


def _own_address() -> str:
    try:
        from vllm.utils.network_utils import get_ip
    except ImportError:
        from vllm.utils import get_ip
    return str(get_ip())
