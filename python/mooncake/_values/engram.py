"""Embedding tables in the store: one object per head, with rows of float32 numbers. Look-ups read single rows.

Head `h` of layer `l` has the key `engram:l<l>:h<h>`. The caller decides which rows a token needs.
"""

from __future__ import annotations

import importlib
import operator
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, SupportsIndex, TypeAlias

# NumPy is not a dependency of this package. The methods that need it import it, so its types are unknown here.
Array: TypeAlias = Any
Ranges: TypeAlias = list[list[list[int]]]

OBJECT_NOT_FOUND = -704
ITEM_BYTES = 4
_MAX_I64 = (1 << 63) - 1
_MAX_I32 = (1 << 31) - 1
_CALLS = ("batch_is_exist", "batch_put_from", "get_into_ranges", "register_buffer", "unregister_buffer", "remove")


class _Memory(Protocol):
    """The methods of a store that register memory for transfers."""

    def register_buffer(self, buffer_ptr: SupportsIndex, size: SupportsIndex) -> int: ...
    def unregister_buffer(self, buffer_ptr: SupportsIndex) -> int: ...


def _has_calls(store: object) -> bool:
    return all(hasattr(store, name) for name in _CALLS)


def _numpy() -> Any:
    try:
        return importlib.import_module("numpy")
    except ImportError as error:
        raise ImportError("EngramStore needs NumPy: pip install numpy", name="numpy") from error


def _integer(name: str, value: object, least: int, most: int) -> int:
    try:
        result = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"'{name}' must be an int, not {type(value).__name__}") from None
    if not least <= result <= most:
        raise TypeError(f"'{name}' must be from {least} to {most}, not {result}")
    return result


class EngramStoreConfig:
    """The tables of one layer: `table_vocab_sizes`, the number of rows per head, and `embedding_dim`, the length of a
    row.
    """

    __slots__ = ("_embedding_dim", "_table_vocab_sizes")

    def __init__(self) -> None:
        self._table_vocab_sizes = [1024]
        self._embedding_dim = 64

    @property
    def table_vocab_sizes(self) -> list[int]:
        """The number of rows per head, in the order of the heads."""
        return list(self._table_vocab_sizes)

    @table_vocab_sizes.setter
    def table_vocab_sizes(self, value: Iterable[int]) -> None:
        sizes = list(value)
        self._table_vocab_sizes = [_integer("table_vocab_sizes", size, -_MAX_I64, _MAX_I64) for size in sizes]

    @property
    def embedding_dim(self) -> int:
        """The number of float32 values per row."""
        return self._embedding_dim

    @embedding_dim.setter
    def embedding_dim(self, value: int) -> None:
        self._embedding_dim = _integer("embedding_dim", value, -_MAX_I32, _MAX_I32)


