"""Counts what a worker did since vLLM asked last, for vLLM's log and metrics."""

from __future__ import annotations

import threading
from collections import Counter

from mooncake.vllm.breaker import Breaker
from mooncake.vllm.pending import PendingSaves

# The state of the pool: 1 while it is away. All other values are counts.
AWAY = "pool_away"
OUTAGES, DROPPED = "pool_outages", "dropped_saves"
SAVED, LOADED, FAILED = "saved_blocks", "loaded_blocks", "failed_loads"
COUNTS = {
    OUTAGES: "how often the pool was passed over because it did not work",
    DROPPED: "saves that were cancelled: their request was preempted, or ended long before",
    SAVED: "blocks that were stored in the pool",
    LOADED: "blocks that were loaded from the pool",
    FAILED: "blocks that could not be loaded",
}


class Stats:
    """The counts of a worker. All threads of the worker may add to them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        # Totals as of the last `take`, of what other objects count.
        self._seen: Counter[str] = Counter()
        self._was_away = False

    def add(self, name: str, count: int) -> None:
        with self._lock:
            self._counts[name] += count

    def take(self, breaker: Breaker, pending: PendingSaves) -> dict[str, int] | None:
        """What happened since the last call; None if nothing did and the pool works."""
        is_away = breaker.is_away()
        totals = Counter({OUTAGES: breaker.outages, DROPPED: pending.cancelled})
        with self._lock:
            counts, self._counts = self._counts, Counter()
            counts += totals - self._seen
            self._seen = totals
            if not (counts or is_away or self._was_away):
                return None
            self._was_away = is_away
        return {AWAY: int(is_away), **counts}


def merged(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    """The counts of two workers, or of two times, together."""
    sums = dict(Counter(one) + Counter(other))
    return {**sums, AWAY: max(one.get(AWAY, 0), other.get(AWAY, 0))}
