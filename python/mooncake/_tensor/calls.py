"""`TensorCalls`: all tensor methods of a store."""

from __future__ import annotations

from mooncake._tensor.parallelism import ParallelismCalls
from mooncake._tensor.plain import PlainCalls
from mooncake._tensor.safetensors import SafetensorsCalls
from mooncake._tensor.tp import TpCalls


class TensorCalls(PlainCalls, TpCalls, ParallelismCalls, SafetensorsCalls):
    """The methods for PyTorch tensors, implemented with a store's methods for memory. Inherit it beside the native
    store.

    The methods import torch when they are called; without torch they raise ImportError.
    """
