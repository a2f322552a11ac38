"""A pool of buffers that a store can read and write without a copy. It lends them and uses them again.

The pool takes memory from the store's local buffer. When that is full, it takes memory from the system, and registers
it with the store while it is lent.
"""

from __future__ import annotations

import operator
import threading
import time
import weakref
from typing import TYPE_CHECKING, SupportsFloat, SupportsIndex

from mooncake._native import BufferLeaseView, MooncakeDistributedStore, MooncakeHostMemAllocator

if TYPE_CHECKING:
    from types import TracebackType

    from mooncake._native import _LocalMemory

__all__ = ["BufferLease", "BufferLeaseView", "BufferPool", "RegisteredBufferPool"]

_POINTER_BYTES = 8


class BufferLease:
    """Memory that a pool lends: `size` bytes at `ptr`. It ends by `release`, a `with` block, or garbage collection.

    The memory stays mapped until then, even if the store is closed before.
    """

    def __init__(self) -> None:
        raise TypeError("a BufferLease comes from BufferPool.acquire()")

    @classmethod
    def _lent(cls, pool: BufferPool, ptr: int, size: int) -> BufferLease:
        lease = cls.__new__(cls)
        lease._pool, lease._ptr, lease._size = pool, ptr, size
        lease._views = weakref.WeakSet()
        lease._guard = threading.Lock()
        return lease

    _pool: BufferPool | None = None
    _ptr: int
    _size: int
    _views: weakref.WeakSet[BufferLeaseView]
    # Held while a view is made and while the lease ends, so that no view shows memory of an ended lease.
    _guard: threading.Lock

    @property
    def ptr(self) -> int:
        """The address of the first byte. Raises RuntimeError once the lease is released."""
        if self._pool is None:
            raise RuntimeError("the buffer lease is closed")
        return self._ptr

    @property
    def size(self) -> int:
        """The length in bytes that `acquire` was asked for."""
        return self._size

    @property
    def buffer(self) -> memoryview:
        """A writable memoryview of the memory. The lease lasts at least as long as the view and everything made of it.

        Raises RuntimeError once the lease is released.
        """
        with self._guard:
            view = BufferLeaseView._of(self, self.ptr, self._size)
            self._views.add(view)
        return memoryview(view)

    def release(self) -> None:
        """Returns the memory to the pool. A second call does nothing. Raises RuntimeError while views of the memory
        exist.
        """
        with self._guard:
            if self._pool is None:
                return
            if len(self._views) > 0:
                raise RuntimeError("cannot release a buffer while exported views of it exist")
            self._give_back()

    def _give_back(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            pool._take_back(self._ptr)

    def __enter__(self) -> BufferLease:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.release()
        except RuntimeError:
            # An exception that leaves the block may hold views. It must not be hidden; the lease ends with its last
            # view.
            if error is None:
                raise

    def __del__(self) -> None:
        self._give_back()


class BufferPool:
    """Lends buffers of any size, together up to `max_bytes` bytes, but at least the size of the store's local buffer.

    - `max_bytes`: 0 means twice the size of the store's local buffer.
    - `block_on_exhaustion`: whether `acquire` waits for room; for at most `default_timeout` seconds, if that is given.
    - `max_regions`: the most buffers that are lent at a time.
    - `alignment`: accepted. Memory from the system is aligned to pages in any case.
    - `min_size_class`, `max_size_class`, `prewarm_size`, `prewarm_count`: accepted, without effect, because every
      buffer has the requested size.

    `store` may also be an object with a method `_get_pyclient_capsule()` that returns a store.

    Raises TypeError for another `store`. Raises RuntimeError for a store that is not set up or has no local buffer,
    and for numbers out of range.
    """

    def __init__(
        self,
        store: MooncakeDistributedStore,
        max_bytes: SupportsIndex = 0,
        min_size_class: SupportsIndex = 65536,
        max_size_class: SupportsIndex | None = None,
        alignment: SupportsIndex = 8388608,
        block_on_exhaustion: bool = True,
        default_timeout: SupportsFloat | None = None,
        max_regions: SupportsIndex | None = None,
        prewarm_size: SupportsIndex | None = None,
        prewarm_count: SupportsIndex = 0,
    ) -> None:
        self._closed = True
        if _size("min_size_class", min_size_class) == 0:
            raise RuntimeError("min_size_class must be positive")
        align = _size("alignment", alignment)
        if align < _POINTER_BYTES or align & (align - 1):
            raise RuntimeError(f"alignment must be a power of two and at least {_POINTER_BYTES}, not {align}")
        if max_size_class is not None:
            _size("max_size_class", max_size_class)
        store = _unwrapped(store)
        local = store._local_buffer_size()
        if local == 0:
            raise RuntimeError("a BufferPool needs a store that is set up with a local buffer")
        wanted = _size("max_bytes", max_bytes)
        self._max_bytes = max(wanted, local) if wanted else 2 * local
        self._max_leases = None if max_regions is None else _size("max_regions", max_regions)
        self._block = bool(block_on_exhaustion)
        self._timeout = None if default_timeout is None else _seconds("default_timeout", default_timeout)
        self._store = store
        self._system = MooncakeHostMemAllocator()
        self._room = threading.Condition(threading.RLock())
        # By address: the length, and the object that reserves a range of the local buffer; None for memory of the
        # system.
        self._lent: dict[int, tuple[int, _LocalMemory | None]] = {}
        self._lent_bytes = 0
        self._closed = False
        if prewarm_size is not None:
            self.prewarm(prewarm_size, prewarm_count)

    def acquire(
        self, size: SupportsIndex, block: bool | None = None, timeout: SupportsFloat | None = None
    ) -> BufferLease:
        """Lends `size` bytes. `block` and `timeout`, in seconds, override the arguments of the constructor.

        Raises RuntimeError in these cases:

        - the pool is closed, or `size` exceeds it;
        - the pool is exhausted and `block` is false, or the time is over;
        - the system has no memory.
        """
        length = _size("size", size)
        block = self._block if block is None else bool(block)
        limit = self._timeout if timeout is None else _seconds("timeout", timeout)
        if length > self._max_bytes:
            raise RuntimeError(f"{length} bytes exceed the capacity of the pool, {self._max_bytes} bytes")
        deadline = None if limit is None else time.monotonic() + limit
        with self._room:
            while True:
                lease = self._try_to_lend(length)
                if lease is not None:
                    return lease
                if not block:
                    raise RuntimeError("the buffer pool is exhausted")
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise RuntimeError(f"timed out after {limit} s waiting for a buffer")
                self._room.wait(None if left is None else min(left, threading.TIMEOUT_MAX))

    def buffer(
        self, size: SupportsIndex, block: bool | None = None, timeout: SupportsFloat | None = None
    ) -> BufferLease:
        """Another name of `acquire`."""
        return self.acquire(size, block, timeout)

    def prewarm(self, size: SupportsIndex, count: SupportsIndex) -> None:
        """Checks the types of its arguments, and does nothing else: there is nothing to prewarm."""
        _size("size", size)
        _size("count", count)

    def close(self) -> None:
        """Closes the pool. A second call does nothing. Raises RuntimeError while buffers are lent."""
        with self._room:
            if self._lent:
                raise RuntimeError(f"cannot close a buffer pool with {len(self._lent)} active leases")
            self._closed = True
            self._room.notify_all()

    def _try_to_lend(self, length: int) -> BufferLease | None:
        if self._closed:
            raise RuntimeError("the buffer pool is closed")
        bytes_taken = max(length, 1)
        if self._lent_bytes + bytes_taken > self._max_bytes:
            return None
        if self._max_leases is not None and len(self._lent) >= self._max_leases:
            return None
        local = self._store._lend_from_mem_pool(bytes_taken)
        ptr = self._from_system(bytes_taken) if local is None else local.ptr
        self._lent[ptr] = (bytes_taken, local)
        self._lent_bytes += bytes_taken
        return BufferLease._lent(self, ptr, length)

    def _take_back(self, ptr: int) -> None:
        with self._room:
            bytes_taken, local = self._lent.pop(ptr)
            self._lent_bytes -= bytes_taken
            if local is None:
                self._to_system(ptr)
            # Drops the reference before it wakes waiting threads: that returns the range to the local buffer.
            del local
            self._room.notify_all()

    def _from_system(self, length: int) -> int:
        ptr = self._system.alloc(length)
        if ptr == 0:
            raise RuntimeError(f"the system has no memory for a buffer of {length} bytes")
        code = self._store.register_buffer(ptr, length)
        if code != 0:
            self._system.free(ptr)
            raise RuntimeError(f"a buffer of {length} bytes could not be registered: {code}")
        return ptr

    def _to_system(self, ptr: int) -> None:
        # If the store was closed meanwhile, it has forgotten the registration, and this returns an error code.
        self._store.unregister_buffer(ptr)
        self._system.free(ptr)


RegisteredBufferPool = BufferPool


def _unwrapped(store: object) -> MooncakeDistributedStore:
    unwrap = getattr(store, "_get_pyclient_capsule", None)
    inner = unwrap() if callable(unwrap) else store
    if not isinstance(inner, MooncakeDistributedStore):
        raise TypeError(f"BufferPool: 'store' must be a MooncakeDistributedStore, not {type(store).__name__}")
    return inner


def _size(name: str, value: SupportsIndex) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"BufferPool: '{name}' must be an integer, not {type(value).__name__}") from None
    if not 0 <= number < 1 << 64:
        raise TypeError(f"BufferPool: '{name}' must be an integer from 0 to 2**64 - 1, not {number}")
    return number


def _seconds(name: str, value: SupportsFloat) -> float:
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"BufferPool: '{name}' must be a number of seconds, not {type(value).__name__}") from None
    if not seconds >= 0:
        raise RuntimeError(f"{name} must not be negative, but is {seconds}")
    return seconds
