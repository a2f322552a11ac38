"""Reads batches: the requested fields, stage by stage, and a view of the manifests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mooncake._values.structured.array import object_array
from mooncake._values.structured.bundle import BundleStore
from mooncake._values.structured.codec import decode_column
from mooncake._values.structured.column_rows import read_column
from mooncake._values.structured.members import Members
from mooncake._values.structured.refs import MooncakeDataProtoRef
from mooncake._values.structured.spec import selected_rows


@dataclass(frozen=True)
class Selection:
    """The requested fields, rows and keys of `meta_info`. None means all."""

    fields: Sequence[str] | None = None
    batch_fields: Sequence[str] | None = None
    non_tensor_fields: Sequence[str] | None = None
    meta_info_keys: Sequence[str] | None = None
    rows: Any = None
    destinations: Mapping[str, Any] = field(default_factory=dict)

    def names(self, ref: MooncakeDataProtoRef) -> list[str]:
        """The requested fields. Raises ValueError if they are given in two ways, and KeyError for unknown fields."""
        if self.batch_fields is None and self.non_tensor_fields is None:
            wanted = list(ref.field_index) if self.fields is None else list(self.fields)
        elif self.fields is None:
            wanted = [*(self.batch_fields or ()), *(self.non_tensor_fields or ())]
        else:
            raise ValueError("fields cannot be combined with batch_fields or non_tensor_fields")
        missing = [name for name in wanted if name not in ref.field_index]
        if missing:
            raise KeyError(f"unknown DataProto fields: {missing}")
        return wanted


def read_batch(bundles: BundleStore, ref: MooncakeDataProtoRef, wanted: Selection) -> dict[str, dict[str, Any]]:
    """The sections of a batch, with the requested fields and rows.

    Raises as `Selection.names` and `selected_rows`. Raises ValueError for damaged data and for values that do not fit
    their destination, and RuntimeError if the store does not deliver all bytes.
    """
    names = wanted.names(ref)
    rows = selected_rows(wanted.rows, ref.batch_size)
    keys = ref.meta_info if wanted.meta_info_keys is None else wanted.meta_info_keys
    sections: dict[str, dict[str, Any]] = {
        "batch": {},
        "non_tensor_batch": {},
        "meta_info": {key: ref.meta_info[key] for key in keys if key in ref.meta_info},
    }
    stages: dict[str, Members] = {}
    for name in names:
        location = ref.field_index[name]
        if location.stage not in stages:
            stages[location.stage] = Members(bundles, ref.stage_refs[location.stage])
        encoded = ref.encoded_non_tensor.get(name) if location.section == "non_tensor_batch" else None
        if encoded is None:
            value = stages[location.stage].read(location.member, rows, wanted.destinations.get(name))
        else:
            value = _decoded(stages[location.stage], location.member, encoded, rows, ref.batch_size)
        sections[location.section][name] = value
    return sections


def manifest_view(bundles: BundleStore, ref: MooncakeDataProtoRef) -> dict[str, Any]:
    """A summary of the batch's fields and stages, from their manifests. Raises ValueError if one is damaged."""
    stages = {stage: Members(bundles, bundle) for stage, bundle in ref.stage_refs.items()}
    fields = {
        name: {
            "section": location.section,
            "stage": location.stage,
            "member": location.member,
            "spec": _spec(stages[location.stage], location.member, ref.encoded_non_tensor.get(name)),
        }
        for name, location in ref.field_index.items()
    }
    return {
        "namespace": ref.namespace,
        "partition": ref.partition,
        "batch_size": ref.batch_size,
        "batch_fields": {name: about for name, about in fields.items() if about["section"] == "batch"},
        "non_tensor_fields": {name: about for name, about in fields.items() if about["section"] != "batch"},
        "meta_info_keys": list(ref.meta_info),
        "stages": {
            stage: {
                "manifest_key": ref.stage_refs[stage].manifest_key,
                "dataproto": members.metadata.get("dataproto", {}),
            }
            for stage, members in stages.items()
        },
    }


def _decoded(members: Members, path: str, encoded: Any, rows: Sequence[int] | None, total_rows: int) -> Any:
    if not isinstance(encoded, Mapping):
        raise ValueError("encoded_non_tensor must hold mappings")
    payload, metadata = read_column(members, path, encoded, rows)
    count = total_rows if rows is None else len(rows)
    return object_array(decode_column(str(encoded.get("codec")), payload, count, metadata))


def _spec(members: Members, member: str, encoded: Mapping[str, Any] | None) -> dict[str, Any]:
    if encoded is None:
        return members.spec(member)
    parts = dict(encoded["payload_members"])
    return {
        "encoding": "structured_non_tensor",
        "codec": encoded["codec"],
        "metadata": encoded.get("metadata"),
        "payload_members": parts,
        "payload_specs": {name: members.spec(part) for name, part in parts.items()},
    }
