"""The manifest of a bundle: a JSON object under `<prefix>/<object id>/manifest` that names the keys of all payloads.

What is read back is checked before a key of it is touched, so no manifest leads outside of its own objects. A payload
is `{"key", "bytes", "chunks": [{"key", "bytes"}, ...]}`; its chunks, one after the other, are its bytes.
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
    """Where a bundle is, and its manifest if it is known."""

    manifest_key: str
    manifest: Manifest = field(default_factory=dict)


def encode_json(value: Mapping[str, Any], what: str) -> bytes:
    """The value as JSON. Raises TypeError if it is not JSON-serializable."""
    try:
        return json.dumps(value, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"{what} must be JSON-serializable") from error


def decode_json(payload: bytes, what: str) -> dict[str, Any]:
    """The mapping that was encoded. Raises ValueError if there is none."""
    try:
        value = json.loads(bytes(payload).decode())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{what} is missing or damaged: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"{what} must decode to a dict")
    return value


def decode_manifest(payload: bytes) -> Manifest:
    """The manifest that was stored, not yet checked. Raises ValueError if it is missing or no JSON object."""
    return decode_json(payload, "bundle manifest")


def checked_prefix(key_prefix: str) -> str:
    """The prefix without slashes around it. Raises ValueError if nothing is left, or if it cannot be printed."""
    prefix = key_prefix.strip("/")
    if not prefix or any(ord(char) < _PRINTABLE for char in prefix):
        raise ValueError("key_prefix must be a non-empty key prefix")
    return prefix


def check_segment(value: object, what: str) -> None:
    """Raises ValueError unless the value can stand between two slashes of a key."""
    if not isinstance(value, str) or not value or "/" in value or any(ord(char) < _PRINTABLE for char in value):
        raise ValueError(f"invalid bundle {what}: {value!r}")


def chunk_keys(payload: PayloadSpec) -> list[str]:
    """The keys of a payload's chunks, in their order."""
    return [chunk["key"] for chunk in payload["chunks"]]


def payload_spec(key: str, sizes: Sequence[int]) -> dict[str, Any]:
    """What a manifest says of a payload with chunks of these lengths in bytes."""
    names = [key] if len(sizes) == 1 else [f"{key}/chunk/{index}" for index in range(len(sizes))]
    chunks = [{"key": name, "bytes": size} for name, size in zip(names, sizes, strict=True)]
    return {"key": key, "bytes": sum(sizes), "chunks": chunks}


@dataclass(frozen=True)
class Namespace:
    """The keys of all bundles under one prefix."""

    prefix: str

    def base_key(self, object_id: str) -> str:
        """What the keys of one object begin with, before a slash."""
        return f"{self.prefix}/{object_id}"

    def manifest_key(self, object_id: str) -> str:
        """Where the manifest of an object is."""
        return f"{self.base_key(object_id)}/manifest"

    def object_id_of(self, key: str) -> str | None:
        """The object that a key belongs to; None if it is no key of a bundle."""
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
        """The objects that the keys belong to, sorted."""
        return sorted({found for key in keys if (found := self.object_id_of(key))})

    def manifest_key_of(self, ref: RemoteBundleRef | Mapping[str, Any], manifest: Manifest) -> str:
        """Where the manifest lies. Raises ValueError if the reference says something else."""
        expected = self.manifest_key(manifest["object_id"])
        named = ref.manifest_key if isinstance(ref, RemoteBundleRef) else ref.get("manifest_key")
        if named is not None and named != expected:
            raise ValueError("bundle manifest_key does not match manifest object_id")
        return expected

    def check(self, manifest: Mapping[str, Any]) -> None:
        """Raises ValueError unless the manifest is whole and names nothing but keys of its own objects."""
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
