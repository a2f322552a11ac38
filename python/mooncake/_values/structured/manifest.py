"""The manifest of a bundle: a JSON object under `<prefix>/<object id>/manifest` with the keys of all payloads.

A manifest is checked before any of its keys is used, so that none can name keys outside of its own objects. A payload
is `{"key", "bytes", "chunks": [{"key", "bytes"}, ...]}`. Its bytes are those of its chunks, one after the other.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Manifest: TypeAlias = dict[str, Any]
PayloadSpec: TypeAlias = Mapping[str, Any]

_PRINTABLE = 32


@dataclass
class RemoteBundleRef:
    """The key of a bundle's manifest, and the manifest if it is known."""

    manifest_key: str
    manifest: Manifest = field(default_factory=dict)


def encode_json(value: Mapping[str, Any], what: str) -> bytes:
    """The value as JSON. Raises TypeError if it is not JSON-serializable."""
    try:
        return json.dumps(value, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"{what} must be JSON-serializable") from error


def decode_json(payload: bytes, what: str) -> dict[str, Any]:
    """Decodes a JSON object. Raises ValueError if the payload is anything else."""
    try:
        value = json.loads(bytes(payload).decode())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{what} is missing or damaged: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"{what} must decode to a dict")
    return value


def decode_manifest(payload: bytes) -> Manifest:
    """Decodes a manifest without checking it. Raises ValueError if it is missing or no JSON object."""
    return decode_json(payload, "bundle manifest")


def checked_prefix(key_prefix: str) -> str:
    """The prefix without surrounding slashes. Raises ValueError if nothing is left, or it has control characters."""
    prefix = key_prefix.strip("/")
    if not prefix or any(ord(char) < _PRINTABLE for char in prefix):
        raise ValueError("key_prefix must be a non-empty key prefix")
    return prefix


def check_segment(value: object, what: str) -> None:
    """Raises ValueError unless the value can be one part of a key, between slashes."""
    if not isinstance(value, str) or not value or "/" in value or any(ord(char) < _PRINTABLE for char in value):
        raise ValueError(f"invalid bundle {what}: {value!r}")


def chunk_keys(payload: PayloadSpec) -> list[str]:
    """The keys of a payload's chunks, in order."""
    return [chunk["key"] for chunk in payload["chunks"]]


def payload_spec(key: str, sizes: Sequence[int]) -> dict[str, Any]:
    """The manifest's entry for a payload whose chunks have these lengths in bytes."""
    names = [key] if len(sizes) == 1 else [f"{key}/chunk/{index}" for index in range(len(sizes))]
    chunks = [{"key": name, "bytes": size} for name, size in zip(names, sizes, strict=True)]
    return {"key": key, "bytes": sum(sizes), "chunks": chunks}


@dataclass(frozen=True)
class Namespace:
    """The keys of all bundles under one prefix."""

    prefix: str

    def base_key(self, object_id: str) -> str:
        """The prefix of all keys of one object, without a trailing slash."""
        return f"{self.prefix}/{object_id}"

    def manifest_key(self, object_id: str) -> str:
        """The key of an object's manifest."""
        return f"{self.base_key(object_id)}/manifest"

    def object_id_of(self, key: str) -> str | None:
        """The id of the object that a key belongs to; None if the key is not of a bundle."""
        path = key.removeprefix(f"{self.prefix}/")
        if path == key:
            return None
        for end in ("/manifest", "/meta"):
            if path.endswith(end):
                return path.removesuffix(end)
        for middle in ("/meta/", "/buffer/"):
            object_id, found, _ = path.partition(middle)
            if found and object_id:
                return object_id
        return None

    def object_ids_of(self, keys: Iterable[str]) -> list[str]:
        """The ids of the objects that the keys belong to, sorted."""
        return sorted({found for key in keys if (found := self.object_id_of(key))})

    def manifest_key_of(self, ref: RemoteBundleRef | Mapping[str, Any], manifest: Manifest) -> str:
        """The key of the manifest. Raises ValueError if the reference names another key."""
        expected = self.manifest_key(manifest["object_id"])
        named = ref.manifest_key if isinstance(ref, RemoteBundleRef) else ref.get("manifest_key")
        if named is not None and named != expected:
            raise ValueError("bundle manifest_key does not match manifest object_id")
        return expected

    def check(self, manifest: Mapping[str, Any]) -> None:
        """Raises ValueError unless the manifest is complete and names only keys of its own objects."""
        if manifest.get("version") != 1 or manifest.get("layout") != "bundle":
            raise ValueError("invalid bundle manifest")
        object_id = manifest.get("object_id")
        if not isinstance(object_id, str) or not object_id:
            raise ValueError("bundle manifest object_id must be a string")
        owners = _texts(manifest.get("buffer_object_ids", [object_id]))
        if owners is None or "" in owners:
            raise ValueError("bundle manifest buffer_object_ids must be a list of strings")
        bases = tuple(f"{self.base_key(owner)}/" for owner in owners)
        _check_payload(manifest.get("meta"), (f"{self.base_key(object_id)}/",))
        cleanup_keys = _texts(manifest.get("cleanup_keys", []))
        if cleanup_keys is None or not all(key.startswith(bases) for key in cleanup_keys):
            raise ValueError("bundle manifest cleanup_keys are outside the bundle namespace")
        buffers = manifest.get("buffers")
        if not isinstance(buffers, dict):
            raise ValueError("bundle manifest buffers must be a dict")
        for name, payload in buffers.items():
            check_segment(name, "buffer name")
            _check_payload(payload, bases)


def _texts(values: object) -> list[str] | None:
    return values if isinstance(values, list) and all(isinstance(value, str) for value in values) else None


def _check_payload(payload: object, bases: tuple[str, ...]) -> None:
    if not isinstance(payload, dict):
        raise ValueError("bundle payload spec must be a dict")
    key = payload.get("key")
    if not isinstance(key, str) or not key.startswith(bases):
        raise ValueError("bundle payload key is outside the bundle namespace")
    expected = _length(payload.get("bytes"), "bundle payload bytes")
    chunks = payload.get("chunks")
    if not isinstance(chunks, list) or (expected and not chunks):
        raise ValueError("bundle payload chunks are invalid")
    names = [_chunk_key(chunk, key) for chunk in chunks]
    if len(set(names)) != len(names):
        raise ValueError("bundle chunk keys must be unique")
    total = sum(_length(chunk.get("bytes"), "bundle chunk bytes") for chunk in chunks)
    if total != expected:
        raise ValueError(f"bundle payload chunks total {total} bytes, expected {expected}")


def _chunk_key(chunk: object, payload_key: str) -> str:
    if not isinstance(chunk, dict):
        raise ValueError("bundle chunk must be a dict")
    key = chunk.get("key")
    if not isinstance(key, str) or (key != payload_key and not key.startswith(f"{payload_key}/")):
        raise ValueError("bundle chunk key is outside the payload namespace")
    return key


def _length(value: object, what: str) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{what} must be non-negative")
    return value
