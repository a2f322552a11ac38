"""Order between what the model computes on a device and the threads that move its blocks.

A device runs late: when the engine's thread says that a layer is computed, the device may not have begun it. So the
engine's thread leaves a mark in the device's stream where it speaks, and the thread that moves bytes waits until the
device is there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

# Returns once the device has done all that came before the mark.
Reached = Callable[[], None]
# Leaves a mark. For the engine's thread.
Mark = Callable[[], Reached]


class Device(Protocol):
    """What is read of a `torch.device`."""

    @property
    def type(self) -> str: ...


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
