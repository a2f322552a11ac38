"""PyTorch tensors in the store: a header of 304 bytes and the elements, in the format of the C++ package.

A store inherits the methods by `mooncake._tensor_calls`. The modules, from the bytes up:

- `dtype` and `layout` define the header, `manifest` the object beside shards.
- `parallel` has the rules of shards and their keys.
- `payload` and `write` store objects; `read` and `reconstruct` read them.
- `plain`, `tp`, `shards`, `targets`, `parallelism` and `safetensors` implement the public methods, by subject.
"""

from mooncake._values.tensor.serialize import deserialize_tensor, serialize_tensor, tensor_metadata_size
from mooncake._values.tensor.target import ParallelAxis, ReadTarget, TensorParallelism

__all__ = [
    "ParallelAxis",
    "ReadTarget",
    "TensorParallelism",
    "deserialize_tensor",
    "serialize_tensor",
    "tensor_metadata_size",
]
