"""The API of Mooncake Store: put, get and remove objects in a pool of memory that many processes lend."""

from typing import TYPE_CHECKING

from mooncake import _first_use, _native
from mooncake._enums import ObjectDataType, ReplicaStatus, SoftPinAction, TaskStatus, TaskType
from mooncake._native import (
    BufferHandle,
    Descriptor,
    DiskDescriptor,
    ExistOptions,
    MemoryDescriptor,
    MooncakeHostMemAllocator,
    QueryTaskResponse,
    RangedReadSnapshot,
    ReplicaDescriptor,
    ReplicateConfig,
    bind_to_numa_node,
    error_advice,
    error_name,
    get_alloc_func_addr,
    get_free_func_addr,
)
from mooncake._tensor_calls import TensorCalls
from mooncake.buffer_pool import BufferLease, BufferLeaseView, BufferPool

if TYPE_CHECKING:
    from mooncake._unsupported import MooncakeDistributedNoFRegister
    from mooncake._values.engram import EngramStore, EngramStoreConfig
    from mooncake._values.tensor import ParallelAxis, ReadTarget, TensorParallelism

_TENSOR = "mooncake._values.tensor"
_ENGRAM = "mooncake._values.engram"
# Names that few callers need: they load when they are first used.
_LATER = {
    "EngramStore": (_ENGRAM, "EngramStore"),
    "EngramStoreConfig": (_ENGRAM, "EngramStoreConfig"),
    "MooncakeDistributedNoFRegister": ("mooncake._unsupported", "MooncakeDistributedNoFRegister"),
    "ParallelAxis": (_TENSOR, "ParallelAxis"),
    "ReadTarget": (_TENSOR, "ReadTarget"),
    "TensorParallelism": (_TENSOR, "TensorParallelism"),
    # Callers of the C++ package use these names to convert tensors themselves.
    "_deserialize_tensor": (_TENSOR, "deserialize_tensor"),
    "_serialize_tensor": (_TENSOR, "serialize_tensor"),
    "_tensor_metadata_size": (_TENSOR, "tensor_metadata_size"),
}
if not TYPE_CHECKING:  # with it, a check of types would let pass all names
    __getattr__ = _first_use.names(globals(), _LATER)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})


class MooncakeDistributedStore(TensorCalls, _native.MooncakeDistributedStore):
    __doc__ = _native.MooncakeDistributedStore.__doc__

    def for_tenant(self, tenant_id: str) -> "MooncakeDistributedStore":
        """This store for the keys of another tenant.

        Both share connections, lent memory and registered buffers, so it costs next to nothing. It works as long as
        this store is open; closing it changes nothing for this one. Raises ValueError if the tenant cannot have that
        name, or if this store is not set up or is a dummy.
        """
        view = MooncakeDistributedStore()
        if view._set_up_for_tenant(self, tenant_id) != 0:
            raise ValueError(f"there is no store for the tenant {tenant_id!r}: the log says why")
        # A store that is collected is closed, with all that share it.
        view._shares = self
        return view

    _shares: "MooncakeDistributedStore | None" = None

    def _get_pyclient_capsule(self) -> object:
        """The object that `BufferPool` and `EngramStore` accept in the place of the store: the store itself."""
        return self


def _get_pyclient_from_wrapper(wrapper: MooncakeDistributedStore) -> object:
    """Returns `wrapper._get_pyclient_capsule()`, as the function of this name in the C++ package does."""
    return wrapper._get_pyclient_capsule()


RegisteredBufferPool = BufferPool
RegisteredBufferLease = BufferLease
RegisteredBufferLeaseView = BufferLeaseView

UNKNOWN = ObjectDataType.UNKNOWN
KVCACHE = ObjectDataType.KVCACHE
TENSOR = ObjectDataType.TENSOR
WEIGHT = ObjectDataType.WEIGHT
SAMPLE = ObjectDataType.SAMPLE
ACTIVATION = ObjectDataType.ACTIVATION
GRADIENT = ObjectDataType.GRADIENT
OPTIMIZER_STATE = ObjectDataType.OPTIMIZER_STATE
METADATA = ObjectDataType.METADATA
GENERAL = ObjectDataType.GENERAL

UNDEFINED = ReplicaStatus.UNDEFINED
INITIALIZED = ReplicaStatus.INITIALIZED
COMPLETE = ReplicaStatus.COMPLETE
REMOVED = ReplicaStatus.REMOVED

REPLICA_COPY = TaskType.REPLICA_COPY
REPLICA_MOVE = TaskType.REPLICA_MOVE

PENDING = TaskStatus.PENDING
PROCESSING = TaskStatus.PROCESSING  # ReplicaStatus has this name too; callers expect this one
FAILED = TaskStatus.FAILED  # likewise
SUCCESS = TaskStatus.SUCCESS

__all__ = [
    "ACTIVATION",
    "COMPLETE",
    "FAILED",
    "GENERAL",
    "GRADIENT",
    "INITIALIZED",
    "KVCACHE",
    "METADATA",
    "OPTIMIZER_STATE",
    "PENDING",
    "PROCESSING",
    "REMOVED",
    "REPLICA_COPY",
    "REPLICA_MOVE",
    "SAMPLE",
    "SUCCESS",
    "TENSOR",
    "UNDEFINED",
    "UNKNOWN",
    "WEIGHT",
    "BufferHandle",
    "BufferLease",
    "BufferLeaseView",
    "BufferPool",
    "Descriptor",
    "DiskDescriptor",
    "EngramStore",
    "EngramStoreConfig",
    "ExistOptions",
    "MemoryDescriptor",
    "MooncakeDistributedNoFRegister",
    "MooncakeDistributedStore",
    "MooncakeHostMemAllocator",
    "ObjectDataType",
    "ParallelAxis",
    "QueryTaskResponse",
    "RangedReadSnapshot",
    "ReadTarget",
    "RegisteredBufferLease",
    "RegisteredBufferLeaseView",
    "RegisteredBufferPool",
    "ReplicaDescriptor",
    "ReplicaStatus",
    "ReplicateConfig",
    "SoftPinAction",
    "TaskStatus",
    "TaskType",
    "TensorParallelism",
    "bind_to_numa_node",
    "error_advice",
    "error_name",
    "get_alloc_func_addr",
    "get_free_func_addr",
]
