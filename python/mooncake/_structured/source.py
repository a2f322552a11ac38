"""What a member can be stored from and read into, besides plain arrays, tensors and bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mooncake._structured.array import Array, DType, byte_array, bytes_of, np
from mooncake._structured.torch_tensor import Tensor


@dataclass(frozen=True)
class TensorPayload:
    """A torch tensor that is not nested."""

    tensor: Tensor


@dataclass(frozen=True)
class TensorObjectBuffer:
    """Registered memory that holds a tensor as it is stored, header and elements. `owner` keeps it in place."""

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
    """Memory to read into. `owner` keeps it in place."""

    ptr: int
    size: int
    owner: Any
    pre_registered: bool = False


@dataclass(frozen=True)
class MultiBufferPayload:
    """Buffers that are stored one after the other, as an ndarray if they have `dtype` and `shape`."""

    buffers: tuple[memoryview, ...]
    owners: tuple[Any, ...] = ()
    dtype: str | None = None
    shape: tuple[int, ...] | None = None

    @property
    def nbytes(self) -> int:
        """The length of all of them in bytes."""
        return sum(memoryview(buffer).nbytes for buffer in self.buffers)

    def byte_arrays(self) -> list[Array]:
        """The bytes of each, without a copy."""
        return [byte_array(buffer) for buffer in self.buffers]


@dataclass(frozen=True)
class DirectCopyPayload:
    """C-contiguous arrays that are stored one after the other as one ndarray."""

    arrays: list[Array]
    total_bytes: int
    dtype: str | None = None
    shape: tuple[int, ...] | None = None

    @property
    def nbytes(self) -> int:
        """The length of all of them in bytes."""
        return self.total_bytes

    @staticmethod
    def from_flat_arrays(flat_arrays: list[Array], dtype: DType, total_elems: int) -> DirectCopyPayload:
        """The payload of arrays of one type with so many elements together."""
        total_bytes = sum(array.nbytes for array in flat_arrays)
        return DirectCopyPayload(flat_arrays, total_bytes, np.dtype(dtype).str, (total_elems,))

    def byte_arrays(self) -> list[Array]:
        """The bytes of each, without a copy."""
        return [bytes_of(array) for array in self.arrays]


def tensor_object_buffer(ptr: int, size: int, owner: Any = None, batch_size: int | None = None) -> TensorObjectBuffer:
    """Memory with a tensor as it is stored: to put from, or to get into. A batch needs `batch_size`, its rows."""
    return TensorObjectBuffer(ptr=int(ptr), size=int(size), owner=owner, batch_size=batch_size)


def raw_destination(ptr: int, size: int, owner: Any = None, *, pre_registered: bool = False) -> RawDestination:
    """Memory to get an array or a tensor into. `pre_registered`: the store may write it as it is."""
    return RawDestination(ptr=int(ptr), size=int(size), owner=owner, pre_registered=pre_registered)
