"""The calls of the store that the connector makes. They do not raise: a block that cannot be moved counts as absent.

While the pool is away, most calls are not made at all and count as failed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from mooncake.vllm.breaker import REQUEST, SLOW_SECONDS, TRANSFER, Breaker
from mooncake.vllm.stats import FAILED, LOADED, SAVED, Stats
from mooncake.vllm.stored import StoredParts

logger = logging.getLogger(__name__)

# The number of keys per call, so that a long prompt does not make one long call.
BATCH_KEYS = 512
ALREADY_EXISTS = -705
NOT_DONE = -1
# After a line in the log about calls that failed, there is no other about the same for this long.
QUIET_SECONDS = 5.0
# The codes of calls that did not reach the master or a node, or were refused because no master leads: transfers that
# failed, requests without an answer, masters that do not serve.
AWAY_CODES = {NOT_DONE, -800, -900, -901, -1010, -1011}
# The calls that move bytes to and from nodes.
TRANSFERS = {
    "batch_put_from_multi_buffers",
    "batch_get_into_multi_buffers",
    "batch_put_from_multi_buffer_ranges",
    "batch_get_into_multi_buffer_ranges",
}
# A key that no block has, to ask whether the pool answers.
QUESTION = "mooncake.vllm/is-anybody-there"

Item = TypeVar("Item")
# Buffers: addresses and lengths. Ranges: addresses, lengths and offsets in the object.
Buffers = tuple[list[int], list[int]]
Ranges = tuple[list[int], list[int], list[int]]


class Store(Protocol):
    """The methods of `mooncake.store.MooncakeDistributedStore` that the connector uses."""

    def batch_probe_key(self, keys: list[str]) -> list[int]: ...
    def batch_prefix_len(self, keys: list[str], lease_from: int) -> int: ...
    def batch_put_from_multi_buffers(
        self, keys: list[str], all_buffer_ptrs: list[list[int]], all_sizes: list[list[int]], config: Any
    ) -> list[int]: ...
    def batch_get_into_multi_buffers(
        self, keys: list[str], all_buffer_ptrs: list[list[int]], all_sizes: list[list[int]]
    ) -> list[int]: ...
    def batch_put_session_start(self, keys: list[str], sizes: list[int], config: Any) -> list[int]: ...
    def batch_put_from_multi_buffer_ranges(
        self,
        keys: list[str],
        all_buffer_ptrs: list[list[int]],
        all_sizes: list[list[int]],
        all_dst_offsets: list[list[int]],
    ) -> list[int]: ...
    def batch_put_session_end(self, keys: list[str]) -> list[int]: ...
    def batch_put_session_revoke(self, keys: list[str]) -> list[int]: ...
    def batch_get_session_start(self, keys: list[str]) -> list[int]: ...
    def batch_get_into_multi_buffer_ranges(
        self,
        keys: list[str],
        all_buffer_ptrs: list[list[int]],
        all_sizes: list[list[int]],
        all_src_offsets: list[list[int]],
    ) -> list[int]: ...
    def batch_get_session_end(self, keys: list[str]) -> int: ...
    def remove_by_regex(self, regex_pattern: str, force: bool) -> int: ...
    def _lend_from_mem_pool(self, size: int) -> Any: ...
    def _copy_out(self, target: int, buffer_ptrs: list[int], sizes: list[int]) -> int: ...


def batches(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """Splits the items into runs of at most `BATCH_KEYS`."""
    for start in range(0, len(items), BATCH_KEYS):
        yield items[start : start + BATCH_KEYS]


class Pool:
    """A store, with the `ReplicateConfig` of its puts. If `stored` is set, it records the keys that were put or
    existed already.

    Methods take batches of any length. Most of them return the keys for which the call succeeded.
    """

    def __init__(self, store: Store, config: Any) -> None:
        self.store = store
        self.config = config
        self.stored: StoredParts | None = None
        self.stats = Stats()
        self.breaker = Breaker(self._answers)
        self._quiet_until: dict[str, float] = {}

    def leading(self, keys: Sequence[str], lease_from: int = 0) -> int:
        """How many keys, from the first on without a gap, exist; 0 if the call failed. Those from position `lease_from`
        on get leases: they are to be loaded.
        """
        if not self.breaker.admits():
            return 0
        started = time.monotonic()
        try:
            found = self.store.batch_prefix_len(list(keys), lease_from)
        except Exception:
            logger.exception("batch_prefix_len failed")
            found = NOT_DONE
        self._note_end("batch_prefix_len", [found], started)
        if found > len(keys):
            logger.error("batch_prefix_len gave %d for %d keys", found, len(keys))
            return 0
        if found < 0 and self._may_log("look up"):
            logger.warning("could not look up %d blocks: %d", len(keys), found)
        return max(found, 0)

    def missing(self, keys: Sequence[str]) -> list[str]:
        """The keys that do not exist, each once. A key whose look-up failed does not count as missing: its put would
        most likely fail too, and take its time. Grants no leases: the blocks are to be saved, not loaded.
        """
        codes: dict[str, int] = {}
        for batch in batches(list(dict.fromkeys(keys))):
            codes.update(zip(batch, self._call("batch_probe_key", list(batch)), strict=True))
        self._note(key for key, code in codes.items() if code == 1)
        return [key for key, code in codes.items() if code == 0]

    def put(self, blocks: dict[str, Buffers]) -> set[str]:
        stored = set()
        for batch in batches(list(blocks)):
            pointers, lengths = [blocks[key][0] for key in batch], [blocks[key][1] for key in batch]
            codes = self._call("batch_put_from_multi_buffers", list(batch), pointers, lengths, self.config)
            stored |= self._good("put", batch, [code >= 0 for code in codes], codes)
        self._note(stored)
        self.stats.add(SAVED, len(stored))
        return stored

    def get(self, blocks: dict[str, Buffers]) -> set[str]:
        """The keys whose object filled its buffers exactly."""
        loaded = set()
        for batch in batches(list(blocks)):
            pointers, lengths = [blocks[key][0] for key in batch], [blocks[key][1] for key in batch]
            codes = self._call("batch_get_into_multi_buffers", list(batch), pointers, lengths)
            whole = [code == sum(sizes) for code, sizes in zip(codes, lengths, strict=True)]
            loaded |= self._good("get", batch, whole, codes)
        self.count_loads(len(loaded), len(blocks))
        return loaded

    def count_loads(self, loaded: int, wanted: int) -> None:
        self.stats.add(LOADED, loaded)
        self.stats.add(FAILED, wanted - loaded)

    def start_puts(self, keys: Sequence[str], length: int) -> set[str]:
        """The keys for which this client got a put session. Keys that exist, or that another client writes, are left
        out.
        """
        started = set()
        for batch in batches(keys):
            codes = self._call("batch_put_session_start", list(batch), [length] * len(batch), self.config)
            fine = [code in (0, ALREADY_EXISTS) for code in codes]
            self._good("start putting", batch, fine, codes)
            started |= {key for key, code in zip(batch, codes, strict=True) if code == 0}
        return started

    def put_ranges(self, ranges: dict[str, Ranges]) -> set[str]:
        return self._ranges("batch_put_from_multi_buffer_ranges", ranges)

    def end_puts(self, keys: Sequence[str]) -> set[str]:
        ended = set()
        for batch in batches(keys):
            codes = self._call("batch_put_session_end", list(batch))
            ended |= self._good("end putting", batch, [code == 0 for code in codes], codes)
        self._note(ended)
        self.stats.add(SAVED, len(ended))
        return ended

    def revoke_puts(self, keys: Sequence[str]) -> None:
        for batch in batches(keys):
            self._make("batch_put_session_revoke", list(batch))

    def start_gets(self, keys: Sequence[str]) -> set[str]:
        started = set()
        for batch in batches(keys):
            codes = self._call("batch_get_session_start", list(batch))
            started |= self._good("start getting", batch, [code == 0 for code in codes], codes)
        return started

    def get_ranges(self, ranges: dict[str, Ranges]) -> set[str]:
        return self._ranges("batch_get_into_multi_buffer_ranges", ranges)

    def end_gets(self, keys: Sequence[str]) -> None:
        for batch in batches(keys):
            try:
                self.store.batch_get_session_end(list(batch))
            except Exception:
                logger.exception("batch_get_session_end failed")

    def remove(self, pattern: str) -> bool:
        """Removes the keys that match a regular expression, also those under a lease. Returns whether it succeeded."""
        try:
            return self.store.remove_by_regex(pattern, True) >= 0
        except Exception:
            logger.exception("remove_by_regex failed")
            return False

    def _note(self, keys: Iterable[str]) -> None:
        """Records that these keys are in the pool."""
        if self.stored is not None:
            self.stored.add(keys)

    def _ranges(self, call: str, ranges: dict[str, Ranges]) -> set[str]:
        done = set()
        for batch in batches(list(ranges)):
            columns = [[ranges[key][column] for key in batch] for column in range(3)]
            codes = self._call(call, list(batch), *columns)
            whole = [code == sum(lengths) for code, lengths in zip(codes, columns[1], strict=True)]
            done |= self._good(call, batch, whole, codes)
        return done

    def _call(self, name: str, keys: list[str], *arguments: Any) -> list[int]:
        """The codes of a call: one per key, even if the call raises, or is not made because the pool is away."""
        if not self.breaker.admits():
            return [NOT_DONE] * len(keys)
        return self._make(name, keys, *arguments)

    def _make(self, name: str, keys: list[str], *arguments: Any) -> list[int]:
        """As `_call`, for calls that are made in any case: they end what was begun."""
        started = time.monotonic()
        try:
            codes: list[int] = getattr(self.store, name)(keys, *arguments)
        except Exception:
            logger.exception("%s failed", name)
            codes = [NOT_DONE] * len(keys)
        if len(codes) != len(keys):
            logger.error("%s gave %d results for %d keys", name, len(codes), len(keys))
            codes = [NOT_DONE] * len(keys)
        self._note_end(name, codes, started)
        return codes

    def _note_end(self, name: str, codes: Sequence[int], started: float) -> None:
        """Tells the breaker of a call. Where a part of it worked, one node of several may be away: the pool is not."""
        failure = None if any(code not in AWAY_CODES for code in codes) else f"{name}: {codes[0]}"
        kind = TRANSFER if name in TRANSFERS else REQUEST
        self.breaker.note(kind, failure, time.monotonic() - started)

    def _answers(self) -> bool:
        """Whether the master answers soon."""
        started = time.monotonic()
        try:
            codes = self.store.batch_probe_key([QUESTION])
        except Exception:
            return False
        return time.monotonic() - started < SLOW_SECONDS and codes[0] not in AWAY_CODES

    def _may_log(self, what: str) -> bool:
        """Whether the last line about this is long enough ago."""
        now = time.monotonic()
        if now < self._quiet_until.get(what, 0.0):
            return False
        self._quiet_until[what] = now + QUIET_SECONDS
        return True

    def _good(self, what: str, keys: Sequence[str], good: list[bool], codes: list[int]) -> set[str]:
        bad = [(key, code) for key, code, fine in zip(keys, codes, good, strict=True) if not fine]
        # Calls that were not made would fill the log, and so would each put to a pool that is full.
        if bad and self.breaker.admits() and self._may_log(what):
            logger.warning("could not %s %d of %d blocks, the first is %s: %d", what, len(bad), len(keys), *bad[0])
        return {key for key, fine in zip(keys, good, strict=True) if fine}
