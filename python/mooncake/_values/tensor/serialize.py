"""Converts one tensor to bytes and back, without a store. Structured objects use these functions."""

from __future__ import annotations

from mooncake._values.tensor.argument import wrong
from mooncake._values.tensor.dtype import Tensor
from mooncake._values.tensor.layout import HEADER_BYTES
from mooncake._values.tensor.payload import elements_of
from mooncake._values.tensor.read import decode


def tensor_metadata_size() -> int:
    """The length of a tensor's header in bytes."""
    return HEADER_BYTES


def serialize_tensor(tensor: Tensor) -> tuple[bytes, int, int, Tensor]:
    """Returns the header, the address of the elements, their length in bytes, and a tensor that keeps them in place.

    Raises ValueError if the value cannot be stored as a tensor.
    """
    elements = elements_of(tensor, on_host=True)
    if elements is None:
        raise ValueError("unsupported tensor for Mooncake tensor serialization")
    layout = elements.layout
    return layout.pack(), int(elements.tensor.data_ptr()), layout.data_bytes, elements.tensor


def deserialize_tensor(payload: bytes) -> Tensor:
    """A tensor in new memory, from the bytes of a header and elements.

    Raises TypeError for a payload that is not bytes, and ValueError for bytes that are no tensor.
    """
    if not isinstance(payload, bytes):
        raise wrong("_deserialize_tensor", "payload", "bytes", payload)
    tensor = decode(bytearray(payload))
    if tensor is None:
        raise ValueError("invalid serialized Mooncake tensor payload")
    return tensor
