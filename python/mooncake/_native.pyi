# Types of the native part of mooncake.store and mooncake.engine. The docstrings are in crates/python/src: see
# `help()`. Integers may be NumPy's. A `Buffer` is any object with the buffer protocol.

from collections.abc import Iterable
from enum import IntEnum
from typing import Any, ClassVar, SupportsIndex, final, overload, type_check_only

from typing_extensions import Buffer, disjoint_base

from mooncake._enums import (
    ObjectDataType,
    ReplicaStatus,
    ScatterTransferCompletionStatus,
    SoftPinAction,
    TaskStatus,
    TaskType,
)

__all__ = [
    "PROTOCOL_VERSION",
    "VERSION",
    "BufferHandle",
    "BufferLeaseView",
    "Descriptor",
    "DiskDescriptor",
    "ExistOptions",
    "InnerTransferEngine",
    "MemoryDescriptor",
    "MooncakeDistributedStore",
    "MooncakeHostMemAllocator",
    "QueryTaskResponse",
    "RangedReadSnapshot",
    "ReplicaDescriptor",
    "ReplicateConfig",
    "ScatterTransferTicket",
    "TransferEngine",
    "TransferNotify",
    "_StreamCounter",
    "bind_to_numa_node",
    "error_advice",
    "error_name",
    "get_alloc_func_addr",
    "get_free_func_addr",
]

VERSION: str
PROTOCOL_VERSION: int

def bind_to_numa_node(node: SupportsIndex) -> None: ...
def error_advice(number: SupportsIndex) -> str: ...
def error_name(number: SupportsIndex) -> str: ...
def get_alloc_func_addr() -> int: ...
def get_free_func_addr() -> int: ...

@final
class BufferHandle:
    def ptr(self) -> int: ...
    def size(self) -> int: ...
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class BufferLeaseView:
    @staticmethod
    def _of(lease: object, ptr: int, size: int) -> BufferLeaseView: ...
    @property
    def buffer(self) -> memoryview: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
@type_check_only
class _LocalMemory:
    @property
    def ptr(self) -> int: ...

@final
class _StreamCounter:
    @staticmethod
    def of_device(device: int, limit_ms: int) -> _StreamCounter | None: ...
    def wait(self, stream: int, count: int) -> bool: ...
    def advance(self, count: int) -> bool: ...

@final
class MooncakeHostMemAllocator:
    def __new__(cls) -> MooncakeHostMemAllocator: ...
    def alloc(self, size: SupportsIndex) -> int: ...
    def free(self, ptr: SupportsIndex) -> int: ...

@final
class Descriptor:
    def __new__(cls) -> Descriptor: ...
    size: int
    buffer_address: int
    transport_endpoint: str

@final
class MemoryDescriptor:
    @property
    def buffer_descriptor(self) -> Descriptor: ...

@final
class DiskDescriptor:
    @property
    def file_path(self) -> str: ...
    @property
    def object_size(self) -> int: ...

@final
class ReplicaDescriptor:
    @property
    def status(self) -> ReplicaStatus: ...
    def is_memory_replica(self) -> bool: ...
    def is_disk_replica(self) -> bool: ...
    def is_local_disk_replica(self) -> bool: ...
    def is_object_store_replica(self) -> bool: ...
    def get_memory_descriptor(self) -> MemoryDescriptor: ...
    def get_disk_descriptor(self) -> DiskDescriptor: ...

@final
class RangedReadSnapshot: ...

@final
class QueryTaskResponse:
    def __new__(cls) -> QueryTaskResponse: ...
    @property
    def id(self) -> tuple[int, int]: ...
    @property
    def type(self) -> TaskType: ...
    @property
    def status(self) -> TaskStatus: ...
    @property
    def created_at_ms_epoch(self) -> int: ...
    @property
    def last_updated_at_ms_epoch(self) -> int: ...
    @property
    def assigned_client(self) -> tuple[int, int]: ...
    @property
    def message(self) -> str: ...

@disjoint_base
class ExistOptions:
    def __new__(cls) -> ExistOptions: ...
    @property
    def prefetch_to_memory(self) -> bool: ...
    @prefetch_to_memory.setter
    def prefetch_to_memory(self, value: bool) -> None: ...

