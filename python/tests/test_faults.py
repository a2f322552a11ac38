"""Processes that are killed: every call ends in bounded time, and no call returns a wrong byte."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import pytest
from cluster import MIB, Cluster, Memory, Process, content, pause, wait_until
from mooncake.store import MooncakeDistributedStore, ReplicateConfig
from values import stamped, version_of

SLOWEST_CALL_SECONDS = 10.0
LARGE = 4 * MIB
THREADS = 4


@pytest.fixture(autouse=True)
def _short_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MC_RPC_TIMEOUT_MS", "2000")
    monkeypatch.setenv("MC_RPC_CONNECT_TIMEOUT_MS", "2000")
    monkeypatch.setenv("MC_TRANSFER_TIMEOUT", "3")


class Timed:
    """Records when calls began and ended, on any thread."""

    def __init__(self) -> None:
        self.spans: list[tuple[float, float]] = []

    @contextmanager
    def __call__(self) -> Iterator[None]:
        begin = time.monotonic()
        yield
        self.spans.append((begin, time.monotonic()))

    @property
    def slowest(self) -> float:
        return max(end - begin for begin, end in self.spans)

    def around(self, moment: float) -> tuple[int, int, int]:
        """How many calls had ended at this time, how many were running, and how many began later."""
        ended = sum(end < moment for _, end in self.spans)
        begun_later = sum(begin > moment for begin, _ in self.spans)
        return ended, len(self.spans) - ended - begun_later, begun_later


class Killer(threading.Thread):
    """Kills a process once enough calls have ended, while others run."""

    def __init__(self, process: Process, timed: Timed, calls: int) -> None:
        super().__init__()
        self.process, self.timed, self.calls = process, timed, calls
        self.moment = 0.0
        self.done = threading.Event()

    def run(self) -> None:
        try:
            wait_until(lambda: len(self.timed.spans) >= self.calls, 20, f"{self.calls} calls ended")
            self.moment = time.monotonic()
            self.process.kill()
        finally:
            self.done.set()

    def __enter__(self) -> Killer:
        self.start()
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        self.join()
        if error is not None:
            return
        before, during, after = self.timed.around(self.moment)
        assert (before >= self.calls, during > 0, after > 0) == (True, True, True), (before, during, after)

    def numbers(self, calls_after: int) -> Iterator[int]:
        """Counts until the process is killed, and `calls_after` numbers further."""
        for number in itertools.count():
            if self.done.is_set():
                calls_after -= 1
            if calls_after < 0:
                return
            yield number


def test_a_node_is_killed_during_puts() -> None:
    with Cluster() as cluster:
        nodes = [cluster.start_node(512 * MIB) for _ in range(2)]
        store, timed, codes = cluster.store(), Timed(), {}

        def put(thread: int, killer: Killer) -> None:
            for i in killer.numbers(calls_after=10):
                key = f"k{thread}-{i}"
                value = stamped(key, i, LARGE)
                with timed():
                    codes[key] = store.put(key, value)

        with Killer(nodes[0], timed, calls=20) as killer, ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(put, range(THREADS), [killer] * THREADS))
        for key, code in codes.items():
            with timed():
                value = store.get(key)
            assert value == b"" or version_of(key, value) == int(key.split("-")[1]), f"{key} was put with {code}"
        assert timed.slowest < SLOWEST_CALL_SECONDS
        assert store.put("after", b"value") == 0
        assert store.get("after") == b"value"


def test_a_node_is_killed_during_gets() -> None:
    with Cluster() as cluster:
        nodes = [cluster.start_node(256 * MIB) for _ in range(2)]
        store, timed = cluster.store(), Timed()
        values = {f"k{i}": stamped(f"k{i}", i, LARGE) for i in range(24)}
        rules = ReplicateConfig()
        rules.replica_num = 2
        for i, (key, value) in enumerate(values.items()):
            assert store.put(key, value, rules if i % 2 else ReplicateConfig()) == 0

        def get(killer: Killer) -> None:
            memory = Memory(LARGE)
            for number in killer.numbers(calls_after=2 * len(values)):
                i = number % len(values)
                with timed():
                    got = store.get_into(f"k{i}", memory.address, memory.size)
                if got < 0:
                    assert i % 2 == 0, f"k{i} has a replica on the node that lives, and yet {got}"
                else:
                    assert (got, memory.read(0, LARGE) == values[f"k{i}"]) == (LARGE, True), f"k{i}"

        with Killer(nodes[0], timed, calls=20) as killer, ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(get, [killer] * THREADS))
        assert timed.slowest < SLOWEST_CALL_SECONDS


def test_a_dead_nodes_keys_are_missed_and_can_be_put_again() -> None:
    with Cluster("--client_ttl=2") as cluster:
        dying, _ = cluster.start_node(32 * MIB), cluster.start_node(32 * MIB)
        store = cluster.store()
        keys = [f"k{i}" for i in range(20)]
        assert store.put_batch(keys, [content(key, 1000) for key in keys]) == 0
        dying.kill()
        wait_until(lambda: len(cluster.segments()) == 1, 10, "the master noticed")
        left = store.batch_is_exist(keys)
        assert [store.get(key) for key in keys] == [
            content(key, 1000) if here == 1 else b"" for key, here in zip(keys, left, strict=True)
        ]
        assert 0 < sum(left) < 20
        assert store.put_batch(keys, [content(key, 1000) for key in keys]) == 0
        assert store.get_batch(keys) == [content(key, 1000) for key in keys]


def test_the_master_goes_and_comes_back() -> None:
    with Cluster() as cluster:
        store = cluster.store(segment_bytes=16 * MIB)
        assert store.put("before", b"value") == 0
        cluster.master.kill()
        timed = Timed()
        with timed():
            code = store.put("during", b"value")
        with timed():
            found = store.is_exist("before")
        with timed():
            value = store.get("during")
        assert (code in (-900, -901), found in (-900, -901), value) == (True, True, b"")
        assert timed.slowest < SLOWEST_CALL_SECONDS
        wait_until(lambda: store.health_check() == 2, 10, "a ping failed")
        cluster.start_master()
        wait_until(lambda: store.health_check() == 0, 15, "the store found the master again")
        wait_until(lambda: len(cluster.segments()) == 1, 15, "the segment is mounted again")
        assert (store.put("after", b"value"), store.get("after")) == (0, b"value")
        wait_until(lambda: store.get("before") == b"value", 5, "what the node holds is back")


def test_a_node_that_is_silent_under_three_masters_comes_back_with_all_that_did_not_change() -> None:
    with Cluster() as cluster:
        nodes = [cluster.start_node(64 * MIB) for _ in range(2)]
        store = cluster.store()
        old = {f"key-{number}": content(f"key-{number}", 1000) for number in range(300)}
        assert store.put_batch(list(old), list(old.values())) == 0
        pause(nodes[0].pid)
        names = iter(old)
        removed: list[str] = []
        replaced: dict[str, bytes] = {}
        for _ in range(3):
            cluster.master.kill()
            cluster.start_master()
            for name in itertools.islice(names, 10):
                # What lies on the silent node alone is not known to this master.
                wait_until(partial(is_removed, store, name), 15, "the master takes removals")
                removed.append(name)
            for name in itertools.islice(names, 10):
                replaced[name] = content(f"new {name}", 1000)
                assert store.upsert(name, replaced[name]) == 0
        os.kill(nodes[0].pid, signal.SIGCONT)
        kept = [name for name in old if name not in removed and name not in replaced]
        wait_until(lambda: set(store.batch_is_exist(kept)) == {1}, 15, "all that did not change is back")
        assert store.get_batch(kept) == [old[name] for name in kept]
        assert store.get_batch(list(replaced)) == list(replaced.values())
        assert set(store.batch_is_exist(removed)) == {0}


def is_removed(store: MooncakeDistributedStore, name: str) -> bool:
    """Removes a key. False while the master refuses that."""
    return store.remove(name, True) in (0, -704)


def test_a_store_closes_in_bounded_time_without_its_master() -> None:
    with Cluster() as cluster:
        store = cluster.store(segment_bytes=16 * MIB)
        cluster.master.kill()
        begin = time.monotonic()
        assert store.close() == 0
        assert time.monotonic() - begin < SLOWEST_CALL_SECONDS
        cluster.start_master()


UNHEARD = """
import os, sys
from mooncake.store import MooncakeDistributedStore

