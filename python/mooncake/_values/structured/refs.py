"""Handles of batches: their stages, the places of their fields, and the JSON form for other processes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from mooncake._values.structured.manifest import RemoteBundleRef

DATAPROTO_REF_HANDLE_TYPE = "mooncake_dataproto_ref"
DATAPROTO_REF_HANDLE_VERSION = 1
# Handles of version 2 must have a storage group; otherwise they equal version 1.
_GROUPED_VERSION = 2
_KIND = "bundle_stages"
STORAGE_GROUP_ID = "storage_group_id"

Section: TypeAlias = Literal["batch", "non_tensor_batch"]


@dataclass(frozen=True)
class StructuredFieldLocation:
    """The place of a field: its stage, its member and its section."""

    stage: str
    member: str
    section: Section


@dataclass
class MooncakeDataProtoRef:
    """A handle of a batch of `batch_size` rows. The manifests of its stages hold the types and shapes of its fields."""

    batch_size: int
    stage_refs: dict[str, RemoteBundleRef]
    field_index: dict[str, StructuredFieldLocation]
    meta_info: dict[str, Any]
    namespace: str = "default"
    partition: str = "default"
    global_indexes: list[int] | None = None
    encoded_non_tensor: dict[str, Any] = field(default_factory=dict)
    _storage_group_id: str | None = field(default=None, repr=False)


DataProtoRefLike: TypeAlias = MooncakeDataProtoRef | Mapping[str, Any]


def is_dataproto_ref_handle(value: Any) -> bool:
    """Whether the value is a handle of `export_dataproto_ref`."""
    return isinstance(value, Mapping) and value.get("type") == DATAPROTO_REF_HANDLE_TYPE


def export_dataproto_ref(ref: MooncakeDataProtoRef) -> dict[str, Any]:
    """The handle of a batch as a dict for JSON. Raises TypeError for another argument, and for values that JSON cannot
    hold.
    """
    if not isinstance(ref, MooncakeDataProtoRef):
        raise TypeError(f"expected MooncakeDataProtoRef, got {type(ref).__name__}")
    handle = {
        "type": DATAPROTO_REF_HANDLE_TYPE,
        "version": DATAPROTO_REF_HANDLE_VERSION,
        "kind": _KIND,
        "batch_size": int(ref.batch_size),
        "namespace": ref.namespace,
        "partition": ref.partition,
        "global_indexes": _json_safe(ref.global_indexes),
        "stage_refs": {stage: {"manifest_key": bundle.manifest_key} for stage, bundle in ref.stage_refs.items()},
        "field_index": {
            name: {"stage": location.stage, "member": location.member, "section": location.section}
            for name, location in ref.field_index.items()
        },
        "meta_info": _json_safe(ref.meta_info),
        "encoded_non_tensor": _json_safe(ref.encoded_non_tensor),
    }
    if ref._storage_group_id is not None:
        handle[STORAGE_GROUP_ID] = ref._storage_group_id
    json.dumps(handle)
    return handle


def import_dataproto_ref(handle: Mapping[str, Any]) -> MooncakeDataProtoRef:
    """The batch of a handle. Its manifests are read later, when they are needed. Raises ValueError if the handle is
    damaged.
    """
    if not is_dataproto_ref_handle(handle):
        raise ValueError("not a Mooncake DataProto ref handle")
    version = handle.get("version")
    if version not in (DATAPROTO_REF_HANDLE_VERSION, _GROUPED_VERSION):
        raise ValueError(f"unsupported DataProto ref handle version: {version!r}")
    if handle.get("kind") != _KIND:
        raise ValueError(f"unsupported DataProto ref handle kind: {handle.get('kind')!r}")
    group_id = handle.get(STORAGE_GROUP_ID)
    if (group_id is None and version == _GROUPED_VERSION) or (group_id is not None and not _is_text(group_id)):
        raise ValueError("DataProto ref handle has invalid storage_group_id")
    stage_refs = _stages(_mapping(handle, "stage_refs"))
    return MooncakeDataProtoRef(
        batch_size=_batch_size(handle.get("batch_size")),
        stage_refs=stage_refs,
        field_index={name: _location(name, raw, stage_refs) for name, raw in _mapping(handle, "field_index").items()},
        meta_info=dict(_mapping(handle, "meta_info", {})),
        namespace=str(handle.get("namespace", "default")),
        partition=str(handle.get("partition", "default")),
        global_indexes=_indexes(handle.get("global_indexes")),
        encoded_non_tensor=dict(_mapping(handle, "encoded_non_tensor", {})),
        _storage_group_id=group_id,
    )


def resolved(ref: DataProtoRefLike) -> MooncakeDataProtoRef:
    """The batch of a ref or of a handle. Raises TypeError for anything else."""
    if isinstance(ref, MooncakeDataProtoRef):
        return ref
    if is_dataproto_ref_handle(ref):
        return import_dataproto_ref(ref)
    raise TypeError(f"expected MooncakeDataProtoRef or DataProto handle, got {type(ref).__name__}")


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _mapping(handle: Mapping[str, Any], name: str, default: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
    value = handle.get(name, default)
    if not isinstance(value, Mapping):
        raise ValueError(f"DataProto ref handle {name} must be a mapping")
    return value


def _stages(raw: Mapping[str, Any]) -> dict[str, RemoteBundleRef]:
    stages = {}
    for stage in raw:
        key = _mapping(raw, stage).get("manifest_key")
        if not _is_text(stage) or not isinstance(key, str) or not key:
            raise ValueError(
                "DataProto ref handle stage refs must contain non-empty string names and manifest_key values"
            )
        stages[stage] = RemoteBundleRef(manifest_key=key)
    return stages


def _location(name: str, raw: Any, stages: Mapping[str, RemoteBundleRef]) -> StructuredFieldLocation:
    if not isinstance(raw, Mapping):
        raise ValueError(f"DataProto ref handle field_index[{name!r}] must be a mapping")
    stage, member, section = raw.get("stage"), raw.get("member"), raw.get("section")
    if section not in ("batch", "non_tensor_batch"):
        raise ValueError(f"invalid DataProto field section: {section!r}")
    if not isinstance(stage, str) or not isinstance(member, str) or not (_is_text(name) and stage and member):
        raise ValueError("DataProto ref handle field locations must be non-empty strings")
    if stage not in stages:
        raise ValueError(f"DataProto ref handle field {name!r} references unknown stage {stage!r}")
    return StructuredFieldLocation(stage=stage, member=member, section=section)


def _batch_size(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"DataProto ref handle batch_size must be a whole number, not {value!r}")
    return value


def _indexes(value: Any) -> list[int] | None:
    if value is not None and not isinstance(value, list):
        raise ValueError("DataProto ref handle global_indexes must be a list or null")
    if not all(type(index) is int for index in value or ()):
        raise ValueError("DataProto ref handle global_indexes must contain integers")
    return None if value is None else list(value)


def _json_safe(value: Any) -> Any:
    """The value in a form that JSON can hold; NumPy arrays and scalars as lists and numbers. Raises TypeError for
    other values.
    """
    if value is None or type(value) in (str, int, float, bool):
        return value
    if isinstance(value, Mapping):
        return {str(key): _json_safe(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_safe(item) for item in value]
    # Checked by name, so that NumPy need not be imported.
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        return _json_safe(value.tolist())
    if isinstance(value, (str, int, float)):
        return value
    raise TypeError(f"DataProto ref handles support only JSON-safe values, got {type(value).__name__}")
