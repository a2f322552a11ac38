"""Structured objects in the store: arrays, tensors and bytes under one manifest, and batches of named fields.

`MooncakeBundleTransfer` puts and gets them. One process puts a batch and gets a small handle. Other processes use the
handle to get the fields and rows that they need. NumPy is required. torch and msgpack are required only for values
that need them.
"""

from __future__ import annotations

from typing import Any

from mooncake._fast_copy import concat_arrays_into as _concat_arrays_into
from mooncake._values.structured.byte_ragged import decode_msgpack as _decode_msgpack_ragged_values
from mooncake._values.structured.byte_ragged import encode_msgpack as _encode_msgpack_ragged_values
from mooncake._values.structured.codec import encode_with_schema as _encode_with_schema
from mooncake._values.structured.field import STRUCTURED_FIELD_SPECS_KEY
from mooncake._values.structured.infer import MISSING, infer_structure
from mooncake._values.structured.infer import choose_leaf_codec as _choose_leaf_codec
from mooncake._values.structured.infer import escape_key as _escape_key
from mooncake._values.structured.manifest import RemoteBundleRef
from mooncake._values.structured.manifest import decode_manifest as _decode_manifest
from mooncake._values.structured.policy import (
    AUTO_PARALLEL_MIN_BYTES,
    AUTO_PARALLEL_MIN_CHUNKS,
    DEFAULT_BUNDLE_CHUNK_BYTES,
    BundleTransferPolicy,
)
from mooncake._values.structured.refs import (
    DATAPROTO_REF_HANDLE_TYPE,
    DATAPROTO_REF_HANDLE_VERSION,
    STORAGE_GROUP_ID,
    DataProtoRefLike,
    MooncakeDataProtoRef,
    StructuredFieldLocation,
    export_dataproto_ref,
    import_dataproto_ref,
    is_dataproto_ref_handle,
)
from mooncake._values.structured.schema import FieldSchema
from mooncake._values.structured.source import DirectCopyPayload as _DirectCopyPayload
from mooncake._values.structured.source import MultiBufferPayload as _MultiBufferPayload
from mooncake._values.structured.source import raw_destination, tensor_object_buffer
from mooncake._values.structured.spec import (
    StructuredMemberSlice,
    StructuredObjectPayload,
    StructuredObjectReadSpec,
    StructuredObjectResult,
)
from mooncake._values.structured.status import MISSING_OBJECT_ERROR
from mooncake._values.structured.steps import Steps as _Steps
from mooncake._values.structured.transfer import MooncakeBundleTransfer as _Transfer
from mooncake._values.structured.transfer import StoreCalls as BundleStore
from mooncake._values.structured.typed_ragged import decode as _decode_typed_ragged_values
from mooncake._values.structured.typed_ragged import encode as _encode_typed_ragged_values
from mooncake._values.structured.typed_ragged import encode_regular_rows as _encode_typed_ragged_regular_ndarray_rows
from mooncake._values.structured.write_config import config_for_keys as _config_for_grouped_keys

export_ref = export_dataproto_ref
import_ref = import_dataproto_ref


def _has_tensor_codec_helpers() -> bool:
    """Whether tensors are stored as a header and elements, not as `torch.save` writes them."""
    return True


# Callers replace `_concat_arrays_into` and `_has_tensor_codec_helpers` in this module, so each call looks them up here.
_STEPS = _Steps(
    concat=lambda *arguments: _concat_arrays_into(*arguments),
    has_tensor_codec=lambda: _has_tensor_codec_helpers(),
)


class MooncakeBundleTransfer(_Transfer):
    __doc__ = _Transfer.__doc__

    def __init__(
        self,
        store: BundleStore,
        key_prefix: str = "bundle",
        default_chunk_bytes: int = DEFAULT_BUNDLE_CHUNK_BYTES,
        buffer_pool: Any = None,
    ) -> None:
        """Raises ValueError for an empty prefix, or chunks that are not longer than 0 bytes."""
        super().__init__(store, key_prefix, default_chunk_bytes, buffer_pool, steps=_STEPS)


__all__ = [
    "AUTO_PARALLEL_MIN_BYTES",
    "AUTO_PARALLEL_MIN_CHUNKS",
    "DATAPROTO_REF_HANDLE_TYPE",
    "DATAPROTO_REF_HANDLE_VERSION",
    "DEFAULT_BUNDLE_CHUNK_BYTES",
    "MISSING",
    "MISSING_OBJECT_ERROR",
    "STORAGE_GROUP_ID",
    "STRUCTURED_FIELD_SPECS_KEY",
    "BundleStore",
    "BundleTransferPolicy",
    "DataProtoRefLike",
    "FieldSchema",
    "MooncakeBundleTransfer",
    "MooncakeDataProtoRef",
    "RemoteBundleRef",
    "StructuredFieldLocation",
    "StructuredMemberSlice",
    "StructuredObjectPayload",
    "StructuredObjectReadSpec",
    "StructuredObjectResult",
    "_DirectCopyPayload",
    "_MultiBufferPayload",
    "_choose_leaf_codec",
    "_concat_arrays_into",
    "_config_for_grouped_keys",
    "_decode_manifest",
    "_decode_msgpack_ragged_values",
    "_decode_typed_ragged_values",
    "_encode_msgpack_ragged_values",
    "_encode_typed_ragged_regular_ndarray_rows",
    "_encode_typed_ragged_values",
    "_encode_with_schema",
    "_escape_key",
    "_has_tensor_codec_helpers",
    "export_dataproto_ref",
    "export_ref",
    "import_dataproto_ref",
    "import_ref",
    "infer_structure",
    "is_dataproto_ref_handle",
    "raw_destination",
    "tensor_object_buffer",
]