@disjoint_base
class ReplicateConfig:
    def __new__(cls) -> ReplicateConfig: ...
    @property
    def replica_num(self) -> int: ...
    @replica_num.setter
    def replica_num(self, value: SupportsIndex) -> None: ...
    @property
    def nof_replica_num(self) -> int: ...
    @nof_replica_num.setter
    def nof_replica_num(self, value: SupportsIndex) -> None: ...
    @property
    def dfs_replica_num(self) -> int: ...
    @dfs_replica_num.setter
    def dfs_replica_num(self, value: SupportsIndex) -> None: ...
    @property
    def soft_pin_action(self) -> SoftPinAction: ...
    @soft_pin_action.setter
    def soft_pin_action(self, value: SoftPinAction) -> None: ...
    @property
    def soft_pin_ttl_ms(self) -> int | None: ...
    @soft_pin_ttl_ms.setter
    def soft_pin_ttl_ms(self, value: SupportsIndex | None) -> None: ...
    @property
    def with_soft_pin(self) -> bool: ...
    @with_soft_pin.setter
    def with_soft_pin(self, value: bool) -> None: ...
    @property
    def with_hard_pin(self) -> bool: ...
    @with_hard_pin.setter
    def with_hard_pin(self, value: bool) -> None: ...
    @property
    def preferred_segments(self) -> list[str]: ...
    @preferred_segments.setter
    def preferred_segments(self, value: Iterable[str]) -> None: ...
    @property
    def preferred_segment(self) -> str: ...
    @preferred_segment.setter
    def preferred_segment(self, value: str) -> None: ...
    @property
    def preferred_nof_segments(self) -> list[str]: ...
    @preferred_nof_segments.setter
    def preferred_nof_segments(self, value: Iterable[str]) -> None: ...
    @property
    def prefer_alloc_in_same_node(self) -> bool: ...
    @prefer_alloc_in_same_node.setter
    def prefer_alloc_in_same_node(self, value: bool) -> None: ...
    @property
    def data_type(self) -> ObjectDataType: ...
    @data_type.setter
    def data_type(self, value: ObjectDataType) -> None: ...
    @property
    def group_ids(self) -> list[str] | None: ...
    @group_ids.setter
    def group_ids(self, value: Iterable[str] | None) -> None: ...
    @property
    def session_ids(self) -> list[str] | None: ...
    @session_ids.setter
    def session_ids(self, value: Iterable[str] | None) -> None: ...
    @property
    def residency_affinity_ids(self) -> list[str] | None: ...
    @residency_affinity_ids.setter
    def residency_affinity_ids(self, value: Iterable[str] | None) -> None: ...
    @property
    def preferred_hca_names(self) -> list[str] | None: ...
    @preferred_hca_names.setter
    def preferred_hca_names(self, value: Iterable[str] | None) -> None: ...
    @property
    def per_key_preferred_hca_names(self) -> list[list[str]] | None: ...
    @per_key_preferred_hca_names.setter
    def per_key_preferred_hca_names(self, value: list[list[str]] | None) -> None: ...

