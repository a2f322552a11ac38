"""Tensors of PyTorch in the store: a header of 304 bytes and the elements, as the C++ package stores them.

`calls.TensorCalls` is what a store inherits. From the bytes up: `dtype` and `layout` are the header, `manifest` is what
lies beside shards, `parallel` are the rules of shards and their keys; `payload` and `write` store, `read` and
`reconstruct` read; `plain`, `tp`, `shards`, `targets`, `parallelism` and `safetensors` are the calls by subject.
"""

from mooncake._tensor.calls import TensorCalls
from mooncake._tensor.serialize import deserialize_tensor, serialize_tensor, tensor_metadata_size
from mooncake._tensor.target import ParallelAxis, ReadTarget, TensorParallelism

__all__ = [
    "ParallelAxis",
    "ReadTarget",
    "TensorCalls",
    "TensorParallelism",
    "deserialize_tensor",
    "serialize_tensor",
    "tensor_metadata_size",
]
