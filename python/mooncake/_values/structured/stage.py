"""Writes batches. Each stage is one structured object. A later stage of the same name is merged into the first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from mooncake._values.structured.array import np
from mooncake._values.structured.batch import Batch, as_column
from mooncake._values.structured.bundle import BundleStore
from mooncake._values.structured.codec import ENCODING_ERRORS, encode_values, encode_with_schema
from mooncake._values.structured.column import EncodedColumn
from mooncake._values.structured.field import encode_fields, merged_metadata
from mooncake._values.structured.manifest import RemoteBundleRef, encode_json
from mooncake._values.structured.members import Members
from mooncake._values.structured.policy import BundleTransferPolicy
from mooncake._values.structured.refs import MooncakeDataProtoRef, StructuredFieldLocation
from mooncake._values.structured.schema import FieldSchema, schema_for
from mooncake._values.structured.spec import StructuredObjectPayload
from mooncake._values.structured.write_config import config_in_group, new_group_id


@dataclass(frozen=True)
class Destination:
    """The place of a stage, and how to write it."""

    namespace: str
    partition: str
    stage: str
    chunk_bytes: int | None = None
    policy: BundleTransferPolicy | None = None
    config: Any = None


@dataclass
class _Fields:
    """The members of a stage, the places of its fields in them, and the codecs of encoded fields."""

    buffers: dict[str, Any] = field(default_factory=dict)
    index: dict[str, StructuredFieldLocation] = field(default_factory=dict)
    encoded: dict[str, Any] = field(default_factory=dict)


def put_object(bundles: BundleStore, payload: StructuredObjectPayload, to: Destination) -> RemoteBundleRef:
    """Stores one structured object. Raises as `encode_fields` and `BundleStore.put_bundle`."""
    metadata, buffers = encode_fields(payload.metadata, payload.buffers, has_codec=bundles.has_tensor_codec())
    return bundles.put_bundle(
        encode_json(metadata, "structured metadata"),
        buffers,
        partition=to.partition,
        chunk_bytes=to.chunk_bytes,
        policy=to.policy,
        config=to.config,
    )


def put_stage(
    bundles: BundleStore, batch: Batch, to: Destination, schemas: Mapping[str, FieldSchema] | None
) -> MooncakeDataProtoRef:
    """Stores a batch with this one stage. Writes nothing if the batch has no fields."""
    fields = _encoded_fields(batch, to.stage, schemas)
    group_id = new_group_id(to.config)
    ref = MooncakeDataProtoRef(
        batch_size=batch.size,
        stage_refs={},
        field_index={},
        meta_info=dict(batch.meta_info),
        namespace=to.namespace,
        partition=to.partition,
        _storage_group_id=group_id,
    )
    if not fields.buffers:
        return ref
    to = replace(to, config=config_in_group(to.config, group_id))
    stage_ref = put_object(bundles, _stage_payload(batch, fields, to), to)
    return replace(ref, stage_refs={to.stage: stage_ref}, field_index=fields.index, encoded_non_tensor=fields.encoded)


def append_stage(
    bundles: BundleStore,
    ref: MooncakeDataProtoRef,
    batch: Batch,
    to: Destination,
    schemas: Mapping[str, FieldSchema] | None,
    *,
    overwrite: bool,
) -> MooncakeDataProtoRef:
    """Adds fields to a batch. With `overwrite`, they replace all fields of the stage.

    Raises ValueError for another number of rows, for fields that exist already without `overwrite`, and for fields
    that `overwrite` would lose.
    """
    if batch.size != ref.batch_size and (batch.batch or batch.non_tensor_batch):
        raise ValueError(f"DataProto append batch size {batch.size} does not match ref batch size {ref.batch_size}")
    fields = _encoded_fields(batch, to.stage, schemas)
    ref = replace(ref, meta_info={**ref.meta_info, **batch.meta_info})
    if not fields.buffers:
        return ref
    _check_new_fields(ref, fields, to.stage, overwrite)
    to = replace(to, config=config_in_group(to.config, ref._storage_group_id))
    stage_ref = _put_over(bundles, ref.stage_refs.get(to.stage), _stage_payload(batch, fields, to), to, overwrite)
    kept = {name: encoded for name, encoded in ref.encoded_non_tensor.items() if name not in fields.index}
    return replace(
        ref,
        stage_refs={**ref.stage_refs, to.stage: stage_ref},
        field_index={**ref.field_index, **fields.index},
        encoded_non_tensor={**kept, **fields.encoded},
    )


def _encoded_fields(batch: Batch, stage: str, schemas: Mapping[str, FieldSchema] | None) -> _Fields:
    fields = _Fields()
    for name, value in batch.batch.items():
        fields.index[name] = StructuredFieldLocation(stage, f"batch.{name}", "batch")
        fields.buffers[f"batch.{name}"] = value
    for name, value in batch.non_tensor_batch.items():
        member = f"non_tensor_batch.{name}"
        fields.index[name] = StructuredFieldLocation(stage, member, "non_tensor_batch")
        column = _encoded_column(name, member, value, schema_for(schemas, name, "non_tensor_batch"))
        if column is None:
            fields.buffers[member] = value
            continue
        parts = {part: f"{member}.{part}" for part in column.payload}
        fields.buffers |= {parts[part]: content for part, content in column.payload.items()}
        about = {"codec": column.codec, "rows": column.rows, "metadata": column.metadata}
        fields.encoded[name] = {**about, "payload_members": parts}
    return fields


def _encoded_column(name: str, path: str, value: Any, schema: FieldSchema | None) -> EncodedColumn | None:
    """Encodes a field with a schema or with Python objects. None for a field that is stored as it is."""
    if schema is not None:
        try:
            column = as_column(name, value)
            if schema.codec != "auto":
                return encode_with_schema(path, column, schema)
            schema.check_nulls(path, column)
        except (*ENCODING_ERRORS, AttributeError) as error:
            message = f"failed to encode {path} (field {name!r}) with FieldSchema codec {schema.codec!r}: {error}"
            kind = type(error) if type(error) in (*ENCODING_ERRORS, AttributeError) else ValueError
            raise kind(message) from error
    is_objects = isinstance(value, np.ndarray) and value.dtype == object
    return encode_values(path, list(value)) if is_objects else None


def _stage_payload(batch: Batch, fields: _Fields, to: Destination) -> StructuredObjectPayload:
    about = {"version": 1, "namespace": to.namespace, "partition": to.partition, "stage": to.stage}
    metadata = {"layout": "dataproto_stage", "dataproto": {**about, "batch_size": batch.size}}
    return StructuredObjectPayload(metadata=metadata, buffers=fields.buffers)


def _check_new_fields(ref: MooncakeDataProtoRef, fields: _Fields, stage: str, overwrite: bool) -> None:
    duplicates = sorted(ref.field_index.keys() & fields.index.keys())
    if duplicates and not overwrite:
        raise ValueError(f"DataProto fields already exist: {duplicates}")
    if not overwrite:
        return
    lost = [name for name, location in ref.field_index.items() if location.stage == stage and name not in fields.index]
    if lost:
        raise ValueError(f"DataProto overwrite for stage {stage!r} must include existing fields: {sorted(lost)}")


def _put_over(
    bundles: BundleStore,
    old: RemoteBundleRef | None,
    payload: StructuredObjectPayload,
    to: Destination,
    overwrite: bool,
) -> RemoteBundleRef:
    new = put_object(bundles, payload, to)
    if old is None:
        return new
    if overwrite:
        bundles.remove_bundle(old)
        return new
    try:
        return _merged(bundles, old, new, to)
    except BaseException:
        bundles.remove_bundle(new)
        raise


def _merged(bundles: BundleStore, old: RemoteBundleRef, new: RemoteBundleRef, to: Destination) -> RemoteBundleRef:
    """Stores a manifest with the members of both. The old manifest stays, because other handles may use it; removing
    the new one removes both.
    """
    before, after = Members(bundles, old), Members(bundles, new)
    collisions = sorted(before.payloads.keys() & after.payloads.keys())
    if collisions:
        raise ValueError(f"structured members already exist: {collisions}")
    old_keys = [bundles.manifest_key(old), *bundles.payload_keys(before.manifest["meta"])]
    new_keys = [bundles.manifest_key(new), *bundles.payload_keys(after.manifest["meta"])]
    merged = bundles.put_bundle_manifest(
        encode_json(merged_metadata(before.metadata, after.metadata), "structured metadata"),
        {**before.payloads, **after.payloads},
        partition=to.partition,
        chunk_bytes=to.chunk_bytes,
        policy=to.policy,
        cleanup_keys=[*before.manifest.get("cleanup_keys", []), *old_keys, *new_keys],
        config=to.config,
    )
    bundles.remove_keys(new_keys, strict=False)
    return merged