@disjoint_base
class MooncakeDistributedStore:
    def __new__(cls) -> MooncakeDistributedStore: ...

    # Lifecycle

    @overload
    def setup(
        self,
        local_hostname: str,
        metadata_server: str,
        global_segment_size: SupportsIndex,
        local_buffer_size: SupportsIndex,
        protocol: str,
        rdma_devices: str,
        master_server_addr: str,
        engine: object = None,
        enable_ssd_offload: bool = False,
        ssd_offload_path: str = "",
        tenant_id: str = "default",
        enable_client_http_server: bool = False,
        client_http_port: SupportsIndex = 9300,
        enable_embedded_master: bool = False,
    ) -> int: ...
    @overload
    def setup(self, config: dict[str, Any]) -> int: ...
    def setup_dummy(
        self, mem_pool_size: SupportsIndex, local_buffer_size: SupportsIndex, server_address: str
    ) -> int: ...
    def _set_up_for_tenant(self, store: MooncakeDistributedStore, tenant_id: str) -> int: ...
    def init_all(self, protocol: str, device_name: str, mount_segment_size: SupportsIndex = 16777216) -> int: ...
    def drain(self, timeout_sec: SupportsIndex = 20) -> int: ...
    def close(self) -> int: ...
    def get_client_http_port(self) -> int: ...
    def get_hostname(self) -> str: ...
    def health_check(self) -> int: ...

    # Writing

    def put(self, key: str, value: Buffer, config: ReplicateConfig | None = None) -> int: ...
    def put_parts(self, key: str, *parts: Buffer, config: ReplicateConfig | None = None) -> int: ...
    def put_batch(
        self, keys: Iterable[str], values: Iterable[Buffer], config: ReplicateConfig | None = None
    ) -> int: ...
    def put_from(
        self, key: str, buffer_ptr: SupportsIndex, size: SupportsIndex, config: ReplicateConfig | None = None
    ) -> int: ...
    def batch_put_from(
        self,
        keys: Iterable[str],
        buffer_ptrs: Iterable[SupportsIndex],
        sizes: Iterable[SupportsIndex],
        config: ReplicateConfig | None = None,
    ) -> list[int]: ...
    def batch_put_from_multi_buffers(
        self,
        keys: Iterable[str],
        all_buffer_ptrs: Iterable[Iterable[SupportsIndex]],
        all_sizes: Iterable[Iterable[SupportsIndex]],
        config: ReplicateConfig | None = None,
    ) -> list[int]: ...
    def put_from_with_metadata(
        self,
        key: str,
        buffer_ptr: SupportsIndex,
        metadata_buffer_ptr: SupportsIndex,
        size: SupportsIndex,
        metadata_size: SupportsIndex,
        config: ReplicateConfig | None = None,
    ) -> int: ...
    def upsert(self, key: str, value: Buffer, config: ReplicateConfig | None = None) -> int: ...
    def upsert_parts(self, key: str, *parts: Buffer, config: ReplicateConfig | None = None) -> int: ...
    def upsert_batch(
        self, keys: Iterable[str], values: Iterable[Buffer], config: ReplicateConfig | None = None
    ) -> int: ...
    def upsert_from(
        self, key: str, buffer_ptr: SupportsIndex, size: SupportsIndex, config: ReplicateConfig | None = None
    ) -> int: ...
    def batch_upsert_from(
        self,
        keys: Iterable[str],
        buffer_ptrs: Iterable[SupportsIndex],
        sizes: Iterable[SupportsIndex],
        config: ReplicateConfig | None = None,
    ) -> list[int]: ...
    def batch_upsert_from_multi_buffers(
        self,
        keys: Iterable[str],
        all_buffer_ptrs: Iterable[Iterable[SupportsIndex]],
        all_sizes: Iterable[Iterable[SupportsIndex]],
        config: ReplicateConfig | None = None,
    ) -> list[int]: ...
    def batch_put_session_start(
        self, keys: Iterable[str], sizes: Iterable[SupportsIndex], config: ReplicateConfig | None = None
    ) -> list[int]: ...
    def batch_put_from_multi_buffer_ranges(
        self,
        keys: Iterable[str],
        all_buffer_ptrs: Iterable[Iterable[SupportsIndex]],
        all_sizes: Iterable[Iterable[SupportsIndex]],
        all_dst_offsets: Iterable[Iterable[SupportsIndex]],
    ) -> list[int]: ...
    def batch_put_session_end(self, keys: Iterable[str]) -> list[int]: ...
    def batch_put_session_revoke(self, keys: Iterable[str]) -> list[int]: ...

    # Reading

    def get(self, key: str) -> bytes: ...
    def get_batch(self, keys: Iterable[str]) -> list[bytes]: ...
    def get_buffer(self, key: str) -> BufferHandle | None: ...
    def batch_get_buffer(self, keys: Iterable[str]) -> list[BufferHandle | None]: ...
    def get_into(self, key: str, buffer_ptr: SupportsIndex, size: SupportsIndex) -> int: ...
    def batch_get_into(
        self, keys: Iterable[str], buffer_ptrs: Iterable[SupportsIndex], sizes: Iterable[SupportsIndex]
    ) -> list[int]: ...
    def batch_get_into_multi_buffers(
        self,
        keys: Iterable[str],
        all_buffer_ptrs: Iterable[Iterable[SupportsIndex]],
        all_sizes: Iterable[Iterable[SupportsIndex]],
        prefer_alloc_in_same_node: bool = False,
    ) -> list[int]: ...
    def get_into_ranges(
        self,
        buffer_ptrs: Iterable[SupportsIndex],
        all_keys: Iterable[Iterable[str]],
        all_dst_offsets: Iterable[Iterable[Iterable[SupportsIndex]]],
        all_src_offsets: Iterable[Iterable[Iterable[SupportsIndex]]],
        all_sizes: Iterable[Iterable[Iterable[SupportsIndex]]],
    ) -> list[list[list[int]]]: ...
    def prepare_get_into_ranges_snapshot(self, keys: Iterable[str]) -> RangedReadSnapshot: ...
    def get_into_ranges_from_snapshot(
        self,
        snapshot: RangedReadSnapshot,
        buffer_ptrs: Iterable[SupportsIndex],
        all_keys: Iterable[Iterable[str]],
        all_dst_offsets: Iterable[Iterable[Iterable[SupportsIndex]]],
        all_src_offsets: Iterable[Iterable[Iterable[SupportsIndex]]],
        all_sizes: Iterable[Iterable[Iterable[SupportsIndex]]],
    ) -> list[list[list[int]]]: ...
    def begin_weight_snapshot(self, snapshot: object, adapter: object) -> object: ...
    def batch_get_session_start(self, keys: Iterable[str]) -> list[int]: ...
    def batch_get_into_multi_buffer_ranges(
        self,
        keys: Iterable[str],
        all_buffer_ptrs: Iterable[Iterable[SupportsIndex]],
        all_sizes: Iterable[Iterable[SupportsIndex]],
        all_src_offsets: Iterable[Iterable[SupportsIndex]],
    ) -> list[int]: ...
    def batch_get_session_end(self, keys: Iterable[str]) -> int: ...
    def get_replica_desc(self, key: str) -> list[ReplicaDescriptor]: ...
    def batch_get_replica_desc(self, keys: Iterable[str]) -> dict[str, list[ReplicaDescriptor]]: ...
    def query_by_regex(self, regex_pattern: str) -> dict[str, list[ReplicaDescriptor]]: ...
    def _query_page_by_regex(
        self, regex_pattern: str, cursor: int
    ) -> tuple[dict[str, list[ReplicaDescriptor]], int | None]: ...
    def prefetch(self, keys: Iterable[str]) -> list[int]: ...
    def get_offload_rpc_read_count(self) -> int: ...
    def is_exist(self, key: str, options: ExistOptions | None = None) -> int: ...
    def batch_is_exist(self, keys: Iterable[str], options: ExistOptions | None = None) -> list[int]: ...
    def probe_key(self, key: str) -> int: ...
    def batch_probe_key(self, keys: Iterable[str], policy: str = ..., candidate_size: int = ...) -> list[int]: ...
    def batch_prefix_len(self, keys: Iterable[str], lease_from: int = ...) -> int: ...
    def get_size(self, key: str) -> int: ...

    # Removing

    def remove(self, key: str, force: bool = False) -> int: ...
    def batch_remove(self, keys: Iterable[str], force: bool = False) -> list[int]: ...
    def remove_by_regex(self, regex_pattern: str, force: bool = False) -> int: ...
    def remove_all(self, force: bool = False) -> int: ...
    def batch_replica_clear(self, keys: Iterable[str], segment_name: str = "") -> list[str]: ...

    # Background tasks

    def create_copy_task(self, key: str, targets: Iterable[str]) -> tuple[tuple[int, int], int]: ...
    def create_move_task(self, key: str, source: str, target: str) -> tuple[tuple[int, int], int]: ...
    def query_task(self, task_id: tuple[int, int]) -> tuple[QueryTaskResponse | None, int]: ...

    # Segments

    def mount_segment(
        self, path: str, size: SupportsIndex, offset: SupportsIndex = 0, protocol: str = "tcp", location: str = ""
    ) -> dict[str, Any]: ...
    def allocate_and_mount_segment(
        self, size: SupportsIndex, protocol: str = "tcp", location: str = ""
    ) -> dict[str, Any]: ...
    def unmount_segment(self, segment_ids: Iterable[str], grace_period_seconds: SupportsIndex = 0) -> int: ...
    def unmount_and_free_segment(self, segment_ids: Iterable[str], grace_period_seconds: SupportsIndex = 0) -> int: ...
    def unmount_local_disk_segment(self, grace_period_seconds: SupportsIndex = 0) -> int: ...

    # Memory

    def alloc_from_mem_pool(self, size: SupportsIndex) -> int: ...
    def _lend_from_mem_pool(self, size: int) -> _LocalMemory | None: ...
    def _local_buffer_size(self) -> int: ...
    def _copy_out(self, target: int, buffer_ptrs: Iterable[int], sizes: Iterable[int]) -> int: ...
    def register_buffer(self, buffer_ptr: SupportsIndex, size: SupportsIndex) -> int: ...
    def unregister_buffer(self, buffer_ptr: SupportsIndex) -> int: ...
    def _check_registered(self, buffer_ptr: int, size: int) -> int: ...

