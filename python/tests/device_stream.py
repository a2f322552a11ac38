"""A device that runs late: what it is given runs in order, on a thread of its own, once it is let go."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable


class DeviceStream:
    """Used in a `with`; a test that fails lets it go, so that nothing waits for it for ever."""

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
