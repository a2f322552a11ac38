"""The connector for vLLM while the pool does not work: it costs the engine hits, and no time."""

from __future__ import annotations

import time
from typing import Any

import pytest
from cluster import MIB, Cluster, Memory, content, pause, resume, wait_until
from mooncake.vllm import breaker as breakers
from mooncake.vllm.breaker import MOST_FAILURES, REQUEST, TRANSFER, Breaker
from mooncake.vllm.config import Options
from mooncake.vllm.pending import PendingSaves
from mooncake.vllm.plan import StepPlan
from mooncake.vllm.pool import Pool
from mooncake.vllm.stats import Stats, merged
from outage import FAULTS, outage
from test_vllm_worker import LAYERED, WHOLE, WITHIN, Instance, load, save

SECONDS = 30.0

# The breaker


class Probe:
    """Answers the breaker's questions as the test says, and counts them."""

    def __init__(self) -> None:
        self.is_up = False
        self.asked = 0

    def __call__(self) -> bool:
        self.asked += 1
        return self.is_up


@pytest.mark.parametrize(
    ("calls", "admits"),
    [
        ([("x", 0.0)] * 2, True),
        ([("x", 0.0)] * 3, False),
        ([("x", 0.0), ("x", 0.0), (None, 0.0), ("x", 0.0), ("x", 0.0)], True),
        ([("x", 1.0)], False),
        ([(None, 9.0)], True),
    ],
)
def test_a_few_failures_or_a_slow_one_open_the_breaker(calls: list[tuple[str | None, float]], admits: bool) -> None:
    breaker = Breaker(Probe())
    for failure, seconds in calls:
        breaker.note(REQUEST, failure, seconds)
    assert (breaker.admits(), breaker.is_away(), breaker.outages) == (admits, not admits, int(not admits))
    breaker.close()


def test_a_pool_that_answers_is_tried_again_and_one_more_failure_makes_the_pause_longer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    probe = Probe()
    breaker = Breaker(probe, first_pause=0.01)
    breaker.note(TRANSFER, "put: -900", 2.0)
    wait_until(lambda: probe.asked >= 2, SECONDS, "it asks again")
    assert not breaker.admits()
    probe.is_up = True
    for _ in range(3):
        wait_until(breaker.admits, SECONDS, "it tries again")
        assert breaker.is_away(), "no call has worked yet"
        breaker.note(TRANSFER, "put: -800", 0.0)
        assert not breaker.admits()
    assert breaker._pause >= 0.01 * 2**5
    wait_until(breaker.admits, SECONDS, "it tries again")
    breaker.note(REQUEST, None, 0.0)
    assert breaker.is_away(), "the nodes do not work"
    breaker.note(TRANSFER, None, 0.0)
    assert (breaker.admits(), breaker.is_away(), breaker.outages) == (True, False, 1)
    lines = [line.split(",")[0] for line in caplog.messages]
    assert lines == ["the pool does not work (put: -900): it is passed over", "the pool works again"]
    breaker.note(TRANSFER, "put: -900", 2.0)
    assert (breaker._pause, breaker.outages) == (0.01, 2)
    breaker.close()


def test_the_pause_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(breakers, "LONGEST_PAUSE_SECONDS", 0.02)
    probe = Probe()
    breaker = Breaker(probe, first_pause=0.01)
    breaker.note(REQUEST, "x", 2.0)
    wait_until(lambda: probe.asked >= 5, SECONDS, "it asks on")
    assert breaker._pause == 0.02
    breaker.close()


# Counts


def test_counts_are_told_once_and_the_state_as_long_as_the_pool_is_away() -> None:
    stats, breaker, pending = Stats(), Breaker(Probe()), PendingSaves()
    assert stats.take(breaker, pending) is None
    stats.add("saved_blocks", 3)
    pending.begin("r")
    pending.cancel(["r"])
    assert stats.take(breaker, pending) == {"pool_away": 0, "saved_blocks": 3, "dropped_saves": 1}
    assert stats.take(breaker, pending) is None
    breaker.note(REQUEST, "x", 2.0)
    assert stats.take(breaker, pending) == {"pool_away": 1, "pool_outages": 1}
    assert stats.take(breaker, pending) == {"pool_away": 1}
    breaker.close()
    assert merged({"pool_away": 1, "saved_blocks": 1}, {"pool_away": 0, "saved_blocks": 2, "failed_loads": 1}) == {
        "pool_away": 1,
        "saved_blocks": 3,
        "failed_loads": 1,
    }


# The pool


class Broken:
    """A store whose calls give one code, after a time."""

    def __init__(self, code: int, seconds: float = 0.0) -> None:
        self.code, self.seconds = code, seconds
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        def call(keys: list[str], *_: Any) -> Any:
            self.calls.append(name)
            time.sleep(self.seconds)
            return self.code if name == "batch_prefix_len" else [self.code] * len(keys)

        return call


