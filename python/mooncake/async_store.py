"""The store for asyncio: `await store.async_get(key)`, and so for every method."""

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
    """A store whose public methods `m` have a twin `async_m` with the same arguments and result.

    The twins run in threads of the store's own, so many may be awaited at a time. The plain methods stay as they are.

    A twin that is cancelled before it began does nothing. One that has begun runs to its end, and only then is the
    cancellation raised: addresses that were passed are not touched afterwards. So a timeout does not cut a call short.
    """

    def __new__(cls, *_: object, **__: object) -> Self:
        return cast("Self", super().__new__(cls))

    def __init__(self, max_workers: int | None = None) -> None:
        """`max_workers` calls run at a time, the others wait; by default as many as `ThreadPoolExecutor` takes.

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
        """Waits for the calls that run, gives up those that wait, and closes the store. May be set up again."""
        with self._guard:
            executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=True, cancel_futures=True)
        return super().close()

    async def async_close(self) -> int:
        """As `close`, which cannot run in the threads that it ends."""
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
    """What the call returns or raises, once it has ended; also when the task that waits is cancelled meanwhile."""
    waiter = asyncio.wrap_future(future)
    cancelled: asyncio.CancelledError | None = None
    while not waiter.done():
        try:
            await asyncio.wait((waiter,))
        except asyncio.CancelledError as error:
            cancelled = error
            # Of no effect on a call that has begun.
            future.cancel()
    if cancelled is not None:
        if not waiter.cancelled():
            waiter.exception()
        raise cancelled
    if waiter.cancelled():
        raise RuntimeError(f"the store was closed before {name} began")
    return waiter.result()
