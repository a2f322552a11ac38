"""`MooncakeBundleTransfer`, the class that callers use: bundles, structured objects and batches over one store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

from mooncake._values.structured import batch, gather, lease
from mooncake._values.structured.bundle import BundleRef, BundleStore, Transport
from mooncake._values.structured.gather import Selection
from mooncake._values.structured.manifest import RemoteBundleRef, checked_prefix
from mooncake._values.structured.members import Members
from mooncake._values.structured.policy import (
    DEFAULT_BUNDLE_CHUNK_BYTES,
    BundleTransferPolicy,
    checked,
    checked_chunk_bytes,
)
from mooncake._values.structured.refs import DataProtoRefLike, MooncakeDataProtoRef, resolved
from mooncake._values.structured.schema import FieldSchema
from mooncake._values.structured.spec import (
    StructuredMemberSlice,
    StructuredObjectPayload,
    StructuredObjectReadSpec,
    StructuredObjectResult,
)
from mooncake._values.structured.stage import Destination, append_stage, put_object, put_stage
from mooncake._values.structured.steps import Steps

_WRAPPED = "__mooncake_wrapped_object__"

Rows: TypeAlias = slice | StructuredMemberSlice | Sequence[int] | None
PayloadType: TypeAlias = Literal["dataproto", "dict"]


class StoreCalls(Protocol):
    """The methods that a store must have. Faster methods of `MooncakeDistributedStore` are used if it has them."""

    def put(self, key: str, value: Any, config: Any = None) -> int: ...

    def get(self, key: str) -> bytes: ...

    def remove(self, key: str, force: bool = False) -> int: ...


class MooncakeBundleTransfer:
    """Stores structured objects under `key_prefix`, in chunks of at most `default_chunk_bytes` bytes.

    With a `buffer_pool`, bytes are written from leased memory, and arrays are read into leased memory. Arrays keep
    their lease until `release_result`, or until they are collected.

    Methods that take `chunk_bytes`, `policy` and `max_inflight_put` let one call override how it writes. `config` is a
    `ReplicateConfig`; its `group_ids` may hold one group id.
    """

    def __init__(
        self,
        store: StoreCalls,
        key_prefix: str = "bundle",
        default_chunk_bytes: int = DEFAULT_BUNDLE_CHUNK_BYTES,
        buffer_pool: Any = None,
        *,
        steps: Steps | None = None,
    ) -> None:
        """Raises ValueError for an empty prefix, or chunks that are not longer than 0 bytes."""
        self.store = store
        self.key_prefix = checked_prefix(key_prefix)
        self.default_chunk_bytes = checked_chunk_bytes(default_chunk_bytes)
        self._transport = Transport(store, buffer_pool, steps or Steps())
        self._bundle_store = BundleStore(self._transport, self.key_prefix, self.default_chunk_bytes)

    def put_bundle(
        self,
        meta: bytes | bytearray | memoryview,
        buffers: Mapping[str, Any],
        partition: str = "default",
        chunk_bytes: int | None = None,
        policy: BundleTransferPolicy | None = None,
        max_inflight_put: int | None = None,
        config: Any = None,
    ) -> RemoteBundleRef:
        """Stores named buffers, and `meta`, some bytes of metadata. Returns a reference to the bundle.

        Raises ValueError for names that cannot be part of a key, and TypeError for a value that is no buffer. Raises
        RuntimeError if the store refuses a part. It then has removed what it stored.
        """
        return self._bundle_store.put_bundle(
            meta,
            buffers,
            partition=partition,
            chunk_bytes=chunk_bytes,
            policy=checked(policy, max_inflight_put),
            config=config,
        )

    def remove_bundle(self, ref: BundleRef) -> None:
        """Removes a bundle. Raises ValueError if its manifest is missing or damaged, and RuntimeError if the store
        keeps a key.
        """
        self._bundle_store.remove_bundle(ref)

    def put_structured_object(
        self,
        payload: StructuredObjectPayload,
        partition: str = "default",
        chunk_bytes: int | None = None,
        policy: BundleTransferPolicy | None = None,
        max_inflight_put: int | None = None,
        config: Any = None,
    ) -> RemoteBundleRef:
        """Stores metadata and named members: arrays, tensors or bytes. Returns a reference. Raises as `put_bundle`."""
        to = Destination("", partition, "", chunk_bytes, checked(policy, max_inflight_put), config)
        return put_object(self._bundle_store, payload, to)

    def put_object(
        self,
        obj: Any,
        partition: str = "default",
        chunk_bytes: int | None = None,
        policy: BundleTransferPolicy | None = None,
        max_inflight_put: int | None = None,
        config: Any = None,
    ) -> RemoteBundleRef:
        """Stores a mapping of members, or a single array, tensor or bytes object. Returns a reference. Raises as
        `put_bundle`.
        """
        if isinstance(obj, Mapping):
            payload = StructuredObjectPayload(buffers=obj)
        else:
            payload = StructuredObjectPayload(metadata={_WRAPPED: True}, buffers={"value": obj})
        return self.put_structured_object(payload, partition, chunk_bytes, policy, max_inflight_put, config)

    def get_object(self, ref: BundleRef) -> Any:
        """Reads the object that `put_object` stored. Raises as `materialize`."""
        result = self.materialize(self.read_spec(ref))
        return result.objects["value"] if result.metadata.get(_WRAPPED) else result.objects

    def read_spec(self, ref: BundleRef) -> StructuredObjectReadSpec:
        """A specification that reads all of a structured object. Its methods select parts. Reads nothing itself."""
        return StructuredObjectReadSpec(ref=ref)

    def materialize(self, spec: StructuredObjectReadSpec) -> StructuredObjectResult:
        """Reads the members and rows that the specification selects.

        Bytes are returned as a `uint8` array; for stores without registered memory, as `bytes`. Raises KeyError for
        unknown members, and ValueError for damaged data and members that cannot be sliced. Raises RuntimeError if the
        store does not deliver all bytes.
        """
        return self.materialize_into(spec, None)

    def materialize_into(
        self, spec: StructuredObjectReadSpec, destinations: Mapping[str, Any] | None
    ) -> StructuredObjectResult:
        """As `materialize`. Members in `destinations` are read into the caller's arrays or memory: an ndarray,
        `raw_destination` or `tensor_object_buffer`.
        """
        if spec.member_names is not None and not spec.member_names:
            raise ValueError("structured read spec selected no members")
        members = Members(self._bundle_store, spec.ref)
        into, slices = destinations or {}, dict(spec.member_slices)
        names = members.names(spec.member_names)
        objects = {name: members.read(name, slices.get(name), into.get(name)) for name in names}
        return StructuredObjectResult(metadata=dict(members.metadata), objects=objects)

    @staticmethod
    def release_result(result: Any) -> None:
        """Returns the leased memory of a result at once. None of its arrays may be used afterwards."""
        lease.release_result(result)

    def put(
        self,
        data: Any,
        *,
        type: PayloadType = "dataproto",  # noqa: A002 - the name that callers use
        namespace: str = "default",
        partition: str = "default",
        stage: str = "default",
        chunk_bytes: int | None = None,
        policy: BundleTransferPolicy | None = None,
        config: Any = None,
        field_schemas: Mapping[str, FieldSchema] | None = None,
    ) -> MooncakeDataProtoRef:
        """Stores a batch. Type "dataproto" takes an object or a dict with sections, "dict" takes a flat dict. Returns
        a handle.

        Raises ValueError or TypeError for fields that cannot be stored, and RuntimeError if the store refuses a part.
        """
        if _checked_type(type) == "dict":
            data = batch.from_flat(data, field_schemas)
        to = Destination(namespace, partition, stage, chunk_bytes, policy, config)
        return put_stage(self._bundle_store, batch.split(data, field_schemas), to, field_schemas)

    def get(
        self,
        ref: DataProtoRefLike,
        *,
        type: PayloadType = "dataproto",  # noqa: A002 - the name that callers use
        fields: Sequence[str] | None = None,
        batch_fields: Sequence[str] | None = None,
        non_tensor_fields: Sequence[str] | None = None,
        meta_info_keys: Sequence[str] | None = None,
        data_cls: Any = None,
        destinations: Mapping[str, Any] | None = None,
        rows: Rows = None,
    ) -> Any:
        """Reads the selected fields and rows of a batch: with sections, or, for type "dict", as a flat dict.

        Raises KeyError for unknown fields and IndexError for rows out of range. Raises ValueError for damaged data,
        and for a field in two sections of a flat dict. Raises RuntimeError if the store does not deliver all bytes.
        """
        wanted = Selection(fields, batch_fields, non_tensor_fields, meta_info_keys, rows, destinations or {})
        is_flat = _checked_type(type) == "dict"
        sections = gather.read_batch(self._bundle_store, resolved(ref), wanted)
        return batch.to_flat(sections) if is_flat else batch.built(sections, data_cls)

    def put_dataproto(
        self,
        data: Any,
        *,
        namespace: str = "default",
        partition: str = "default",
        stage: str = "default",
        chunk_bytes: int | None = None,
        policy: BundleTransferPolicy | None = None,
        field_schemas: Mapping[str, FieldSchema] | None = None,
        config: Any = None,
    ) -> MooncakeDataProtoRef:
        """Stores an object or a dict with sections, as `put`."""
        to = Destination(namespace, partition, stage, chunk_bytes, policy, config)
        return put_stage(self._bundle_store, batch.split(data, field_schemas), to, field_schemas)

    def append_dataproto_fields(
        self,
        ref: DataProtoRefLike,
        data: Any,
        *,
        stage: str,
        overwrite: bool = False,
        chunk_bytes: int | None = None,
        policy: BundleTransferPolicy | None = None,
        field_schemas: Mapping[str, FieldSchema] | None = None,
        config: Any = None,
    ) -> MooncakeDataProtoRef:
        """Adds fields to a batch as a stage. Returns the new handle. The old handle stays valid, unless its stage was
        overwritten.

        Raises as `put`; also ValueError for fields that exist already, and for fields that `overwrite` would lose.
        """
        old = resolved(ref)
        to = Destination(old.namespace, old.partition, stage, chunk_bytes, policy, config)
        fields = batch.split(data, field_schemas)
        return append_stage(self._bundle_store, old, fields, to, field_schemas, overwrite=overwrite)

    def dataproto_manifest_view(self, ref: DataProtoRefLike) -> dict[str, Any]:
        """Types, shapes and places of the fields, from the manifests. Raises ValueError if a manifest is damaged."""
        return gather.manifest_view(self._bundle_store, resolved(ref))

    def get_dataproto(
        self,
        ref: DataProtoRefLike,
        *,
        fields: Sequence[str] | None = None,
        batch_fields: Sequence[str] | None = None,
        non_tensor_fields: Sequence[str] | None = None,
        meta_info_keys: Sequence[str] | None = None,
        data_cls: Any = None,
        destinations: Mapping[str, Any] | None = None,
        rows: Rows = None,
    ) -> Any:
        """Reads the selected fields and rows, with sections, as `get`."""
        wanted = Selection(fields, batch_fields, non_tensor_fields, meta_info_keys, rows, destinations or {})
        return batch.built(gather.read_batch(self._bundle_store, resolved(ref), wanted), data_cls)

    def cleanup_dataproto(self, ref: DataProtoRefLike) -> None:
        """Removes all stages of a batch. Raises as `remove_bundle`."""
        bundles = {bundle.manifest_key: bundle for bundle in resolved(ref).stage_refs.values()}
        for bundle in bundles.values():
            self.remove_bundle(bundle)


def _checked_type(payload_type: str) -> str:
    if payload_type not in ("dataproto", "dict"):
        raise ValueError(f"unsupported Mooncake payload type: {payload_type!r}")
    return payload_type
