"""The store as an L2 tier of LMCache's multi-process mode, which loads this connector by its name:

    lmcache server ... --l2-adapter '{"type": "native_plugin", "module_path": "mooncake.lmcache",
        "class_name": "StoreConnector", "adapter_params": {"master_server_addr": "10.0.0.1:50051"}}'

LMCache's own adapter for Mooncake is an extension in C++ against the C++ package, which its wheel lacks. This class has
the interface of such extensions (LMCache 0.5.6, `native_plugin`): calls begin tasks and return their numbers, a
descriptor becomes readable when some have ended, and `drain_completions` says how.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .store import MooncakeDistributedStore

# A task's number, whether it succeeded, what went wrong, and the result for each key.
Completion = tuple[int, bool, str, "list[bool] | None"]

_DEFAULTS = {
    "local_hostname": "localhost",
    "metadata_server": "P2PHANDSHAKE",
    # LMCache's own memory is the source and the target of all transfers.
    "global_segment_size": "0",
    "local_buffer_size": "0",
}
_EXISTS = -705


class StoreConnector:
    """Tasks on a store, by threads of its own. All arguments but `num_workers` are those of `setup`'s dict, in any type
    whose text `setup` reads. The store lends no memory unless `global_segment_size` says so.

    A look-up leases what it finds, so that the load which follows still finds it. An object whose length is not that of
    the buffer counts as missing."""

    def __init__(self, num_workers: int = 4, **settings: Any) -> None:
        if not isinstance(num_workers, int) or num_workers < 1:
            raise ValueError(f"num_workers must be a whole number above zero, not {num_workers!r}")
        self._store = MooncakeDistributedStore()
        given = {name: str(value) for name, value in settings.items() if value is not None}
        code = self._store.setup({**_DEFAULTS, **given})
        if code != 0:
            raise RuntimeError(f"the store could not be set up: {code}; the log says why")
        self._event_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._workers = ThreadPoolExecutor(num_workers, "lmcache-store")
        self._lock = threading.Lock()
        self._last_task = 0
        self._completions: list[Completion] = []

    def event_fd(self) -> int:
        """A descriptor that can be read while completions wait."""
        return self._event_fd

    def submit_batch_set(self, keys: Sequence[str], buffers: Sequence[memoryview]) -> int:
        """Stores these bytes. The task fails if one of them is not stored. Those that are there already stay."""

        def put() -> list[bool]:
            codes = self._store.batch_put_from(keys, *_places(buffers))
            return [code in (0, _EXISTS) for code in codes]

        return self._begin(put, needs_all=True)

    def submit_batch_get(self, keys: Sequence[str], buffers: Sequence[memoryview]) -> int:
        """Loads objects into these buffers. The task fails if one is missing; the results say which are there."""

        def get() -> list[bool]:
            addresses, sizes = _places(buffers)
            lengths = self._store.batch_get_into(keys, addresses, sizes)
            return [length == size for length, size in zip(lengths, sizes, strict=True)]

        return self._begin(get, needs_all=True)

    def submit_batch_exists(self, keys: Sequence[str]) -> int:
        """Looks objects up, and leases those that are there."""
        return self._begin(lambda: [found == 1 for found in self._store.batch_is_exist(keys)])

    def submit_batch_delete(self, keys: Sequence[str]) -> int:
        """Removes objects, but for those that somebody reads."""
        return self._begin(lambda: [code == 0 for code in self._store.batch_remove(keys)])

    def drain_completions(self) -> list[Completion]:
        """The tasks that have ended since the last call."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._event_fd)
        with self._lock:
            ended, self._completions = self._completions, []
        return ended

    def close(self) -> None:
        """Waits for the tasks that have begun, and leaves the pool."""
        self._workers.shutdown()
        self._store.close()
        if self._event_fd >= 0:
            os.close(self._event_fd)
            self._event_fd = -1

    def _begin(self, call: Callable[[], list[bool]], needs_all: bool = False) -> int:
        with self._lock:
            self._last_task += 1
            task = self._last_task
        self._workers.submit(self._run, task, call, needs_all)
        return task

    def _run(self, task: int, call: Callable[[], list[bool]], needs_all: bool) -> None:
        ended: Completion
        try:
            results = call()
            failed = results.count(False) if needs_all else 0
            message = f"{failed} of {len(results)} objects" if failed else ""
            ended = (task, failed == 0, message, results)
        except Exception as error:  # LMCache waits for each task that has begun.
            ended = (task, False, f"{type(error).__name__}: {error}", None)
        with self._lock:
            self._completions.append(ended)
        os.eventfd_write(self._event_fd, 1)


def _places(buffers: Sequence[memoryview]) -> tuple[list[int], list[int]]:
    """The addresses and the lengths of buffers, which their owner keeps."""
    addresses = [ctypes.addressof(ctypes.c_char.from_buffer(buffer)) for buffer in buffers]
    return addresses, [buffer.nbytes for buffer in buffers]