class EngramStore:
    """The tables of one layer in a store. Without a store, only the methods that describe the tables work.

    Raises TypeError for a `config` or `layer_id` of a wrong type, and RuntimeError for a `store` of a wrong type.
    Raises ValueError for a configuration without tables, or with sizes that are not positive or too large.
    """

    def __init__(self, layer_id: int, config: EngramStoreConfig, store: object = None) -> None:
        if not isinstance(config, EngramStoreConfig):
            raise TypeError(f"'config' must be an EngramStoreConfig, not {type(config).__name__}")
        if not _has_calls(store) and hasattr(store, "_get_pyclient_capsule"):
            store = store._get_pyclient_capsule()
        if store is not None and not _has_calls(store):
            raise RuntimeError("EngramStore store parameter must be a MooncakeDistributedStore or None")
        layer = _integer("layer_id", layer_id, -_MAX_I32 - 1, _MAX_I32)
        self._sizes = config.table_vocab_sizes
        self._dim = config.embedding_dim
        if not self._sizes:
            raise ValueError("EngramStoreConfig.table_vocab_sizes must not be empty")
        if self._dim <= 0:
            raise ValueError("EngramStoreConfig.embedding_dim must be positive")
        if min(self._sizes) <= 0:
            raise ValueError("EngramStoreConfig.table_vocab_sizes must contain only positive values")
        if max(self._sizes) * self._dim * ITEM_BYTES > _MAX_I64:
            raise ValueError("EngramStoreConfig.table_vocab_sizes must fit into memory")
        self._keys = [f"engram:l{layer}:h{head}" for head in range(len(self._sizes))]
        self._store: Any = store

    def get_table_vocab_sizes(self) -> list[int]:
        """The number of rows per head, in the order of the heads."""
        return list(self._sizes)

    def get_store_keys(self) -> list[str]:
        """The key of each head's table, in the order of the heads."""
        return list(self._keys)

    def get_num_heads(self) -> int:
        """The number of heads, and of tables."""
        return len(self._sizes)

    def get_embedding_dim(self) -> int:
        """The number of float32 values per row."""
        return self._dim

    def populate(self, embedding_buffers: list[Array]) -> None:
        """Stores the tables of all heads, or none of them. Each is a NumPy array of shape (rows, embedding_dim), of
        numbers that are converted to float32.

        Raises TypeError for an argument that is no list. Raises RuntimeError for arrays of a wrong number, type or
        shape. Also raises it without a store, if a table exists already, or if the store does not take the tables.
        """
        if not isinstance(embedding_buffers, list):
            found = type(embedding_buffers).__name__
            raise TypeError(
                f"populate(): incompatible function arguments: 'embedding_buffers' must be a list, not {found}"
            )
        if len(embedding_buffers) != len(self._sizes):
            raise RuntimeError("embedding_buffers size must match num_heads")
        tables = [self._table(buffer, rows) for buffer, rows in zip(embedding_buffers, self._sizes, strict=True)]
        if self._store is None or any(self._store.batch_is_exist(self._keys)):
            raise RuntimeError("populate failed: no store, or a table of this layer is there already")
        with _registered(self._store, tables):
            addresses = [table.ctypes.data for table in tables]
            codes = self._store.batch_put_from(self._keys, addresses, [table.nbytes for table in tables])
        if any(codes):
            for key, code in zip(self._keys, codes, strict=True):
                if code == 0:
                    self._store.remove(key, True)
            raise RuntimeError(f"populate failed: {codes}")

    def _table(self, buffer: Array, rows: int) -> Array:
        numpy = _numpy()
        if not isinstance(buffer, numpy.ndarray):
            raise RuntimeError("embedding_buffers must be NumPy arrays")
        if buffer.dtype.kind not in "biuf":
            raise RuntimeError("embedding_buffers must be float32 arrays")
        if buffer.ndim != 2:
            raise RuntimeError("each embedding buffer must be 2D [N_h, D]")
        if buffer.shape != (rows, self._dim):
            raise RuntimeError("embedding buffer shape does not match get_table_vocab_sizes()/get_embedding_dim()")
        return numpy.ascontiguousarray(buffer, dtype=numpy.float32)

    def lookup(self, row_ids: Array) -> Array:
        """Reads rows of the tables. `row_ids` are row numbers of shape (batch, tokens, heads): a NumPy array or nested
        lists.

        Returns a float32 array of shape (batch, tokens, heads, embedding_dim).

        Raises RuntimeError without a store, for another shape, for a row number out of range, and for a missing table.
        """
        numpy = _numpy()
        ids = self._ids(row_ids)
        if self._store is None or 0 in ids.shape:
            raise RuntimeError("EngramStore lookup failed: no store, or nothing to look up")
        if bool((ids < 0).any()) or bool((ids >= numpy.array(self._sizes)).any()):
            raise RuntimeError("EngramStore lookup failed: a row id is out of range")
        output = numpy.empty((*ids.shape, self._dim), dtype=numpy.float32)
        if not self._read(ids, output):
            raise RuntimeError("EngramStore lookup failed: a table cannot be read")
        return output

    def _ids(self, row_ids: Array) -> Array:
        """The row numbers as an int64 array. Raises RuntimeError for another shape or another number of heads."""
        numpy = _numpy()
        if not isinstance(row_ids, numpy.ndarray):
            return self._nested_ids(row_ids)
        if row_ids.dtype.kind not in "biuf":
            raise RuntimeError("row_ids array must be convertible to int64")
        if row_ids.ndim != 3:
            raise RuntimeError("row_ids array must have shape [B, L, H]")
        if row_ids.shape[2] != len(self._sizes):
            raise RuntimeError("row_ids last dimension must match num_heads")
        with numpy.errstate(invalid="ignore"):
            ids = row_ids.astype(numpy.int64)
        if not bool((ids == row_ids).all()):
            raise RuntimeError("row_ids array must be convertible to int64")
        return ids

    def _nested_ids(self, row_ids: Iterable[Iterable[Iterable[int]]]) -> Array:
        batch = [[list(heads) for heads in tokens] for tokens in row_ids]
        if not batch or not batch[0]:
            raise RuntimeError("row_ids must not be empty")
        if any(len(tokens) != len(batch[0]) for tokens in batch):
            raise RuntimeError("EngramStore lookup failed: row_ids are not as long as each other")
        if any(len(heads) != len(self._sizes) for tokens in batch for heads in tokens):
            raise RuntimeError("EngramStore lookup failed: row_ids must have one number per head")
        try:
            flat = [_integer("row_ids", item, -_MAX_I64, _MAX_I64) for t in batch for heads in t for item in heads]
        except TypeError as error:
            raise RuntimeError(str(error)) from None
        return _numpy().array(flat, dtype="int64").reshape(len(batch), len(batch[0]), len(self._sizes))

    def _read(self, ids: Array, output: Array) -> bool:
        """Reads all rows into `output` with one call. Returns whether all were read."""
        row_bytes = self._dim * ITEM_BYTES
        by_head = ids.reshape(-1, len(self._sizes)).T
        heads, tokens = by_head.shape
        targets: Ranges = [[[(token * heads + head) * row_bytes for token in range(tokens)] for head in range(heads)]]
        sources: Ranges = [[[row * row_bytes for row in rows] for rows in by_head.tolist()]]
        sizes: Ranges = [[[row_bytes] * tokens for _ in range(heads)]]
        with _registered(self._store, [output]):
            read: Ranges = self._store.get_into_ranges([output.ctypes.data], [self._keys], targets, sources, sizes)
        return read == sizes

    def remove_from_store(self, force: bool = False) -> int:
        """Removes the tables of this layer. With `force`, also tables under a lease. Returns the number of tables
        removed.

        Raises RuntimeError with the first negative code if a table cannot be removed; the others are removed anyway.
        """
        if self._store is None:
            raise RuntimeError("remove_from_store failed, rc=-600")
        codes = [self._store.remove(key, force) for key in self._keys]
        failed = [code for code in codes if code not in (0, OBJECT_NOT_FOUND)]
        if failed:
            raise RuntimeError(f"remove_from_store failed, rc={failed[0]}")
        return codes.count(0)


@contextmanager
def _registered(store: _Memory, arrays: list[Array]) -> Iterator[None]:
    """Registers the arrays' memory during a transfer. Memory that the caller has registered stays registered."""
    places = {array.ctypes.data: array.nbytes for array in arrays}
    done = [address for address, size in places.items() if store.register_buffer(address, size) == 0]
    try:
        yield
    finally:
        for address in done:
            store.unregister_buffer(address)