@pytest.mark.parametrize("code", [-1, -800, -900, -901, -1010])
def test_a_pool_that_does_not_answer_is_asked_three_times_of_a_kind(code: int) -> None:
    store = Broken(code)
    pool = Pool(store, None)
    for _ in range(2):
        assert pool.leading(["a"]) == 0
        assert pool.put({"a": ([1], [1])}) == set()
        assert pool.missing(["a"]) == []
        assert pool.get({"a": ([1], [1])}) == set()
    put, get = "batch_put_from_multi_buffers", "batch_get_into_multi_buffers"
    assert store.calls == ["batch_prefix_len", put, "batch_probe_key", get, "batch_prefix_len"]
    # What was begun is ended in any case.
    pool.revoke_puts(["a"])
    pool.end_gets(["a"])
    assert store.calls[5:] == ["batch_put_session_revoke", "batch_get_session_end"]
    pool.breaker.close()


def test_nodes_that_fail_are_noticed_although_the_master_answers() -> None:
    store = Broken(-800)
    store.__dict__["batch_probe_key"] = lambda keys: [0] * len(keys)
    pool = Pool(store, None)
    for _ in range(5):
        pool.put(dict.fromkeys(pool.missing(["a"]), ([1], [1])))
    assert store.calls == ["batch_put_from_multi_buffers"] * 3
    pool.breaker.close()


@pytest.mark.parametrize("code", [0, 1, -200, -703, -704, -705])
def test_a_pool_that_refuses_is_there(code: int) -> None:
    pool = Pool(Broken(code), None)
    for _ in range(9):
        pool.put({"a": ([1], [1])})
    assert pool.breaker.admits()


def test_where_one_node_of_several_fails_the_pool_is_there() -> None:
    store = Broken(0)
    pool = Pool(store, None)
    store.__dict__["batch_get_into_multi_buffers"] = lambda keys, *_: [-800, 1] * (len(keys) // 2)
    for _ in range(9):
        assert pool.get({"a": ([1], [1]), "b": ([2], [1])}) == {"b"}
    assert pool.breaker.admits()


# Copies


def test_memory_is_copied_piece_by_piece(cluster: Cluster) -> None:
    store, memory = cluster.store(), Memory(MIB)
    target = store._lend_from_mem_pool(3000)
    assert target is not None
    memory.write(0, content("a", 4000))
    addresses = [memory.address + 3000, memory.address, memory.address + 100]
    assert store._copy_out(target.ptr, addresses, [1000, 10, 0]) == 0
    copied = Memory(MIB)
    assert store._copy_out(copied.address, [target.ptr], [1010]) == 0
    value = content("a", 4000)
    assert copied.read(0, 1011) == value[3000:] + value[:10] + b"\0"
    for wrong in ((copied.address, [1], [1]), (0, [copied.address], [1]), (copied.address, [copied.address], [])):
        assert store._copy_out(*wrong) == -600


# The engine's steps


@pytest.mark.parametrize("options", [WITHIN, LAYERED], ids=["within", "layers"])
def test_where_a_step_waits_for_its_loads_silent_nodes_delay_few_of_them(
    options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOONCAKE_TRANSPORTS", "tcp")
    with Cluster() as cluster:
        node = cluster.start_node(64 * MIB)
        writer, reader = Instance(cluster, WHOLE, "m"), Instance(cluster, options, "m")
        writer.step(StepPlan(saves={"w": save(0, (1,), "a")}), {1: "a"})
        writer.finish("w")
        plan = StepPlan(loads={"r": load(options, (2,), "a")})
        assert reader.step(plan) == set()
        pause(node.pid)
        slow = 0
        for _ in range(10):
            started = time.monotonic()
            assert reader.step(plan) == {2}
            slow += time.monotonic() - started > 0.3
        assert slow <= MOST_FAILURES
        resume(node.pid)
        wait_until(lambda: reader.step(plan) == set(), SECONDS, "the block is loaded again")
        for instance in (writer, reader):
            instance.worker.close()


@pytest.mark.parametrize("fault", FAULTS)
def test_an_outage_costs_hits_and_no_time(fault: str) -> None:
    outcome = outage(fault)
    # Other programs of this machine delay steps too. They do not do so in each of three runs.
    runs = [outcome]
    while runs[-1].longest > runs[-1].without_pool + 0.020 and len(runs) < 3:
        runs.append(outage(fault))
    print(*runs, sep="\n")
    best = runs[-1]
    assert best.longest <= best.without_pool + 0.020
    assert best.hits_before > 0
    assert best.hits_after > 0
    assert best.preemptions > 0
