"""The members of one structured object. Reads them whole or by rows, into new memory or the caller's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mooncake._values.structured.array import Array, bytes_of, length_bytes, memory_at, np, stored_dtype, stored_shape
from mooncake._values.structured.bundle import BundleStore
from mooncake._values.structured.chunk import Range
from mooncake._values.structured.field import BYTES_SPEC, field_specs
from mooncake._values.structured.manifest import PayloadSpec, RemoteBundleRef, decode_json
from mooncake._values.structured.source import RawDestination, TensorObjectBuffer
from mooncake._values.structured.spec import StructuredMemberSlice, row_ranges, rows_of_slice
from mooncake._values.structured.tensor import (
    as_described,
    decode_nested,
    empty_rows,
    header_for,
    select_nested,
    write_at,
)
from mooncake._values.structured.torch_tensor import Tensor, loaded
from mooncake._values.tensor.serialize import deserialize_tensor


class Members:
    """A structured object. The constructor has read its manifest and metadata."""

    def __init__(self, bundles: BundleStore, ref: RemoteBundleRef | Mapping[str, Any]) -> None:
        """Raises ValueError if the manifest or the metadata is missing or damaged."""
        self.manifest = bundles.resolve_manifest(ref)
        self._reader = bundles.reader
        self.metadata = decode_json(self._reader.whole(self.manifest["meta"]), "structured metadata")
        self.specs = field_specs(self.metadata)
        self.payloads: dict[str, PayloadSpec] = self.manifest["buffers"]

    def names(self, wanted: Sequence[str] | None) -> list[str]:
        """The names in `wanted`, or all names for None. Raises KeyError for unknown members."""
        missing = [name for name in wanted or () if name not in self.payloads]
        if missing:
            raise KeyError(f"unknown bundle buffers: {missing}")
        return list(self.payloads) if wanted is None else list(wanted)

    def spec(self, name: str) -> dict[str, Any]:
        """The metadata's entry for a member."""
        return dict(self.specs.get(name, BYTES_SPEC))

    def read(self, name: str, rows: Sequence[int] | StructuredMemberSlice | None = None, into: Any = None) -> Any:
        """Reads a member, or some of its rows. With `into`, reads it into that memory and returns the memory.

        Raises ValueError if the member cannot be read in that way, or does not match the manifest. Raises RuntimeError
        if the store does not deliver all bytes.
        """
        (name,) = self.names([name])
        encoding = self.spec(name).get("encoding", "bytes")
        if encoding == "bytes":
            return self._read_bytes(name, rows, into)
        if encoding == "ndarray":
            return self._read_array(name, rows, into)
        if encoding != "torch_tensor":
            raise ValueError(f"unsupported structured field encoding: {encoding}")
        if self.spec(name).get("nested"):
            return self._read_nested(name, rows, into)
        return self._read_tensor(name, into) if rows is None else self._read_tensor_rows(name, rows, into)

    def read_ranges(self, name: str, ranges: Sequence[Range], target: Array) -> None:
        """Reads ranges of a member's bytes into an array."""
        self._reader.into(self.payloads[name], bytes_of(target), ranges)

    def array_type(self, name: str) -> tuple[Any, tuple[int, ...]]:
        """The element type and shape of an array. Raises ValueError unless they match the length of the payload."""
        spec = self.spec(name)
        if not isinstance(spec.get("dtype"), str):
            raise ValueError(f"structured ndarray field {name} is missing dtype or shape")
        shape = stored_shape(spec.get("shape"), f"structured ndarray field {name}")
        dtype = stored_dtype(spec["dtype"])
        stored, expected = self.payloads[name]["bytes"], length_bytes(shape, dtype)
        if stored != expected:
            raise ValueError(f"structured ndarray field {name} has {stored} bytes, its shape says {expected}")
        return dtype, shape

    def _read_bytes(self, name: str, rows: object, into: object) -> Any:
        if rows is not None:
            raise ValueError(f"structured bytes member {name} does not support slicing or indexed rows")
        if into is not None:
            raise ValueError(f"structured bytes member {name} does not support materialize_into")
        return self._reader.whole_as_array(self.payloads[name])

    def _read_array(self, name: str, rows: Any, into: Any) -> Array:
        dtype, shape = self.array_type(name)
        row_bytes, ranges = length_bytes(shape[1:], dtype), [Range(0, 0, length_bytes(shape, dtype))]
        if rows is not None:
            rows = _rows(name, rows, shape)
            shape, ranges = (len(rows), *shape[1:]), row_ranges(rows, row_bytes)
        ranges = [part for part in ranges if part.length]
        payload = self.payloads[name]
        if into is None and len(ranges) == 1:
            leased = self._reader.into_pool(payload, dtype, shape, ranges[0].source)
            if leased is not None:
                return leased
        target = _array_target(name, into, dtype, shape)
        if isinstance(into, RawDestination):
            self._reader.into_memory(payload, into, ranges)
        elif ranges:
            self._reader.into(payload, bytes_of(target), ranges)
        return target

    def _read_nested(self, name: str, rows: Any, into: object) -> Tensor:
        if into is not None:
            raise ValueError(f"structured nested tensor member {name} does not support destinations")
        tensor = decode_nested(self._reader.whole(self.payloads[name]), self.spec(name))
        return tensor if rows is None else select_nested(tensor, _rows(name, rows, (len(tensor),)))

    def _read_tensor(self, name: str, into: Any) -> Tensor:
        payload = self.payloads[name]
        is_saved = payload.get("format") == "torch_save"
        _check_tensor_target(name, into, is_saved)
        if payload.get("kind") == "tensor" and into is None:
            return as_described(self._reader.tensor(payload), self.spec(name))
        if payload.get("kind") == "tensor":
            _check_room(into, payload["bytes"])
            return as_described(self._reader.tensor_into(payload, into.ptr, into.size), self.spec(name))
        if into is not None:
            _check_room(into, payload["bytes"])
            self._reader.into_memory(payload, into, [Range(0, 0, payload["bytes"])])
            return into
        content = self._reader.whole(payload)
        return as_described(loaded(content) if is_saved else deserialize_tensor(content), self.spec(name))

    def _read_tensor_rows(self, name: str, rows: Any, into: Any) -> Tensor:
        payload, spec = self.payloads[name], self.spec(name)
        is_saved = payload.get("format") == "torch_save"
        _check_tensor_target(name, into, is_saved)
        shape = stored_shape(spec.get("shape"), f"structured tensor field {name}")
        rows = _rows(name, rows, shape)
        if is_saved:
            return loaded(self._reader.whole(payload))[list(rows)]
        header_bytes = payload.get("metadata_bytes")
        if type(header_bytes) is not int or header_bytes <= 0:
            raise ValueError(f"structured tensor field {name} is missing slice metadata")
        header = self._reader.part(payload, 0, header_bytes)
        new_header = header_for(header, payload["bytes"], spec, len(rows))
        row_bytes = (payload["bytes"] - header_bytes) // max(shape[0], 1)
        if into is None:
            tensor, target = empty_rows(spec, len(rows))
            self._reader.into(payload, target, row_ranges(rows, row_bytes, header_bytes))
            return tensor
        _check_room(into, header_bytes + len(rows) * row_bytes)
        self._reader.into_memory(payload, into, row_ranges(rows, row_bytes, header_bytes, header_bytes))
        write_at(into.ptr, new_header)
        return into


