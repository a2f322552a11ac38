"""One store in many threads. Calls release the interpreter lock while they wait."""

import os
import random
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cluster import MIB, Cluster, Memory, content, wait_until
from mooncake.store import MooncakeDistributedStore

Store = MooncakeDistributedStore
SEED = int(os.environ.get("MOONCAKE_TEST_SEED", str(random.randrange(1 << 32))))


def test_many_threads_at_once(store: Store) -> None:
    print(f"MOONCAKE_TEST_SEED={SEED}")

    def work(thread: int) -> int:
        chance, memory, wrong = random.Random(SEED + thread), Memory(MIB), 0
        assert store.register_buffer(memory.address, memory.size) == 0
        for _ in range(150):
            key = f"k{chance.randrange(40)}"
            value = content(key, 100 + 997 * int(key[1:]))
            match chance.randrange(5):
                case 0:
                    assert store.put(key, value) in (0, -200)
                case 1:
                    assert store.remove(key, chance.random() < 0.5) in (0, -703, -704, -706)
                case 2:
                    wrong += store.get(key) not in (b"", value)
                case 3:
                    got = store.get_into(key, memory.address, memory.size)
                    wrong += got >= 0 and memory.read(0, got) != value
                case _:
                    assert store.is_exist(key) in (0, 1)
        assert store.unregister_buffer(memory.address) == 0
        return wrong

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(work, range(8))) == 0


def test_threads_that_put_one_key(cluster: Cluster, store: Store) -> None:
    others = [cluster.store() for _ in range(3)]
    barrier = threading.Barrier(4)

    def work(number: int) -> list[int]:
        codes = []
        for round_ in range(20):
            barrier.wait()
            codes.append([store, *others][number].put(f"k{round_}", bytes([number + 1]) * 50_000))
        return codes

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [[0] * 20] * 4
    for round_ in range(20):
        value = store.get(f"k{round_}")
        assert (len(value), len(set(value))) == (50_000, 1), "one writer won, whole"


def test_other_threads_run_while_a_call_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The call waits for a master that another thread of this interpreter plays."""
    monkeypatch.setenv("MC_RPC_CONNECT_TIMEOUT_MS", "1500")
    returned = threading.Event()

    def set_up(port: int) -> None:
        code = Store().setup("localhost", "P2PHANDSHAKE", 0, MIB, "tcp", "", f"127.0.0.1:{port}")
        returned.set()
        assert code != 0

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=set_up, args=(server.getsockname()[1],))
        thread.start()
        connection, _ = server.accept()
        with connection:
            assert connection.recv(16), "the client says hello"
            assert not returned.is_set(), "the call waits for an answer and this thread runs"
    thread.join(timeout=30)
    assert returned.is_set(), "a master that hangs up ends the call"


def test_close_while_others_call(cluster: Cluster) -> None:
    store = cluster.store(segment_bytes=16 * MIB)
    assert store.put("close", b"value") == 0
    begun, answers = threading.Barrier(5), []

    def work() -> None:
        begun.wait()
        for _ in range(300):
            answers.append(store.get("close"))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    begun.wait()
    assert store.close() == 0
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert set(answers) <= {b"value", b""}
    assert store.get("close") == b""


def threads_of_stores() -> dict[int, str]:
    """The threads that stores have started in this process: their names, as far as the kernel keeps them, by id."""
    names = {}
    for task in Path("/proc/self/task").iterdir():
        try:
            names[int(task.name)] = (task / "comm").read_text().strip()
        except OSError:
            continue  # The thread has ended.
    return {thread: name for thread, name in names.items() if name.startswith(("data", "mooncake"))}


def affinity(thread: int) -> set[int]:
    """The processors that a thread may use. If the thread has ended, those that the caller may use."""
    try:
        return os.sched_getaffinity(thread)
    except ProcessLookupError:
        return os.sched_getaffinity(0)


def test_a_pinned_thread_does_not_pin_those_that_its_store_starts(cluster: Cluster) -> None:
    """Engines set the store up on a pinned thread that spins. Threads that inherited the pin would never run."""
    everywhere = os.sched_getaffinity(0)
    earlier = threads_of_stores()

    def work() -> None:
        os.sched_setaffinity(0, {min(everywhere)})
        store = cluster.store(segment_bytes=16 * MIB)
        assert store.put("pinned", b"value") == 0
        assert store.get("pinned") == b"value"

    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result()
        started = {thread: name for thread, name in threads_of_stores().items() if thread not in earlier}
        assert {"data", "data-accept", "mooncake-heartb", "mooncake-upkeep"} <= set(started.values())

        def pinned() -> list[str]:
            running = threads_of_stores().keys() & started
            return [started[thread] for thread in running if affinity(thread) != everywhere]

        wait_until(lambda: not pinned(), 5, "they may run where the others may")
