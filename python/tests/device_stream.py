"""A slow device: it runs its jobs in order on its own thread, after the test has released it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable


class DeviceStream:
    """Used in a `with`, which releases the device when a test fails, so that no job waits for ever."""

    def __init__(self) -> None:
        self.jobs: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self.is_free = threading.Event()
        self.thread = threading.Thread(target=self._run, name="device", daemon=True)

    def __enter__(self) -> DeviceStream:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.jobs.put(None)
        self.is_free.set()
        self.thread.join()

    def launch(self, job: Callable[[], object]) -> None:
        self.jobs.put(job)

    def mark(self) -> Callable[[], None]:
        reached = threading.Event()
        self.launch(reached.set)

        def wait() -> None:
            reached.wait()

        return wait

    def _run(self) -> None:
        while (job := self.jobs.get()) is not None:
            self.is_free.wait()
            job()
