"""Processes that are killed at random times: acknowledged objects are there, and no byte is wrong."""

from __future__ import annotations

import json
import os
import random
import time
from functools import partial

import pytest
from cluster import MIB, Cluster, Process, wait_until
from mooncake.store import MooncakeDistributedStore
from values import stamped, version_of
from worker import KEYS, End, Said, Worker

SEED = int(os.environ.get("MOONCAKE_TEST_SEED", str(random.randrange(1 << 32))))
CLIENT_KILLS = 12
NODE_KILLS = 4
SLOWEST_CALL_SECONDS = 10.0
VERSIONS_PER_WORKER = 1_000_000


@pytest.fixture(autouse=True)
def _short_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MC_RPC_TIMEOUT_MS", "2000")
    monkeypatch.setenv("MC_RPC_CONNECT_TIMEOUT_MS", "2000")
    monkeypatch.setenv("MC_TRANSFER_TIMEOUT", "3")


def used_bytes(cluster: Cluster) -> dict[str, int]:
    """The used bytes of each segment, by its id."""
    answer = json.loads(cluster.http("/get_segments_detail") or '{"segments": []}')
    return {segment["segment_id"]: segment["allocator_used_bytes"] for segment in answer["segments"]}


Allowed = dict[str, set[int | None]]


def follow(allowed: Allowed, said: list[Said], lost: bool) -> None:
    """Works out which versions a key may hold, None for a miss, and checks every get. `lost`: any key may be gone."""
    for what, key, version, _ in said:
        if what == "remove":
            allowed[key] = allowed[key] | {None}
        elif what == "put":
            allowed[key] = {None, version}
        elif what == "done":
            allowed[key] = {version}
        elif what == "hit":
            assert version in allowed[key], f"{key} holds version {version}, not one of {allowed[key]}"
        elif what == "miss":
            assert lost or None in allowed[key], f"{key} is gone, not one of {allowed[key]}"
        else:
            assert what in ("get", "failed"), f"{key}: {what}"


def held(cluster: Cluster, store: MooncakeDistributedStore) -> dict[str, int | None]:
    """The version under each key. Fails on wrong bytes."""
    versions: dict[str, int | None] = {}
    for key in {*KEYS, *(cluster.http("/get_all_keys") or "").split()}:
        value = store.get(key)
        versions[key] = version_of(key, value)
        assert value == b"" or versions[key] is not None, f"{key} holds {len(value)} wrong bytes"
    return versions


def test_a_value_that_was_damaged_is_found_out() -> None:
    value = stamped("k", 7, 4096)
    assert version_of("k", value) == 7
    swapped = value[:64] + value[72:80] + value[64:72] + value[80:]
    flipped = value[:1000] + bytes([value[1000] ^ 1]) + value[1001:]
    mixed = value[:2048] + stamped("k", 8, 4096)[2048:]
    wrong = [b"", value[:-8], value[:-1], value + value, swapped, flipped, mixed, stamped("j", 7, 4096), bytes(4096)]
    assert [version_of("k", bytes_) for bytes_ in wrong] == [None] * len(wrong)


def test_clients_that_are_killed_leave_no_wrong_bytes() -> None:
    print(f"MOONCAKE_TEST_SEED={SEED}")
    chance, cut_off = random.Random(SEED), 0
    # The pool has room for all objects, so it evicts none, and every acknowledged object must exist.
    with Cluster() as cluster:
        for _ in range(2):
            cluster.start_node(256 * MIB)
        store = cluster.store()
        allowed: Allowed = {key: {None} for key in KEYS}
        for round_ in range(CLIENT_KILLS):
            what = "get" if round_ % 4 == 3 else "put"
            end = End(what, chance.randrange(5, 120), chance.random() * 0.001)
            first_version = round_ * VERSIONS_PER_WORKER
            with Worker(cluster.master_address, chance.randrange(1 << 32), first_version, end) as worker:
                said = worker.wait()
            cut_off += said[-1][0] == what
            follow(allowed, said, lost=False)
            found = held(cluster, store)
            assert set(found) == set(KEYS)
            assert {key: found[key] for key in KEYS if found[key] not in allowed[key]} == {}, f"round {round_}"
        assert sum(version is not None for version in found.values()) >= len(KEYS) // 2
        print(f"{cut_off} of {CLIENT_KILLS} kills cut off a call")
        assert cut_off > 0


def start_again(cluster: Cluster) -> str:
    """Starts a node in place of one that was killed. Returns it with the id of its segment."""
    before = used_bytes(cluster).keys()
    node = Process(
        "mooncake_client",
        "--host=127.0.0.1",
        f"--master_server_address={cluster.master_address}",
        f"--global_segment_size={256 * MIB}",
    )
    cluster.nodes.append(node)
    node.wait_ready(lambda: bool(used_bytes(cluster).keys() - before))
    (new,) = used_bytes(cluster).keys() - before
    return new


def is_used(cluster: Cluster, segment: str) -> bool:
    return used_bytes(cluster).get(segment, 0) > 0


def wait_for(worker: Worker, what: str, times: int) -> None:
    """Waits until the worker has said this `times` more."""
    start = len(worker.said)

    def is_said() -> bool:
        return sum(line[0] == what for line in worker.said[start:]) >= times

    wait_until(is_said, SLOWEST_CALL_SECONDS, f"{times} times {what}")


def test_nodes_that_are_killed_and_started_again() -> None:
    print(f"MOONCAKE_TEST_SEED={SEED}")
    chance = random.Random(SEED)
    with Cluster("--client_ttl=1") as cluster:
        for _ in range(2):
            cluster.start_node(256 * MIB)
        with Worker(cluster.master_address, chance.randrange(1 << 32), 0) as worker:
            for _ in range(NODE_KILLS):
                wait_for(worker, "done", chance.randrange(5, 60))
                time.sleep(chance.random() * 0.005)
                cluster.nodes[-2].kill()
                wait_for(worker, "hit", 1)
                new = start_again(cluster)
                wait_for(worker, "done", 20)
                wait_until(partial(is_used, cluster, new), 10, "the new node is put to use")
            worker.end = End("put", 0, 0.0)
            said = worker.wait()
        follow({key: {None} for key in KEYS}, said, lost=True)
        assert max(seconds for *_, seconds in said) < SLOWEST_CALL_SECONDS
        held(cluster, cluster.store())
