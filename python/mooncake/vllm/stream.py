"""Order between what the model computes on a device and the threads that move its blocks.

A device runs late: when the engine's thread says that a layer is computed, the device may not have begun it. So the
engine's thread leaves a mark in the device's stream where it speaks, and the thread that moves bytes waits until the
device is there.

The other way round, attention must not read a layer before it is loaded. A `Gate` has the device's stream wait for
that, while the engine's thread goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from mooncake._native import _StreamCounter

# Returns once the device has done all that came before the mark.
Reached = Callable[[], None]
# Leaves a mark. For the engine's thread.
Mark = Callable[[], Reached]


class Device(Protocol):
    """What is read of a `torch.device`."""

    @property
    def type(self) -> str: ...
    @property
    def index(self) -> int | None: ...


def at_once() -> None:
    """The processor computes in order: what came before is done."""


def no_marks() -> Reached:
    """For memory of the host."""
    return at_once


def marks_on(device: Device) -> Mark:
    """Marks for a KV cache on this device."""
    if device.type == "cpu":
        return no_marks

    def mark() -> Reached:
        import torch

        # What is captured runs later, with blocks that no plan names.
        if torch.cuda.is_current_stream_capturing():
            return at_once
        # A thread that waits for it sleeps.
        event = torch.cuda.Event(blocking=True)
        event.record(torch.cuda.current_stream(device))
        reached: Reached = event.synchronize
        return reached

    return mark


class Counter(Protocol):
    """What is used of a `_StreamCounter`."""

    def wait(self, stream: int, count: int) -> bool: ...
    def advance(self, count: int) -> bool: ...


class Gate:
    """Has the stream in which the model computes wait for a count, which a thread of the processor moves."""

    def __init__(self, counter: Counter, stream: Callable[[], int | None]) -> None:
        """`stream` gives the handle of the stream; None while it is captured. For the engine's thread."""
        self.counter = counter
        self.stream = stream

    def wait(self, count: int) -> bool:
        """What the device is given from now on runs once the count is there. False if the processor has to wait."""
        stream = self.stream()
        return stream is not None and self.counter.wait(stream, count)

    def open(self, count: int) -> bool:
        """The count is there. False if the stream went on without it."""
        return self.counter.advance(count)


def gate_on(device: Device, limit_ms: int) -> Gate | None:
    """A gate for a KV cache on this device; None where the processor has to wait.

    A stream that waits for `limit_ms` while no layer is loaded goes on, and the blocks of the step count as failed: a
    device may run the copies that load a layer behind the very stream that waits for it. With 0 none waits.
    """
    if device.type == "cpu" or limit_ms == 0:
        return None
    import torch

    index = torch.cuda.current_device() if device.index is None else device.index
    counter = _StreamCounter.of_device(index, limit_ms)
    if counter is None:
        return None

    def stream() -> int | None:
        # A graph would wait for this count each time that it runs.
        if torch.cuda.is_current_stream_capturing():
            return None
        return int(torch.cuda.current_stream(device).cuda_stream)

    return Gate(counter, stream)
