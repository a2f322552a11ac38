"""vLLM's types for what a connector counts. Imported only if this version of vLLM has them."""

from __future__ import annotations

from typing import Any

from vllm.distributed.kv_transfer.kv_connector.v1.metrics import KVConnectorPromMetrics, KVConnectorStats

from mooncake.vllm.stats import AWAY, COUNTS, merged


class PoolStats(KVConnectorStats):
    """The counts of `stats`, by name. vLLM merges those of several workers and steps, and logs them."""

    data: dict[str, Any]

    def reset(self) -> None:
        self.data = {}

    def is_empty(self) -> bool:
        return not self.data

    def aggregate(self, other: Any) -> PoolStats:
        self.data = merged(self.data, other.data)
        return self

    def reduce(self) -> dict[str, int | float]:
        return dict(self.data)


class PoolMetrics(KVConnectorPromMetrics):
    """The same counts in vLLM's metrics, by engine: a gauge `vllm:mooncake_pool_away` and counters."""

    def __init__(
        self,
        vllm_config: Any,
        metric_types: dict[Any, Any],
        labelnames: list[str],
        per_engine_labelvalues: dict[int, list[object]],
    ) -> None:
        super().__init__(vllm_config, metric_types, labelnames, per_engine_labelvalues)
        kinds = {kind.__name__: made for kind, made in metric_types.items()}

        def per_engine(kind: str, name: str, text: str) -> dict[int, Any]:
            metric = kinds[kind](name=f"vllm:mooncake_{name}", documentation=text, labelnames=labelnames)
            return {engine: metric.labels(*values) for engine, values in per_engine_labelvalues.items()}

        self._away = per_engine("Gauge", AWAY, "1 while the pool does not work and is passed over")
        self._counts = {name: per_engine("Counter", name, text) for name, text in COUNTS.items()}

    def observe(self, transfer_stats_data: dict[str, Any], engine_idx: int = 0) -> None:
        self._away[engine_idx].set(transfer_stats_data.get(AWAY, 0))
        for name, engines in self._counts.items():
            engines[engine_idx].inc(transfer_stats_data.get(name, 0))
