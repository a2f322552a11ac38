"""Saves that still need blocks of a request. The blocks must not get other bytes while a save reads them.

A save reads its blocks only for moments, and can be cancelled at all other times. So the engine waits for a moment at
most when it takes the blocks of a preempted request, however long the pool takes to answer.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

logger = logging.getLogger(__name__)

REPORT_SECONDS = 5.0


class Hold:
    """What one save needs: the blocks of a request keep their bytes until it has ended or is cancelled."""

    def __init__(self, request_id: str) -> None:
        self.request_id = request_id
        self.is_reading = False
        self.is_cancelled = False
        self.is_over = False


class PendingSaves:
    """The engine's thread begins and cancels saves. The sending thread reads blocks and ends saves."""

    def __init__(self, wait_seconds: float = float("inf")) -> None:
        """Saves of a request that has ended are cancelled `wait_seconds` later."""
        self.wait_seconds = wait_seconds
        self.cancelled = 0
        self._changed = threading.Condition()
        self._holds: dict[str, list[Hold]] = {}
        # The requests that have ended, and when.
        self._finished: dict[str, float] = {}

    def begin(self, request_id: str) -> Hold:
        hold = Hold(request_id)
        with self._changed:
            self._holds.setdefault(request_id, []).append(hold)
        return hold

    @contextmanager
    def reading(self, *holds: Hold) -> Iterator[list[Hold]]:
        """Gives those of the saves that are not over. Their blocks keep their bytes inside the `with`."""
        with self._changed:
            live = [hold for hold in holds if not hold.is_over]
            for hold in live:
                hold.is_reading = True
        try:
            yield live
        finally:
            with self._changed:
                for hold in live:
                    hold.is_reading = False
                    if hold.is_cancelled:
                        self._drop(hold)

    def end(self, hold: Hold) -> None:
        """Ends a save, which needs its blocks no more."""
        with self._changed:
            self._drop(hold)

    def finish(self, request_ids: Iterable[str]) -> None:
        """Records that these requests have ended: `take_finished` will return them."""
        with self._changed:
            self._finished.update(dict.fromkeys(request_ids, time.monotonic()))

    def take_finished(self) -> set[str]:
        """The requests that have ended and whose saves are over, each once."""
        with self._changed:
            overdue = time.monotonic() - self.wait_seconds
            for request_id, since in self._finished.items():
                if since <= overdue:
                    self._cancel(request_id)
            done = {request_id for request_id in self._finished if request_id not in self._holds}
            for request_id in done:
                del self._finished[request_id]
            return done

    def cancel(self, request_ids: Iterable[str]) -> None:
        """Cancels the saves of these requests. Returns when none of their blocks is read any more."""
        wanted = list(request_ids)
        with self._changed:
            for request_id in wanted:
                self._cancel(request_id)
            while any(request_id in self._holds for request_id in wanted):
                if not self._changed.wait(REPORT_SECONDS):
                    logger.warning("still waiting for saves of %s", wanted)

    def _cancel(self, request_id: str) -> None:
        """Cancels the saves of a request: at once, or as soon as they do not read."""
        for hold in list(self._holds.get(request_id, ())):
            self.cancelled += not hold.is_cancelled
            hold.is_cancelled = True
            if not hold.is_reading:
                self._drop(hold)

    def _drop(self, hold: Hold) -> None:
        if hold.is_over:
            return
        hold.is_over = True
        holds = self._holds[hold.request_id]
        holds.remove(hold)
        if not holds:
            del self._holds[hold.request_id]
        self._changed.notify_all()
