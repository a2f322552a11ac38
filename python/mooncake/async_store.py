"""The store for asyncio: `await store.async_get(key)`, and the same for every method."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, cast

from mooncake.store import MooncakeDistributedStore

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["MooncakeDistributedStoreAsync"]

PREFIX = "async_"


class MooncakeDistributedStoreAsync(MooncakeDistributedStore):
    """A store in which every public method `m` has a twin `async_m` with the same arguments and result.

    The twins run in threads of this store, so many of them may be awaited at a time. The plain methods do not change.

    A twin that is cancelled before it began does nothing. A twin that has begun runs to its end, and only then raises
    CancelledError: memory that was passed by address is not used afterwards. A timeout therefore does not shorten a
    call.
    """

    def __new__(cls, *_: object, **__: object) -> Self:
        return cast("Self", super().__new__(cls))

    def __init__(self, max_workers: int | None = None) -> None:
        """At most `max_workers` calls run at a time; others wait. None means the default of `ThreadPoolExecutor`.

        Raises ValueError if it is not positive.
        """
        super().__init__()
        if max_workers is not None and max_workers <= 0:
            raise ValueError(f"max_workers must be positive, got {max_workers}")
        self._max_workers = max_workers
        self._guard = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        method = name.removeprefix(PREFIX)
        known = name.startswith(PREFIX) and not method.startswith(("_", PREFIX))
        call = getattr(self, method, None) if known else None
        if not callable(call):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return self._twin(name, call)

    def __dir__(self) -> list[str]:
        plain = list(super().__dir__())
        public = [name for name in plain if not name.startswith(("_", PREFIX)) and callable(getattr(self, name, None))]
        return sorted({*plain, *(PREFIX + name for name in public)})

    def close(self) -> int:
        """Waits for running calls, cancels waiting ones, and closes the store. It may be set up again. Returns 0."""
        with self._guard:
            executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=True, cancel_futures=True)
        return super().close()

    async def async_close(self) -> int:
        """Runs `close` in a thread of its own, because `close` ends the threads of the twins."""
        with ThreadPoolExecutor(1) as own:
            return int(await _finish(own.submit(self.close), "async_close"))

    def _twin(self, name: str, call: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, Any]]:
        @functools.wraps(call, assigned=("__doc__",), updated=())
        async def twin(*args: Any, **kwargs: Any) -> Any:
            with self._guard:
                if self._executor is None:
                    self._executor = ThreadPoolExecutor(self._max_workers, thread_name_prefix="mooncake-async")
                future = self._executor.submit(call, *args, **kwargs)
            return await _finish(future, name)

        twin.__name__ = name
        return twin


async def _finish(future: Future[Any], name: str) -> Any:
    """Waits for the call to end, even if the waiting task is cancelled meanwhile. Returns or raises its outcome."""
    waiter = asyncio.wrap_future(future)
    cancelled: asyncio.CancelledError | None = None
    while not waiter.done():
        try:
            await asyncio.wait((waiter,))
        except asyncio.CancelledError as error:
            cancelled = error
            # This has no effect on a call that has begun.
            future.cancel()
    if cancelled is not None:
        if not waiter.cancelled():
            waiter.exception()
        raise cancelled
    if waiter.cancelled():
        raise RuntimeError(f"the store was closed before {name} began")
    return waiter.result()
