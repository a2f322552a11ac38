"""All tensor calls of a store."""

from __future__ import annotations

from mooncake._tensor.parallelism import ParallelismCalls
from mooncake._tensor.plain import PlainCalls
from mooncake._tensor.safetensors import SafetensorsCalls
from mooncake._tensor.tp import TpCalls


class TensorCalls(PlainCalls, TpCalls, ParallelismCalls, SafetensorsCalls):
    """What a store can do with tensors of PyTorch, made of its calls for memory. Inherit it beside the native store.

    torch is imported by the calls, not before; without it they raise ImportError.
    """
