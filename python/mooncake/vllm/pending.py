"""Counts the running saves of each request. The request's blocks must not be reused before its saves have ended."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable

logger = logging.getLogger(__name__)

REPORT_SECONDS = 5.0


class PendingSaves:
    """The engine's thread counts saves up. The sending thread counts them down."""

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
        """Records that these requests have ended: `take_finished` will return them."""
        with self._changed:
            self._finished.update(request_ids)

    def take_finished(self) -> set[str]:
        """The requests that have ended and whose saves have ended, each once."""
        with self._changed:
            done = {request_id for request_id in self._finished if not self._counts.get(request_id)}
            self._finished -= done
            return done

    def wait(self, request_ids: Iterable[str], is_alive: Callable[[], bool]) -> None:
        """Waits until no save of these requests runs, or until `is_alive` says that the sending thread has ended.

        There is no other limit: a save that reads a block while the block gets new content would store wrong bytes.
        The calls of the store that the save makes have limits.
        """
        wanted = list(request_ids)
        with self._changed:
            while any(self._counts.get(request_id) for request_id in wanted) and is_alive():
                if not self._changed.wait(REPORT_SECONDS):
                    logger.warning("still waiting for saves of %s", wanted)
