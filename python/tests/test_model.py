"""Random sequences of calls, compared with a dict: every result must equal the dict's.

A failure prints the sequence and how to repeat it (`@reproduce_failure`).
"""

from __future__ import annotations

import ctypes

from cluster import Cluster
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test
from mooncake.store import MooncakeDistributedStore

KEYS = st.sampled_from(["a", "b", "c", "\u00e9\u4e16", "x" * 300])
VALUES = st.binary(min_size=1, max_size=3000)
BATCHES = st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=6)
ROOM = 4096


class Against(RuleBasedStateMachine):
    """The tested store and the dict that models it."""

    store: MooncakeDistributedStore

    @initialize()
    def empty(self) -> None:
        assert self.store.remove_all(force=True) >= 0
        self.model: dict[str, bytes] = {}
        self.memory = (ctypes.c_char * (ROOM * 8))()
        self.address = ctypes.addressof(self.memory)

    def place(self, number: int, value: bytes) -> int:
        ctypes.memmove(self.address + number * ROOM, value, len(value))
        return self.address + number * ROOM

    @rule(key=KEYS, value=VALUES)
    def put(self, key: str, value: bytes) -> None:
        assert self.store.put(key, value) == 0
        self.model.setdefault(key, value)

    @rule(key=KEYS, value=VALUES)
    def upsert(self, key: str, value: bytes) -> None:
        assert self.store.upsert(key, value) == 0
        self.model[key] = value

    @rule(batch=BATCHES)
    def batch_put_from(self, batch: list[tuple[str, bytes]]) -> None:
        places = [self.place(i, value) for i, (_, value) in enumerate(batch)]
        codes = self.store.batch_put_from([k for k, _ in batch], places, [len(v) for _, v in batch])
        assert codes == [0] * len(batch)
        for key, value in batch:
            self.model.setdefault(key, value)

    @rule(batch=BATCHES, cut=st.integers(0, 3000))
    def batch_upsert(self, batch: list[tuple[str, bytes]], cut: int) -> None:
        places = [self.place(i, value) for i, (_, value) in enumerate(batch)]
        cuts = [min(cut, len(value)) for _, value in batch]
        pointers = [[place, place + cut] for place, cut in zip(places, cuts, strict=True)]
        sizes = [[cut, len(value) - cut] for cut, (_, value) in zip(cuts, batch, strict=True)]
        codes = self.store.batch_upsert_from_multi_buffers([k for k, _ in batch], pointers, sizes)
        assert codes == [0] * len(batch)
        self.model.update(batch)

    @rule(key=KEYS, force=st.booleans())
    def remove(self, key: str, force: bool) -> None:
        code = self.store.remove(key, force)
        if code == -706:
            assert key in self.model
            assert not force
            return
        assert code == (0 if key in self.model else -704)
        self.model.pop(key, None)

    @rule(key=KEYS)
    def get(self, key: str) -> None:
        assert self.store.get(key) == self.model.get(key, b"")

    @rule(keys=st.lists(KEYS, max_size=6))
    def ask(self, keys: list[str]) -> None:
        assert self.store.batch_is_exist(keys) == [int(key in self.model) for key in keys]
        assert self.store.get_batch(keys) == [self.model.get(key, b"") for key in keys]
        assert [self.store.get_size(key) for key in keys] == [len(self.model.get(key, b"")) or -704 for key in keys]

    @rule(keys=st.lists(KEYS, min_size=1, max_size=6))
    def batch_get_into(self, keys: list[str]) -> None:
        places = [self.address + i * ROOM for i in range(len(keys))]
        codes = self.store.batch_get_into(keys, places, [ROOM] * len(keys))
        assert codes == [len(self.model[key]) if key in self.model else -704 for key in keys]
        got = [ctypes.string_at(place, code) for place, code in zip(places, codes, strict=True) if code > 0]
        assert got == [self.model[key] for key in keys if key in self.model]

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def get_into_ranges(self, data: st.DataObject) -> None:
        keys = data.draw(st.lists(st.sampled_from(sorted(self.model)), min_size=1, max_size=3))
        lengths = [len(self.model[key]) for key in keys]
        starts = [data.draw(st.integers(0, length - 1)) for length in lengths]
        sizes = [data.draw(st.integers(1, length - start)) for length, start in zip(lengths, starts, strict=True)]
        places = [i * ROOM for i in range(len(keys))]
        results = self.store.get_into_ranges(
            [self.address], [keys], [[[p] for p in places]], [[[s] for s in starts]], [[[s] for s in sizes]]
        )
        assert results == [[[size] for size in sizes]]
        for key, start, size, place in zip(keys, starts, sizes, places, strict=True):
            assert ctypes.string_at(self.address + place, size) == self.model[key][start : start + size]

    @rule(letter=st.sampled_from("abx"))
    def remove_by_regex(self, letter: str) -> None:
        matched = [key for key in self.model if letter in key]
        assert self.store.remove_by_regex(letter, force=True) == len(matched)
        for key in matched:
            del self.model[key]


def test_the_store_is_like_a_dict(cluster: Cluster) -> None:
    store = cluster.store()

    class Machine(Against):
        pass

    Machine.store = store
    # Leases from earlier examples remain in the store, and real time passes, so a failure may not repeat at once.
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=60,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )
