"""Stores payloads: one native call for a whole batch, as a put or as an upsert."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from mooncake._native import ReplicateConfig
from mooncake._values.tensor.argument import INVALID_PARAMS, refuse
from mooncake._values.tensor.cuda import await_stream, is_cuda, registered
from mooncake._values.tensor.native import NativeStore
from mooncake._values.tensor.payload import Payload

_ATTRIBUTES = (
    "replica_num",
    "nof_replica_num",
    "dfs_replica_num",
    "soft_pin_action",
    "soft_pin_ttl_ms",
    "with_soft_pin",
    "with_hard_pin",
    "preferred_segments",
    "preferred_segment",
    "preferred_nof_segments",
    "prefer_alloc_in_same_node",
    "data_type",
)


class Writer:
    """Stores the objects of one call: by put or upsert, with a configuration. `function` is the method's name in the
    log.
    """

    def __init__(
        self, store: NativeStore, function: str, config: ReplicateConfig | None = None, upsert: bool = False
    ) -> None:
        self.store = store
        self.function = function
        self.config = config
        self.upsert = upsert

    def refuse(self, reason: str) -> int:
        """Logs why an object is not stored. Returns -600."""
        return refuse(self.function, reason)

    def config_code(self) -> int:
        """0, or -600 if the configuration does not name one preferred segment per replica."""
        config = self.config
        if config is None or not config.preferred_segments:
            return 0
        if len(config.preferred_segments) == config.replica_num:
            return 0
        return self.refuse("preferred_segments needs one segment per replica")

    def for_keys(self, positions: Sequence[int]) -> Writer:
        """A writer for the keys at these positions of the batch, with their group ids. Positions may repeat."""
        config = self.config
        if config is None or not config.group_ids:
            return self
        picked = ReplicateConfig()
        for name in _ATTRIBUTES:
            setattr(picked, name, getattr(config, name))
        picked.group_ids = [config.group_ids[position] for position in positions]
        return Writer(self.store, self.function, picked, self.upsert)

    def group_code(self, keys: int) -> int:
        """0, or -600 unless there is one group id per key."""
        group_ids = None if self.config is None else self.config.group_ids
        if not group_ids or len(group_ids) == keys:
            return 0
        return self.refuse("group_ids needs one id per key")

    def write(self, key: str, payload: Payload | None) -> int:
        """Stores one object. Returns 0 or a negative code: -600 if the payload is None."""
        return self.write_all([key], [payload])[0]

    def write_all(self, keys: Sequence[str], payloads: Sequence[Payload | None]) -> list[int]:
        """Stores objects. Returns a list with 0 or a negative code per key. Refuses payloads that are None, stores the
        others.
        """
        code = self.config_code() or self.group_code(len(keys))
        if code:
            return [code] * len(keys)
        with ExitStack() as uses:
            return self._write_all(keys, [payload and self._reachable(payload, uses) for payload in payloads])

    def _reachable(self, payload: Payload, uses: ExitStack) -> Payload | None:
        """The payload in memory that the store accepts while `uses` is open: memory of a GPU is registered, or copied
        to the host.
        """
        tensor = next((owner for owner in payload.owners if is_cuda(owner)), None)
        if tensor is None:
            return payload
        try:
            await_stream(tensor)
            is_registered = uses.enter_context(registered(self.store, tensor))
            return payload if is_registered else payload.on_host(tensor.cpu())
        except RuntimeError as error:
            self.refuse(f"the GPU does not give the tensor: {error}")
            return None

    def _write_all(self, keys: Sequence[str], payloads: Sequence[Payload | None]) -> list[int]:
        results = [INVALID_PARAMS] * len(keys)
        ready = [(i, payload) for i, payload in enumerate(payloads) if payload is not None]
        for i in range(len(keys)):
            if payloads[i] is None:
                self.refuse(f"no tensor that can be stored for {keys[i]!r}")
        if not ready:
            return results
        positions = [i for i, _ in ready]
        written = self.for_keys(positions)._call(
            [keys[i] for i in positions],
            [payload.addresses for _, payload in ready],
            [payload.sizes for _, payload in ready],
        )
        for i, result in zip(positions, written, strict=True):
            results[i] = result
        return results

    def _call(self, keys: list[str], addresses: list[list[int]], sizes: list[list[int]]) -> list[int]:
        if self.upsert:
            return self.store.batch_upsert_from_multi_buffers(keys, addresses, sizes, self.config)
        return self.store.batch_put_from_multi_buffers(keys, addresses, sizes, self.config)


def first_failure(results: Sequence[int]) -> int:
    """The first code that is not 0; 0 if all are."""
    return next((result for result in results if result != 0), 0)
