"""How many saves of each request are under way: its blocks must not be given away before they are over."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable

logger = logging.getLogger(__name__)

REPORT_SECONDS = 5.0


class PendingSaves:
    """Counted by the thread of the engine, counted down by the one that sends."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._counts: dict[str, int] = {}
        self._finished: set[str] = set()

    def begin(self, request_id: str) -> None:
        with self._changed:
            self._counts[request_id] = self._counts.get(request_id, 0) + 1

    def end(self, request_id: str) -> None:
        with self._changed:
            self._counts[request_id] -= 1
            if not self._counts[request_id]:
                del self._counts[request_id]
            self._changed.notify_all()

    def finish(self, request_ids: Iterable[str]) -> None:
        """These requests are over, so `take_finished` will return them."""
        with self._changed:
            self._finished.update(request_ids)

    def take_finished(self) -> set[str]:
        """Those that are over and have no save under way, each once."""
        with self._changed:
            done = {request_id for request_id in self._finished if not self._counts.get(request_id)}
            self._finished -= done
            return done

    def wait(self, request_ids: Iterable[str], is_alive: Callable[[], bool]) -> None:
        """Returns once no save of these requests is under way, or nobody `is_alive` who could do it.

        There is no other limit, because a put that reads a block while it gets new content would store wrong bytes.
        The calls of the store that it waits for have limits.
        """
        wanted = list(request_ids)
        with self._changed:
            while any(self._counts.get(request_id) for request_id in wanted) and is_alive():
                if not self._changed.wait(REPORT_SECONDS):
                    logger.warning("still waiting for saves of %s", wanted)