store = MooncakeDistributedStore()
assert store.setup("localhost", "P2PHANDSHAKE", 0, 1 << 20, "tcp", "", sys.argv[1]) == 0
reader, writer = os.pipe()
os.dup2(writer, 2)
os.close(reader)
os.close(writer)
assert store.put_from("key", 0, 5) == -600, "a warning that nobody reads"
"""


def test_calls_return_when_nobody_reads_the_log(cluster: Cluster) -> None:
    run = subprocess.run([sys.executable, "-c", UNHEARD, cluster.master_address], timeout=60)
    assert run.returncode == 0


def test_a_pool_without_a_segment_is_full() -> None:
    with Cluster() as cluster:
        store = cluster.store()
        assert store.put("k", b"value") == -200
        assert (store.get("k"), store.is_exist("k")) == (b"", 0)


def test_a_full_pool_evicts_and_goes_on() -> None:
    with Cluster("--default_kv_lease_ttl=100") as cluster:
        cluster.start_node(16 * MIB)
        store = cluster.store()
        keys = [f"k{i}" for i in range(100)]
        for key in keys:
            assert store.put(key, content(key, MIB)) == 0
        kept = [key for key in keys if store.get(key)]
        assert 5 <= len(kept) <= 16
        assert [store.get(key) for key in kept] == [content(key, MIB) for key in kept]


LENDER = """
import sys
from mooncake.store import MooncakeDistributedStore
store = MooncakeDistributedStore()
assert store.setup("localhost", "P2PHANDSHAKE", 1 << 30, 1 << 24, "tcp", "", sys.argv[1]) == 0
value = bytes(1 << 20)
assert [store.put(f"k{i}", value) for i in range(32)] == [0] * 32
print("ready", flush=True)
sys.stdin.read()
"""
HOG = "import time\nend = time.time() + 60\nwhile time.time() < end: pass"


def test_a_fresh_segment_beside_busy_processes_is_reached() -> None:
    """The thread that prefaults the segment must not delay the start of the process's other threads."""
    with Cluster() as cluster:
        arguments = [sys.executable, "-c", LENDER, cluster.master_address]
        lender = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        hogs = [subprocess.Popen([sys.executable, "-c", HOG]) for _ in range(6)]
        try:
            assert lender.stdout is not None
            assert lender.stdout.readline() == "ready\n"
            values = cluster.store().get_batch([f"k{i}" for i in range(32)])
            assert [len(value) for value in values] == [MIB] * 32
        finally:
            for hog in hogs:
                hog.kill()
                hog.wait()
            lender.kill()
            lender.wait()