# mooncake.engine

@final
class TransferNotify:
    def __new__(cls, name: str = "", msg: str = "") -> TransferNotify: ...
    @property
    def name(self) -> str: ...
    @name.setter
    def name(self, value: str) -> None: ...
    @property
    def msg(self) -> str: ...
    @msg.setter
    def msg(self, value: str) -> None: ...

@final
class InnerTransferEngine: ...

@final
class ScatterTransferTicket:
    @property
    def status(self) -> ScatterTransferCompletionStatus: ...
    @property
    def drained(self) -> bool: ...
    def drain(self, timeout_ms: SupportsIndex, /) -> ScatterTransferCompletionStatus: ...

@disjoint_base
class TransferEngine:
    # Set by mooncake.engine.
    TransferOpcode: ClassVar[type[IntEnum]]

    def __new__(cls) -> TransferEngine: ...
    def initialize(self, local_hostname: str, metadata_server: str, protocol: str, device_name: str | None) -> int: ...
    def initialize_ext(
        self,
        local_hostname: str,
        metadata_server: str,
        protocol: str,
        device_name: str | None,
        metadata_type: str,
    ) -> int: ...
    def get_rpc_port(self) -> int: ...
    def get_engine(self) -> InnerTransferEngine | None: ...
    def get_engine_ptr(self) -> int: ...

    # Memory

    def register_memory(
        self,
        buffer_addr: SupportsIndex,
        capacity: SupportsIndex,
        location: str = "*",
        remote_accessible: bool = True,
    ) -> int: ...
    def unregister_memory(self, buffer_addr: SupportsIndex) -> int: ...
    def batch_register_memory(
        self,
        buffer_addresses: Iterable[SupportsIndex],
        capacities: Iterable[SupportsIndex],
        location: str = "*",
    ) -> int: ...
    def batch_unregister_memory(self, buffer_addresses: Iterable[SupportsIndex]) -> int: ...
    def allocate_managed_buffer(self, length: SupportsIndex) -> int: ...
    def free_managed_buffer(self, buffer_addr: SupportsIndex, length: SupportsIndex) -> int: ...
    def write_bytes_to_buffer(
        self, dest_address: SupportsIndex, src_ptr: Buffer | str, length: SupportsIndex
    ) -> int: ...
    def read_bytes_from_buffer(self, source_address: SupportsIndex, length: SupportsIndex) -> bytes: ...

    # Transfers

    def transfer_sync_write(
        self,
        target_hostname: str,
        buffer: SupportsIndex,
        peer_buffer_address: SupportsIndex,
        length: SupportsIndex,
        transport_hint: str = "",
        nic_hint: str = "",
    ) -> int: ...
    def transfer_sync_read(
        self,
        target_hostname: str,
        buffer: SupportsIndex,
        peer_buffer_address: SupportsIndex,
        length: SupportsIndex,
        transport_hint: str = "",
        nic_hint: str = "",
    ) -> int: ...
    def batch_transfer_sync_write(
        self,
        target_hostname: str,
        buffers: Iterable[SupportsIndex],
        peer_buffer_addresses: Iterable[SupportsIndex],
        lengths: Iterable[SupportsIndex],
        transport_hint: str = "",
        nic_hint: str = "",
    ) -> int: ...
    def batch_transfer_sync_read(
        self,
        target_hostname: str,
        buffers: Iterable[SupportsIndex],
        peer_buffer_addresses: Iterable[SupportsIndex],
        lengths: Iterable[SupportsIndex],
        transport_hint: str = "",
        nic_hint: str = "",
    ) -> int: ...
    def transfer_sync(
        self,
        target_hostname: str,
        buffer: SupportsIndex,
        peer_buffer_address: SupportsIndex,
        length: SupportsIndex,
        opcode: SupportsIndex,
        notify: TransferNotify | None = None,
        transport_hint: str = "",
        nic_hint: str = "",
    ) -> int: ...
    def batch_transfer_sync(
        self,
        target_hostname: str,
        buffers: Iterable[SupportsIndex],
        peer_buffer_addresses: Iterable[SupportsIndex],
        lengths: Iterable[SupportsIndex],
        opcode: SupportsIndex,
        notify: TransferNotify | None = None,
        transport_hint: str = "",
        nic_hint: str = "",
    ) -> int: ...
    def transfer_submit_write(
        self,
        target_hostname: str,
        buffer: SupportsIndex,
        peer_buffer_address: SupportsIndex,
        length: SupportsIndex,
        transport_hint: str = "",
        nic_hint: str = "",
    ) -> int: ...
    def batch_transfer_async_write(
        self,
        target_hostname: str,
        buffers: Iterable[SupportsIndex],
        peer_buffer_addresses: Iterable[SupportsIndex],
        lengths: Iterable[SupportsIndex],
        transport_hint: str = "",
        nic_hint: str = "",
    ) -> int: ...
    def batch_transfer_async_read(
        self,
        target_hostname: str,
        buffers: Iterable[SupportsIndex],
        peer_buffer_addresses: Iterable[SupportsIndex],
        lengths: Iterable[SupportsIndex],
        transport_hint: str = "",
        nic_hint: str = "",
    ) -> int: ...
    def batch_transfer_async(
        self,
        target_hostname: str,
        buffers: Iterable[SupportsIndex],
        peer_buffer_addresses: Iterable[SupportsIndex],
        lengths: Iterable[SupportsIndex],
        opcode: SupportsIndex,
        transport_hint: str = "",
        nic_hint: str = "",
    ) -> int: ...
    def batch_transfer_sync_write_arrays(
        self,
        target_hostname: str,
        buffers: Buffer,
        peer_buffer_addresses: Buffer,
        lengths: Buffer,
        transport_hint: str = "",
        nic_hint: str = "",
    ) -> int: ...
    def batch_transfer_sync_read_arrays(
        self,
        target_hostname: str,
        buffers: Buffer,
        peer_buffer_addresses: Buffer,
        lengths: Buffer,
        transport_hint: str = "",
        nic_hint: str = "",
    ) -> int: ...
    def batch_transfer_async_write_arrays(
        self,
        target_hostname: str,
        buffers: Buffer,
        peer_buffer_addresses: Buffer,
        lengths: Buffer,
        transport_hint: str = "",
        nic_hint: str = "",
    ) -> int: ...
    def batch_transfer_async_read_arrays(
        self,
        target_hostname: str,
        buffers: Buffer,
        peer_buffer_addresses: Buffer,
        lengths: Buffer,
        transport_hint: str = "",
        nic_hint: str = "",
    ) -> int: ...
    def batch_transfer_sync_write_pages(
        self,
        target_hostname: str,
        src_pages: Buffer,
        dst_pages: Buffer,
        fields: Buffer,
        max_batch_size: SupportsIndex = 0,
        transport_hint: str = "",
        nic_hint: str = "",
    ) -> int: ...
    def batch_transfer_sync_read_pages(
        self,
        target_hostname: str,
        src_pages: Buffer,
        dst_pages: Buffer,
        fields: Buffer,
        max_batch_size: SupportsIndex = 0,
        transport_hint: str = "",
        nic_hint: str = "",
    ) -> int: ...
    def submit_scatter_write(
        self,
        endpoint: str,
        local_base_addresses: Iterable[SupportsIndex],
        local_capacities: Iterable[SupportsIndex],
        remote_base_addresses: Iterable[SupportsIndex],
        remote_capacities: Iterable[SupportsIndex],
        local_offsets: Iterable[Iterable[SupportsIndex]],
        remote_offsets: Iterable[Iterable[SupportsIndex]],
        lengths: Iterable[Iterable[SupportsIndex]],
    ) -> ScatterTransferTicket: ...
    def submit_scatter_read(
        self,
        endpoint: str,
        local_base_addresses: Iterable[SupportsIndex],
        local_capacities: Iterable[SupportsIndex],
        remote_base_addresses: Iterable[SupportsIndex],
        remote_capacities: Iterable[SupportsIndex],
        local_offsets: Iterable[Iterable[SupportsIndex]],
        remote_offsets: Iterable[Iterable[SupportsIndex]],
        lengths: Iterable[Iterable[SupportsIndex]],
    ) -> ScatterTransferTicket: ...
    def scatter_transfer_sync_write_with_ticket(
        self,
        endpoint: str,
        local_base_addresses: Iterable[SupportsIndex],
        local_capacities: Iterable[SupportsIndex],
        remote_base_addresses: Iterable[SupportsIndex],
        remote_capacities: Iterable[SupportsIndex],
        local_offsets: Iterable[Iterable[SupportsIndex]],
        remote_offsets: Iterable[Iterable[SupportsIndex]],
        lengths: Iterable[Iterable[SupportsIndex]],
    ) -> ScatterTransferTicket: ...
    def scatter_transfer_sync_read_with_ticket(
        self,
        endpoint: str,
        local_base_addresses: Iterable[SupportsIndex],
        local_capacities: Iterable[SupportsIndex],
        remote_base_addresses: Iterable[SupportsIndex],
        remote_capacities: Iterable[SupportsIndex],
        local_offsets: Iterable[Iterable[SupportsIndex]],
        remote_offsets: Iterable[Iterable[SupportsIndex]],
        lengths: Iterable[Iterable[SupportsIndex]],
    ) -> ScatterTransferTicket: ...
    def transfer_write_on_cuda(
        self,
        target_hostname: str,
        buffer: SupportsIndex,
        peer_buffer_address: SupportsIndex,
        length: SupportsIndex,
        stream_ptr: SupportsIndex = 0,
        transport_hint: str = "",
        nic_hint: str = "",
    ) -> None: ...
    def batch_transfer_write_on_cuda(
        self,
        target_hostname: str,
        buffers: Iterable[SupportsIndex],
        peer_buffer_addresses: Iterable[SupportsIndex],
        lengths: Iterable[SupportsIndex],
        stream_ptr: SupportsIndex = 0,
        transport_hint: str = "",
        nic_hint: str = "",
    ) -> None: ...
    def transfer_read_on_cuda(
        self,
        target_hostname: str,
        buffer: SupportsIndex,
        peer_buffer_address: SupportsIndex,
        length: SupportsIndex,
        stream_ptr: SupportsIndex = 0,
        transport_hint: str = "",
        nic_hint: str = "",
    ) -> None: ...
    def batch_transfer_read_on_cuda(
        self,
        target_hostname: str,
        buffers: Iterable[SupportsIndex],
        peer_buffer_addresses: Iterable[SupportsIndex],
        lengths: Iterable[SupportsIndex],
        stream_ptr: SupportsIndex = 0,
        transport_hint: str = "",
        nic_hint: str = "",
    ) -> None: ...
    def transfer_check_status(self, batch_id: SupportsIndex) -> int: ...
    def get_batch_transfer_status(self, batch_ids: Iterable[SupportsIndex]) -> int: ...

    # Peers

    def get_first_buffer_address(self, segment_name: str) -> int: ...
    def send_probe(self, peer_server_name: str) -> int: ...
    def get_notifies(self) -> list[TransferNotify]: ...
    def get_local_topology(self, device_name: str | None = None) -> str: ...
    def warmup_efa_segment(self, segment_name: str) -> int: ...
