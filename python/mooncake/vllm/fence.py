"""What the GPU was given before a copy of the KV cache comes first: the store's copies wait for no stream of vLLM."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mooncake.vllm.device import first_tensor

# Returns once all work is done that the device was given before the fence was made. For any thread.
Fence = Callable[[], None]
# Makes a fence. For the thread that gives the device its work.
MakeFence = Callable[[], Fence]


def nothing_before() -> Fence:
    """A fence of the host, where work is done when it is given."""
    return lambda: None


def fences_of(kv_caches: Mapping[str, Any]) -> MakeFence:
    """What makes fences for the device of a KV cache."""
    devices = [first_tensor(cache).device for cache in kv_caches.values()]
    gpus = list({str(device): device for device in devices if device.type != "cpu"}.values())
    if not gpus:
        return nothing_before
    import torch

    def fence() -> Fence:
        # Waiting puts the thread to sleep.
        events = [torch.cuda.Event(blocking=True) for _ in gpus]
        for device, event in zip(gpus, events, strict=True):
            event.record(torch.cuda.current_stream(device))

        def wait() -> None:
            for event in events:
                event.synchronize()

        return wait

    return fence
