"""A catalog of the rows and fields of a stream of batches. It holds names and places, but no data."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from mooncake._values.structured.refs import export_dataproto_ref, import_dataproto_ref

# A fragment, named by the key of its manifest, and a row of it.
_Location: TypeAlias = tuple[str, int]


@dataclass
class _Entry:
    tag: dict[str, Any] = field(default_factory=dict)
    fields: dict[str, _Location] = field(default_factory=dict)


class DataProtoCatalog:
    """A catalog of rows, by partition and key. It holds a tag and the place of every field of each row.

    A fragment is a stored batch with one stage. The catalog keeps a fragment's handle while a field of any row lies in
    it. The catalog neither moves nor removes stored data. Only one thread may use a catalog at a time.
    """

    def __init__(self) -> None:
        self._partitions: dict[str, dict[str, _Entry]] = {}
        self._fragments: dict[str, dict[str, Any]] = {}
        self._uses: dict[str, int] = {}

    def update(
        self,
        partition: str,
        keys: Sequence[str],
        *,
        tags: Sequence[Mapping[str, Any]] | None = None,
        handle: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Merges tags into rows, and records the fields of a fragment. Row i of the fragment belongs to `keys[i]`.

        `tags` has one mapping per key. At least one of `tags` and `handle` is required. Returns a dict: `keys`;
        `tags`, the tag of each key after the merge; `fields`, all fields that any of the keys has.

        Raises ValueError for names that are empty or repeated, for tags or rows that do not match the number of keys,
        and for a handle of anything but a fragment. Raises TypeError for tags that are not mappings. After an error
        nothing has changed.
        """
        partition, names = _text(partition, "partition"), _names(keys, "keys")
        new_tags = _tags(tags, len(names))
        if tags is None and handle is None:
            raise ValueError("catalog update requires tags or a DataProto handle")
        places = {} if handle is None else self._add_fragment(handle, len(names))
        entries = self._partitions.setdefault(partition, {})
        for row, (key, tag) in enumerate(zip(names, new_tags, strict=True)):
            entry = entries.setdefault(key, _Entry())
            entry.tag |= tag
            for name, fragment in places.items():
                self._place(entry, name, (fragment, row))
        return {
            "keys": list(names),
            "tags": [copy.deepcopy(entries[key].tag) for key in names],
            "fields": _all_fields(entries, names),
        }

    def resolve(self, partition: str, keys: Sequence[str], fields: Sequence[str] | None = None) -> dict[str, Any]:
        """Finds the fields of rows. Without `fields`, finds all fields that any of the rows has.

        Returns a dict: `keys`; `tags`; `fields`; `field_groups`, whose entries list fields with the same places and
        their places as pairs of fragment and row; `handles`, the handle of each fragment.

        Raises ValueError for a key that the catalog does not have, and for a field that one of the rows does not have.
        """
        partition, names = _text(partition, "partition"), _names(keys, "keys")
        entries = self._partitions.get(partition, {})
        missing = [key for key in names if key not in entries]
        if missing:
            raise ValueError(f"keys were not found in partition {partition!r}: {missing}")
        wanted = _all_fields(entries, names) if fields is None else list(_names(fields, "field names"))
        if not wanted:
            raise ValueError("requested keys do not contain any fields")
        for key in names:
            absent = [name for name in wanted if name not in entries[key].fields]
            if absent:
                raise ValueError(f"fields are not ready for key {key!r}: {absent}")
        groups: dict[tuple[_Location, ...], list[str]] = {}
        for name in wanted:
            groups.setdefault(tuple(entries[key].fields[name] for key in names), []).append(name)
        fragments = {fragment for places in groups for fragment, _ in places}
        return {
            "keys": list(names),
            "tags": [copy.deepcopy(entries[key].tag) for key in names],
            "fields": wanted,
            "field_groups": [{"fields": group, "locations": list(places)} for places, group in groups.items()],
            "handles": {fragment: copy.deepcopy(self._fragments[fragment]) for fragment in fragments},
        }

    def list(self, partition: str | None = None) -> dict[str, dict[str, Any]]:
        """The tags of all rows, by partition and key. With `partition`, only those of that partition."""
        chosen = self._partitions if partition is None else {_text(partition, "partition")}
        return {
            name: {key: copy.deepcopy(entry.tag) for key, entry in self._partitions[name].items()}
            for name in chosen
            if name in self._partitions
        }

    def remove(self, partition: str, keys: Sequence[str]) -> None:
        """Removes these rows from the catalog. Unknown keys are ignored. The stored data remains."""
        partition, names = _text(partition, "partition"), _names(keys, "keys")
        entries = self._partitions.get(partition, {})
        for key in names:
            for fragment, _ in entries.pop(key, _Entry()).fields.values():
                self._release(fragment)
        if not entries:
            self._partitions.pop(partition, None)

    def _add_fragment(self, handle: Mapping[str, Any], rows: int) -> dict[str, str]:
        """Keeps the handle of a fragment. Returns a dict from each of its fields to the fragment."""
        ref = import_dataproto_ref(handle)
        if ref.batch_size != rows:
            raise ValueError(f"DataProto batch size {ref.batch_size!r} does not match {rows} logical keys")
        if len(ref.stage_refs) != 1:
            raise ValueError("catalog fragments must contain exactly one DataProto stage")
        if not ref.field_index:
            raise ValueError("DataProto catalog fragments cannot be empty")
        (stage,) = ref.stage_refs.values()
        stored = export_dataproto_ref(ref)
        if self._fragments.setdefault(stage.manifest_key, stored) != stored:
            raise ValueError(f"DataProto fragment id collision: {stage.manifest_key!r}")
        return dict.fromkeys(ref.field_index, stage.manifest_key)

    def _place(self, entry: _Entry, name: str, location: _Location) -> None:
        old = entry.fields.get(name)
        entry.fields[name] = location
        self._uses[location[0]] = self._uses.get(location[0], 0) + 1
        if old is not None:
            self._release(old[0])

    def _release(self, fragment: str) -> None:
        self._uses[fragment] -= 1
        if self._uses[fragment] == 0:
            del self._uses[fragment], self._fragments[fragment]


def _all_fields(entries: Mapping[str, _Entry], keys: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(name for key in keys for name in entries[key].fields))


def _names(values: Sequence[str], what: str) -> tuple[str, ...]:
    if isinstance(values, str):
        raise ValueError(f"{what} must be a sequence of non-empty strings")
    names = tuple(values)
    if not names or not all(isinstance(name, str) and name for name in names):
        raise ValueError(f"{what} must be non-empty strings")
    if len(set(names)) != len(names):
        raise ValueError(f"{what} must be unique")
    return names


def _tags(tags: Sequence[Mapping[str, Any]] | None, count: int) -> list[dict[str, Any]]:
    """A copy of the tag of each key; without tags, an empty dict for each key."""
    given = [{} for _ in range(count)] if tags is None else list(tags)
    if len(given) != count:
        raise ValueError("tags must have the same length as keys")
    if not all(isinstance(tag, Mapping) for tag in given):
        raise TypeError("tags must be mappings")
    return [copy.deepcopy(dict(tag)) for tag in given]


def _text(value: str, what: str) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{what} must be a non-empty string")
    return value
