"""Orders the work of the device against the threads that move its blocks.

A device runs asynchronously: when the engine's thread has issued a layer, the device may not have begun it. To save a
layer, the engine's thread records a mark in the device's stream, and the thread that moves bytes waits for the mark.

In the other direction, attention must not read a layer before it is loaded. A `Gate` makes the device's stream wait
for the layer, while the engine's thread goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from mooncake._native import _StreamCounter

# Blocks until the device has done all work that was queued before the mark.
Reached = Callable[[], None]
# Records a mark. Only the engine's thread calls it.
Mark = Callable[[], Reached]


class Device(Protocol):
    """The attributes of `torch.device` that this module reads."""

    @property
    def type(self) -> str: ...
    @property
    def index(self) -> int | None: ...


def at_once() -> None:
    """Returns at once: the processor runs in order, so all earlier work is done."""


def no_marks() -> Reached:
    """Marks for a KV cache in host memory."""
    return at_once


def marks_on(device: Device) -> Mark:
    """Marks for a KV cache on this device."""
    if device.type == "cpu":
        return no_marks

    def mark() -> Reached:
        import torch

        # A captured graph runs later, with blocks that this plan does not name.
        if torch.cuda.is_current_stream_capturing():
            return at_once
        # With `blocking`, a thread that waits for the event sleeps instead of polling.
        event = torch.cuda.Event(blocking=True)
        event.record(torch.cuda.current_stream(device))
        reached: Reached = event.synchronize
        return reached

    return mark


class Counter(Protocol):
    """The methods of `_StreamCounter` that a gate uses."""

    def wait(self, stream: int, count: int) -> bool: ...
    def advance(self, count: int) -> bool: ...


class Gate:
    """Makes the model's stream wait until a counter has a value. A thread of the processor advances the counter."""

    def __init__(self, counter: Counter, stream: Callable[[], int | None]) -> None:
        """`stream` returns the handle of the model's stream, or None during a graph capture. The engine's thread calls
        it.
        """
        self.counter = counter
        self.stream = stream

    def wait(self, count: int) -> bool:
        """Makes later work in the stream wait for `count`. Returns False if the calling thread has to wait instead."""
        stream = self.stream()
        return stream is not None and self.counter.wait(stream, count)

    def open(self, count: int) -> bool:
        """Advances the counter to `count`. Returns False if the stream went on before."""
        return self.counter.advance(count)


def gate_on(device: Device, limit_ms: int) -> Gate | None:
    """A gate for a KV cache on this device; None if the processor has to wait instead.

    If no layer is loaded for `limit_ms` milliseconds, a waiting stream goes on, and the step's blocks count as failed.
    The limit prevents a deadlock: a device may run the copies that load a layer after the stream that waits for it.
    With 0 there is no gate.
    """
    if device.type == "cpu" or limit_ms == 0:
        return None
    import torch

    index = torch.cuda.current_device() if device.index is None else device.index
    counter = _StreamCounter.of_device(index, limit_ms)
    if counter is None:
        return None

    def stream() -> int | None:
        # A captured graph would wait for this count at each of its runs.
        if torch.cuda.is_current_stream_capturing():
            return None
        return int(torch.cuda.current_stream(device).cuda_stream)

    return Gate(counter, stream)
