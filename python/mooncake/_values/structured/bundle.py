"""Bundles: named buffers, some bytes of metadata, and a manifest with the keys of both."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from mooncake._values.structured.array import Array, byte_array
from mooncake._values.structured.manifest import (
    Manifest,
    Namespace,
    PayloadSpec,
    RemoteBundleRef,
    check_segment,
    chunk_keys,
    decode_manifest,
    encode_json,
)
from mooncake._values.structured.policy import BundleTransferPolicy, checked, checked_chunk_bytes, put_mode
from mooncake._values.structured.read import Reader
from mooncake._values.structured.removal import remove_keys
from mooncake._values.structured.source import DirectCopyPayload, MultiBufferPayload, TensorObjectBuffer, TensorPayload
from mooncake._values.structured.steps import Steps
from mooncake._values.structured.write import Writer

BundleRef: TypeAlias = RemoteBundleRef | Mapping[str, Any]

_COPIED = BundleTransferPolicy(copy_mode="copy")


class Transport:
    """Moves the bytes of payloads to a store and back."""

    def __init__(self, store: Any, buffer_pool: Any, steps: Steps) -> None:
        self.store = store
        self.steps = steps
        self.reader = Reader(store, buffer_pool)
        self.writer = Writer(store, buffer_pool, steps)

    def _resolve_buffer_group_put_mode(self, groups: Sequence[Sequence[Any]], policy: BundleTransferPolicy) -> str:
        """The way to write groups of buffers under the policy. Each group is one chunk."""
        return put_mode([sum(len(buffer) for buffer in group) for group in groups], policy)


class BundleStore:
    """Puts, finds and removes the bundles under one key prefix."""

    def __init__(self, transport: Transport, key_prefix: str, default_chunk_bytes: int) -> None:
        self._store = transport.store
        self._writer = transport.writer
        self.has_tensor_codec = transport.steps.has_tensor_codec
        self.reader = transport.reader
        self._keys = Namespace(key_prefix)
        self._default_chunk_bytes = default_chunk_bytes

    def put_bundle(
        self,
        meta: Any,
        buffers: Mapping[str, Any],
        *,
        partition: str,
        chunk_bytes: int | None,
        policy: BundleTransferPolicy | None,
        config: Any = None,
    ) -> RemoteBundleRef:
        """Stores the buffers and the metadata, then the manifest. If it raises, it has removed what it stored.

        Raises ValueError for names that cannot be part of a key, and TypeError for a value that is no buffer. Raises
        RuntimeError if the store refuses a part.
        """
        chosen = checked(policy)
        chunk_bytes = checked_chunk_bytes(self._default_chunk_bytes if chunk_bytes is None else chunk_bytes)
        for name in buffers:
            check_segment(name, "buffer name")
        manifest = self._new_manifest(partition)
        base_key = self._keys.base_key(manifest["object_id"])
        try:
            manifest["meta"] = self._put_payload(f"{base_key}/meta", meta, chunk_bytes, _COPIED, config)
            for name, value in buffers.items():
                key = f"{base_key}/buffer/{name}"
                manifest["buffers"][name] = self._put_payload(key, value, chunk_bytes, chosen, config)
            return self._put_manifest(manifest, config)
        except BaseException:
            remove_keys(self._store, self._written(manifest), strict=False)
            raise

    def put_bundle_manifest(
        self,
        meta: Any,
        buffers: Mapping[str, Any],
        *,
        partition: str,
        chunk_bytes: int | None,
        policy: BundleTransferPolicy | None,
        cleanup_keys: Sequence[str] | None = None,
        config: Any = None,
    ) -> RemoteBundleRef:
        """Stores a new manifest for payloads of other bundles. `remove_bundle` also removes `cleanup_keys`."""
        checked(policy)
        chunk_bytes = checked_chunk_bytes(self._default_chunk_bytes if chunk_bytes is None else chunk_bytes)
        manifest = self._new_manifest(partition)
        base_key = self._keys.base_key(manifest["object_id"])
        cleanup = list(dict.fromkeys(cleanup_keys or []))
        owned = [*cleanup, *(str(payload["key"]) for payload in buffers.values())]
        manifest |= {"buffer_object_ids": self._keys.object_ids_of(owned), "buffers": dict(buffers)}
        if cleanup:
            manifest["cleanup_keys"] = cleanup
        try:
            manifest["meta"] = self._put_payload(f"{base_key}/meta", meta, chunk_bytes, _COPIED, config)
            self._keys.check(manifest)
            return self._put_manifest(manifest, config)
        except BaseException:
            remove_keys(self._store, self._written({**manifest, "buffers": {}}), strict=False)
            raise

    def remove_bundle(self, ref: BundleRef) -> None:
        """Removes the manifest and all objects that it names. Raises RuntimeError if the store keeps any of them."""
        manifest = self.resolve_manifest(ref)
        key = self._keys.manifest_key_of(ref, manifest)
        payloads = [manifest["meta"], *manifest["buffers"].values()]
        keys = [name for payload in payloads for name in chunk_keys(payload)]
        remove_keys(self._store, [*keys, *manifest.get("cleanup_keys", []), key], strict=True)

    def manifest_key(self, ref: BundleRef) -> str:
        """The key of the manifest. Raises ValueError if the reference names another key."""
        return self._keys.manifest_key_of(ref, self.resolve_manifest(ref))

    def payload_keys(self, payload: PayloadSpec) -> list[str]:
        """The keys of a payload's chunks."""
        return chunk_keys(payload)

    def remove_keys(self, keys: Sequence[str], *, strict: bool) -> None:
        """Removes the keys. With `strict`, raises RuntimeError for keys that the store keeps."""
        remove_keys(self._store, keys, strict=strict)

    def resolve_manifest(self, ref: BundleRef) -> Manifest:
        """The manifest in the reference, or else in the store.

        Raises ValueError if there is none, if it is damaged, or if it belongs to another object.
        """
        known = ref.manifest if isinstance(ref, RemoteBundleRef) else ref.get("manifest")
        if not known:
            key = ref.manifest_key if isinstance(ref, RemoteBundleRef) else ref.get("manifest_key")
            if not isinstance(key, str):
                raise ValueError("bundle ref must include manifest_key")
            known = decode_manifest(self._store.get(key))
        self._keys.check(known)
        self._keys.manifest_key_of(ref, known)
        return dict(known)

    def _new_manifest(self, partition: str) -> Manifest:
        check_segment(partition, "partition")
        object_id = f"{partition}/{uuid.uuid4().hex}"
        return {"version": 1, "layout": "bundle", "object_id": object_id, "meta": None, "buffers": {}}

    def _put_manifest(self, manifest: Manifest, config: Any) -> RemoteBundleRef:
        key = self._keys.manifest_key(manifest["object_id"])
        self._writer.put_one(key, encode_json(manifest, "bundle manifest"), config)
        return RemoteBundleRef(manifest_key=key, manifest=manifest)

    def _written(self, manifest: Manifest) -> list[str]:
        """The keys that an unfinished bundle has written."""
        payloads = [manifest["meta"], *manifest["buffers"].values()]
        return [key for payload in payloads if payload is not None for key in chunk_keys(payload)]

    def _put_payload(
        self, key: str, value: Any, chunk_bytes: int, transfer_policy: BundleTransferPolicy, config: Any = None
    ) -> dict[str, Any]:
        """Stores one payload. Returns its entry in the manifest."""
        if isinstance(value, (TensorPayload, TensorObjectBuffer)):
            return self._writer.put_tensor(key, value, transfer_policy, config)
        return self._writer.put_arrays(key, _byte_arrays(key, value), chunk_bytes, transfer_policy, config)

    # Callers that put arrays one by one use this name.
    _put_direct_copy_payload = _put_payload


def _byte_arrays(key: str, value: Any) -> list[Array]:
    if isinstance(value, (MultiBufferPayload, DirectCopyPayload)):
        return value.byte_arrays()
    try:
        view = memoryview(value)
        return [byte_array(view if view.c_contiguous else bytes(view))]
    except (TypeError, ValueError, NotImplementedError) as error:
        raise TypeError(f"{key} must be bytes-like, got {type(value).__name__}") from error
