"""Passes over a pool that does not work, so that its failures cost the engine no time.

After a few failures in a row, no call is made. A thread then asks the pool now and then, with pauses that grow, and
calls begin again once it answers.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

logger = logging.getLogger(__name__)

# What a call asks of the pool: an answer of its master, or bytes of its nodes.
REQUEST, TRANSFER = "request", "transfer"
# So many failures in a row, or one that took so long, mean that the pool is away.
MOST_FAILURES = 3
SLOW_SECONDS = 1.0
# The pause before the first question to a pool that is away; each one after it is twice as long, up to the longest.
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 30.0


class Breaker:
    """Says whether calls are made. All threads of a worker may use it."""

    def __init__(self, answers: Callable[[], bool], first_pause: float = FIRST_PAUSE_SECONDS) -> None:
        """`answers` asks the pool something small, and returns whether it answered."""
        self.answers = answers
        self.first_pause = first_pause
        self.outages = 0
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._is_open = False
        # Failures in a row. They are counted apart: a master may answer whose nodes do not.
        self._failures = {REQUEST: 0, TRANSFER: 0}
        self._failed = REQUEST
        self._pause = first_pause
        # When the outage began; None without one. It ends once a call works of the kind that failed.
        self._away_since: float | None = None

    def admits(self) -> bool:
        """Whether a call may be made."""
        return not self._is_open

    def is_away(self) -> bool:
        """Whether the pool has not worked since it was passed over."""
        return self._away_since is not None

    def note(self, kind: str, failure: str | None, seconds: float) -> None:
        """Records the end of a call that took `seconds`. `failure` says what failed."""
        with self._lock:
            if self._is_open:
                return
            if failure is None:
                self._failures[kind] = 0
                if kind == self._failed:
                    self._end_outage()
                return
            self._failures[kind] += 1
            if self._failures[kind] >= MOST_FAILURES or seconds >= SLOW_SECONDS:
                self._open(kind, failure)

    def close(self) -> None:
        """Ends the thread that asks."""
        self._closed.set()

    def _open(self, kind: str, failure: str) -> None:
        self._is_open = True
        self._failed = kind
        if self._away_since is None:
            self._away_since = time.monotonic()
            self._pause = self.first_pause
            self.outages += 1
            logger.warning("the pool does not work (%s): it is passed over, and tried again now and then", failure)
        threading.Thread(target=self._ask, name="mooncake-ask", daemon=True).start()

    def _ask(self) -> None:
        """Asks until the pool answers. Then one more failure is enough to pass it over again, for longer."""
        while not self._closed.wait(self._pause):
            self._pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS)
            if self.answers():
                with self._lock:
                    self._is_open = False
                    self._failures[self._failed] = MOST_FAILURES - 1
                return

    def _end_outage(self) -> None:
        if self._away_since is not None:
            logger.warning("the pool works again, after %.1f s", time.monotonic() - self._away_since)
            self._away_since = None
