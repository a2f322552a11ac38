"""Codecs of byte rows, and of values stored as bytes: text, msgpack, JSON, images, and lists of bytes and images."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

from mooncake._values.structured.array import np
from mooncake._values.structured.column import Payload, bounds, flags, nulls_of, offsets_of, part
from mooncake._values.structured.infer import is_bytes, is_image
from mooncake._values.structured.source import MultiBufferPayload

# The pixels of these modes are indices into a palette, which the image stores elsewhere.
_PALETTE_MODES = ("P", "PA")


def encode_media(values: Sequence[Any]) -> tuple[Payload, dict[str, Any]]:
    """Encodes bytes, images and None. Raises TypeError for other values, and ValueError for images with a palette."""
    parts, metadata = _media_parts(values)
    return {**_joined(parts), "offsets": offsets_of(map(len, parts)), "nulls": nulls_of(values)}, metadata


def decode_media(payload: Mapping[str, Any], rows: int, metadata: Mapping[str, Any] | None = None) -> list[Any]:
    """The rows. Raises ValueError if the parts do not fit together, and ImportError for images without Pillow."""
    encodings = _encodings(metadata, rows)
    parts = _decode_parts(payload, rows, "bytes_ragged")
    return [None if part is None else _media(part, encodings[row]) for row, part in enumerate(parts)]


def encode_media_lists(values: Sequence[Any]) -> tuple[Payload, dict[str, Any]]:
    """Encodes lists of bytes and images, as `encode_media`."""
    rows = [[] if value is None else list(value) for value in values]
    parts, metadata = _media_parts(list(chain.from_iterable(rows)))
    offsets = {"row_offsets": offsets_of(map(len, rows)), "byte_offsets": offsets_of(map(len, parts))}
    return {**_joined(parts), **offsets, "nulls": nulls_of(values)}, metadata


def decode_media_lists(payload: Mapping[str, Any], rows: int, metadata: Mapping[str, Any] | None = None) -> list[Any]:
    """The rows, which are lists, as `decode_media`."""
    codec = "media_list_ragged"
    nulls = flags(payload, "nulls", rows, codec)
    data = memoryview(part(payload, "data", codec))
    items = np.size(part(payload, "byte_offsets", codec)) - 1
    item_limits = bounds(payload, "byte_offsets", items, len(data), codec)
    row_limits = bounds(payload, "row_offsets", rows, items, codec)
    encodings = _encodings(metadata, items)
    media = [_media(data[item_limits[i] : item_limits[i + 1]], encodings[i]) for i in range(items)]
    return [None if nulls[row] else media[row_limits[row] : row_limits[row + 1]] for row in range(rows)]


def encode_text(values: Sequence[str | None]) -> tuple[Payload, dict[str, Any]]:
    """Encodes strings and None. Raises AttributeError for other values, and ValueError for lone surrogates."""
    return encode_media([None if value is None else value.encode() for value in values])


def decode_text(payload: Mapping[str, Any], rows: int) -> list[str | None]:
    """The rows. Raises ValueError if the parts do not fit together or are not UTF-8."""
    return [None if part is None else str(part, "utf-8") for part in _decode_parts(payload, rows, "utf8_ragged")]


def encode_msgpack(path: str, values: Sequence[Any]) -> tuple[Payload, dict[str, Any]]:
    """Encodes plain values: None, numbers, text, bytes, and lists and dicts of these. Tuples are decoded as lists.

    Raises ValueError for other values, and ImportError without msgpack.
    """
    pack = _msgpack_module().packb

    def encoded(value: Any) -> bytes:
        content: bytes = pack(plain(value), use_bin_type=True, strict_types=True)
        return content

    return _encode_each(path, values, "msgpack", encoded)


def decode_msgpack(payload: Mapping[str, Any], rows: int) -> list[Any]:
    """The rows. Raises ValueError if the parts do not fit together or are not msgpack, and ImportError without
    msgpack.
    """
    msgpack = _msgpack_module()
    parts = _decode_parts(payload, rows, "msgpack_ragged")
    try:
        return [None if part is None else msgpack.unpackb(part, raw=False, strict_map_key=False) for part in parts]
    except Exception as error:  # msgpack's errors have no common base class
        raise ValueError(f"msgpack_ragged payload is damaged: {error}") from error


def encode_json_rows(path: str, values: Sequence[Any]) -> tuple[Payload, dict[str, Any]]:
    """Encodes values that JSON can express. Raises ValueError for other values, and for keys that are not strings."""

    def encoded(value: Any) -> bytes:
        simple = plain(value)
        _check_json_keys(simple)
        return json.dumps(simple, ensure_ascii=False, separators=(",", ":")).encode()

    return _encode_each(path, values, "json", encoded)


def decode_json_rows(payload: Mapping[str, Any], rows: int) -> list[Any]:
    """The rows. Raises ValueError if the parts do not fit together or are not JSON."""
    parts = _decode_parts(payload, rows, "json_ragged")
    return [None if part is None else json.loads(bytes(part)) for part in parts]


def plain(value: Any, *, arrays: bool = False) -> Any:
    """The value with NumPy scalars as numbers, tuples as lists and, with `arrays`, NumPy arrays as lists."""
    if isinstance(value, np.generic) or (arrays and isinstance(value, np.ndarray)):
        return plain(value.tolist(), arrays=arrays)
    if isinstance(value, Mapping):
        return {key: plain(item, arrays=arrays) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain(item, arrays=arrays) for item in value]
    return value


def _encode_each(
    path: str, values: Sequence[Any], codec: str, encoded: Callable[[Any], bytes]
) -> tuple[Payload, dict[str, Any]]:
    try:
        parts = [b"" if value is None else encoded(value) for value in values]
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        message = f"unsupported structured non-tensor field {path}: {codec} codec cannot encode value: {error}"
        raise ValueError(message) from error
    return {"data": b"".join(parts), "offsets": offsets_of(map(len, parts)), "nulls": nulls_of(values)}, {}


def _decode_parts(payload: Mapping[str, Any], rows: int, codec: str) -> list[memoryview | None]:
    data = memoryview(part(payload, "data", codec))
    limits = bounds(payload, "offsets", rows, len(data), codec)
    nulls = flags(payload, "nulls", rows, codec)
    return [None if nulls[row] else data[limits[row] : limits[row + 1]] for row in range(rows)]


def _joined(parts: Sequence[bytes]) -> Payload:
    return {"data": MultiBufferPayload(tuple(memoryview(part) for part in parts if part), tuple(parts))}


def _media_parts(values: Sequence[Any]) -> tuple[list[bytes], dict[str, Any]]:
    """The bytes of each value and, if there are images, the metadata to decode them."""
    parts = [_media_bytes(value) for value in values]
    if not any(map(is_image, values)):
        return parts, {}
    about = {"media_types": ["image/raw"], "encode_source": "raw_pixels_from_object"}
    return parts, {"media_encodings": [_encoding(value) for value in values], **about}


def _media_bytes(value: Any) -> bytes:
    if value is None or is_bytes(value):
        return bytes(value or b"")
    if not is_image(value):
        raise TypeError(f"bytes or an image are needed, not {type(value).__name__}")
    if value.mode in _PALETTE_MODES:
        raise ValueError(f"an image of mode {value.mode} would lose its palette: convert it first")
    content: bytes = value.tobytes()
    return content


def _encoding(value: Any) -> dict[str, Any]:
    if not is_image(value):
        return {"kind": "null" if value is None else "bytes"}
    described = {"kind": "pil_raw", "mode": value.mode, "size": list(value.size)}
    return {**described, "format": getattr(value, "format", None)}


def _encodings(metadata: Mapping[str, Any] | None, items: int) -> list[Mapping[str, Any]]:
    found = (metadata or {}).get("media_encodings") or [{}] * items
    if not isinstance(found, list) or len(found) != items or not all(isinstance(item, Mapping) for item in found):
        raise ValueError(f"media_encodings do not match {items} items")
    return found


def _media(part: memoryview, encoding: Mapping[str, Any]) -> Any:
    if encoding.get("kind") != "pil_raw":
        return bytes(part)
    try:
        pillow = importlib.import_module("PIL.Image")
    except ImportError as error:
        raise ImportError("images in structured objects need Pillow: pip install pillow", name="PIL") from error
    image = pillow.frombytes(encoding["mode"], tuple(encoding["size"]), bytes(part))
    image.format = encoding.get("format")
    return image


def _check_json_keys(value: Any) -> None:
    """Raises TypeError for keys that are not strings: JSON would convert them."""
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise TypeError("keys must be strings")
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            _check_json_keys(item)


def _msgpack_module() -> Any:
    try:
        return importlib.import_module("msgpack")
    except ImportError as error:
        message = "lists and dicts in structured objects need msgpack: pip install msgpack"
        raise ImportError(message, name="msgpack") from error