def _rows(name: str, rows: Sequence[int] | StructuredMemberSlice, shape: tuple[int, ...]) -> Sequence[int]:
    """The row numbers for a member of this shape. Raises ValueError if it has no rows, and IndexError for rows out of
    range.
    """
    if isinstance(rows, StructuredMemberSlice):
        rows = rows_of_slice(rows, shape[0] if shape else 0)
    if not shape:
        raise ValueError(f"structured member {name} has no rows: slicing requires at least one dimension")
    if rows and not 0 <= min(rows) <= max(rows) < shape[0]:
        raise IndexError(f"structured member {name} has only {shape[0]} rows")
    return rows


def _array_target(name: str, into: Any, dtype: Any, shape: tuple[int, ...]) -> Array:
    """The array to read into: a new one, the caller's, or one over the caller's memory.

    Raises TypeError or ValueError if the caller's array or memory does not suit the type and shape.
    """
    what = f"structured ndarray field {name} destination"
    if into is None:
        return np.empty(shape, dtype=dtype)
    if isinstance(into, RawDestination):
        size = length_bytes(shape, dtype)
        if into.size < size:
            raise ValueError(f"raw destination has {into.size} bytes, expected at least {size}")
        return memory_at(into.ptr, size, into.owner).view(dtype).reshape(shape)
    if not isinstance(into, np.ndarray):
        raise TypeError(f"{what} must be a numpy.ndarray or raw_destination")
    if into.dtype != dtype:
        raise ValueError(f"{what} dtype mismatch: expected {dtype.str}, got {into.dtype.str}")
    if into.shape != shape:
        raise ValueError(f"{what} shape mismatch: expected {shape}, got {into.shape}")
    if not into.flags.c_contiguous:
        raise ValueError(f"{what} must be C-contiguous")
    if not into.flags.writeable:
        raise ValueError(f"{what} must be writeable")
    return into


def _check_tensor_target(name: str, into: object, is_saved: bool) -> None:
    if into is not None and is_saved:
        raise ValueError(f"structured torch_save tensor member {name} does not support destinations")
    if into is not None and not isinstance(into, (TensorObjectBuffer, RawDestination)):
        raise ValueError(
            f"structured tensor member {name} only supports tensor_object_buffer or raw_destination destinations"
        )


def _check_room(into: TensorObjectBuffer | RawDestination, expected: int) -> None:
    if into.size < expected:
        raise ValueError(f"tensor destination has {into.size} bytes, expected at least {expected}")
