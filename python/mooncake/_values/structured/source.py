"""Sources and destinations of members, besides plain arrays, tensors and bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mooncake._values.structured.array import Array, DType, byte_array, bytes_of, np
from mooncake._values.structured.torch_tensor import Tensor


@dataclass(frozen=True)
class TensorPayload:
    """A torch tensor that is not nested."""

    tensor: Tensor


@dataclass(frozen=True)
class TensorObjectBuffer:
    """Registered memory with a tensor in its stored form, header and elements. `owner` keeps it alive."""

    ptr: int
    size: int
    owner: Any
    batch_size: int | None = None

    def __len__(self) -> int:
        if self.batch_size is None:
            raise TypeError("tensor object buffer requires batch_size for DataProto use")
        return self.batch_size


@dataclass(frozen=True)
class RawDestination:
    """Memory to read into. `owner` keeps it alive."""

    ptr: int
    size: int
    owner: Any
    pre_registered: bool = False


@dataclass(frozen=True)
class MultiBufferPayload:
    """Buffers to store one after the other; as an ndarray if they have `dtype` and `shape`."""

    buffers: tuple[memoryview, ...]
    owners: tuple[Any, ...] = ()
    dtype: str | None = None
    shape: tuple[int, ...] | None = None

    @property
    def nbytes(self) -> int:
        """The total length in bytes."""
        return sum(memoryview(buffer).nbytes for buffer in self.buffers)

    def byte_arrays(self) -> list[Array]:
        """The bytes of each buffer, without a copy."""
        return [byte_array(buffer) for buffer in self.buffers]


@dataclass(frozen=True)
class DirectCopyPayload:
    """C-contiguous arrays to store one after the other, as one ndarray."""

    arrays: list[Array]
    total_bytes: int
    dtype: str | None = None
    shape: tuple[int, ...] | None = None

    @property
    def nbytes(self) -> int:
        """The total length in bytes."""
        return self.total_bytes

    @staticmethod
    def from_flat_arrays(flat_arrays: list[Array], dtype: DType, total_elems: int) -> DirectCopyPayload:
        """The payload of arrays of one type, with `total_elems` elements in total."""
        total_bytes = sum(array.nbytes for array in flat_arrays)
        return DirectCopyPayload(flat_arrays, total_bytes, np.dtype(dtype).str, (total_elems,))

    def byte_arrays(self) -> list[Array]:
        """The bytes of each array, without a copy."""
        return [bytes_of(array) for array in self.arrays]


def tensor_object_buffer(ptr: int, size: int, owner: Any = None, batch_size: int | None = None) -> TensorObjectBuffer:
    """Memory with a tensor in its stored form: a source of a put, or a destination of a get. `owner` keeps it alive.

    As a field of a batch it needs `batch_size`, the number of rows.
    """
    return TensorObjectBuffer(ptr=int(ptr), size=int(size), owner=owner, batch_size=batch_size)


def raw_destination(ptr: int, size: int, owner: Any = None, *, pre_registered: bool = False) -> RawDestination:
    """Memory to read an array or a tensor into. `owner` keeps it alive.

    With `pre_registered`, the caller has registered the memory with the store.
    """
    return RawDestination(ptr=int(ptr), size=int(size), owner=owner, pre_registered=pre_registered)
