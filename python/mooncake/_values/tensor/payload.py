"""An object to store: its bytes as ranges of memory, and the objects that keep that memory alive."""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

from mooncake._values.tensor.cuda import is_cuda
from mooncake._values.tensor.dtype import Tensor, code_of, torch_module
from mooncake._values.tensor.layout import MAX_DIMS, Layout, full_layout
from mooncake._values.tensor.parallel import Axis, shard_layout, shard_shape, splits


class Payload(NamedTuple):
    """The ranges of one object, as pairs of address and length in bytes. `owners` keep the memory alive.

    The last range may be elements on a GPU; then their tensor is one of the owners.
    """

    ranges: tuple[tuple[int, int], ...]
    owners: tuple[Any, ...]

    def on_host(self, elements: Tensor) -> Payload:
        """The same object, with its elements on the GPU replaced by the elements of this tensor on the host."""
        *before, (_, size) = self.ranges
        return Payload((*before, (int(elements.data_ptr()), size)), (*self.owners, elements))

    @property
    def addresses(self) -> list[int]:
        return [address for address, _ in self.ranges]

    @property
    def sizes(self) -> list[int]:
        return [size for _, size in self.ranges]


class Elements(NamedTuple):
    """A tensor's elements on this host or on a GPU, in row-major order, and the layout for their header."""

    layout: Layout
    tensor: Tensor

    def payload(self) -> Payload:
        """The header and the elements, without a copy of the elements."""
        header = raw_payload(self.layout.pack())
        if self.layout.data_bytes == 0:
            return header
        elements = (int(self.tensor.data_ptr()), self.layout.data_bytes)
        return Payload((*header.ranges, elements), (*header.owners, self.tensor))


def raw_payload(raw: bytes) -> Payload:
    """An object with these bytes."""
    memory = ctypes.create_string_buffer(raw, len(raw))
    return Payload(((ctypes.addressof(memory), len(raw)),), (memory,))


def memory_payload(address: int, size: int) -> Payload:
    """An object whose bytes are in the caller's memory."""
    return Payload(((address, size),), ())


def elements_of(tensor: object, on_host: bool = False) -> Elements | None:
    """The elements of a tensor; None if the value is no tensor, or cannot be stored.

    A contiguous tensor on this host is not copied, nor is one on a GPU, unless `on_host` is true. Other tensors are
    copied. Raises ImportError without torch.
    """
    torch = torch_module()
    if not isinstance(tensor, torch.Tensor):
        return None
    dtype, rank = code_of(tensor.dtype), tensor.dim()
    if dtype is None or rank > MAX_DIMS or tensor.layout != torch.strided or tensor.is_meta:
        return None
    try:
        here = tensor.detach().resolve_neg()
        here = (here if is_cuda(here) and not on_host else here.cpu()).contiguous()
        shape = tuple(int(dim) for dim in here.shape)
        layout = full_layout(dtype, shape)
        return Elements(layout, here) if here.data_ptr() or layout.data_bytes == 0 else None
    except (RuntimeError, NotImplementedError, ValueError):
        return None  # a tensor without memory, as torch uses for tracing


def shard_of(elements: Elements, axes: tuple[Axis, ...], split_dim: int, rank: int, count: int) -> Elements | None:
    """Shard `rank` of `count` equal shards of a full tensor; None if it does not divide. `axes` go into its header."""
    shape = elements.layout.global_shape
    if not splits(shape, split_dim, count):
        return None
    local_shape = shard_shape(shape, split_dim, count)
    layout = shard_layout(elements.layout.dtype, shape, local_shape, axes)
    if layout is None:
        return None
    extent = local_shape[split_dim]
    part = elements.tensor.narrow(split_dim, rank * extent, extent).contiguous()
    return Elements(layout, part)
