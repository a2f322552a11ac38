"""Drain jobs over the master's HTTP interface, with the requests that tools for the C++ package send."""

import os
import re
import signal
from typing import Any

import pytest
from cluster import MIB, Cluster, content, pause, wait_until
from mooncake.store import MooncakeDistributedStore, ReplicateConfig
from rest import Answer, ask

Store = MooncakeDistributedStore
JOBS = "/api/v1/drain_jobs"
UNKNOWN = "JOB_NOT_FOUND: the master that leads now knows of no such drain job; jobs end with the leader that took them"


def preferring(name: str) -> ReplicateConfig:
    config = ReplicateConfig()
    config.preferred_segment = name
    return config


def endpoints(store: Store, key: str) -> set[str]:
    replicas = store.get_replica_desc(key)
    return {replica.get_memory_descriptor().buffer_descriptor.transport_endpoint for replica in replicas}


def create(pool: Cluster, **order: object) -> str:
    status, created = ask(pool.http_port, "POST", JOBS, order)
    assert status == 200, created
    job: str = created.pop("job_id")
    assert created == {"success": True, "status": "CREATED", "error_code": 0, "error_message": ""}
    # Tools for the C++ package parse the id.
    assert re.fullmatch(r"\d+-\d+", job)
    return job


def query(pool: Cluster, job: str) -> dict[str, Any]:
    status, progress = ask(pool.http_port, "GET", f"{JOBS}/query?job_id={job}")
    assert status == 200, progress
    assert isinstance(progress, dict)
    return progress


def segment_status(pool: Cluster, name: str) -> str:
    status, answer = ask(pool.http_port, "GET", f"/api/v1/segments/status?segment={name}")
    assert (status, answer["success"], answer["segment"]) == (200, True, name)
    name_of_status: str = answer["status_name"]
    return name_of_status


def refused(status: int, code: int, message: str) -> Answer:
    return status, {"success": False, "error_code": code, "error_message": message}


def test_a_job_from_its_creation_to_its_end() -> None:
    with Cluster() as pool:
        source, target, reader = pool.store(32 * MIB), pool.store(32 * MIB), pool.store()
        (old, new) = (source.get_hostname(), target.get_hostname())
        values = {f"early-{number}": content(str(number), 256 << 10) for number in range(24)}
        for key, value in values.items():
            assert source.put(key, value, preferring(old)) == 0
            assert endpoints(reader, key) == {old}
        job = create(pool, segments=[old], target_segments=[new], max_concurrency=1)
        assert segment_status(pool, old) in ("DRAINING", "DRAINED")
        late = content("late", 64 << 10)
        assert source.put("late", late, preferring(old)) == 0
        assert endpoints(reader, "late") == {new}
        wait_until(lambda: query(pool, job)["status_name"] == "SUCCEEDED", 30, "the job succeeds")
        last = query(pool, job)
        assert last.pop("created_at_ms_epoch") <= last.pop("last_updated_at_ms_epoch") + 1
        assert last == {
            "success": True,
            "job_id": job,
            "type": 0,
            "type_name": "DRAIN",
            "status": 3,
            "status_name": "SUCCEEDED",
            "segments": [old],
            "succeeded_units": 24,
            "failed_units": 0,
            "blocked_units": 0,
            "active_units": 0,
            "migrated_bytes": 24 * (256 << 10),
            "message": "Drain job finished successfully",
            "error_code": 0,
            "error_message": "",
            # The C++ master does not have these fields.
            "released_units": 0,
            "remaining_units": 0,
            "remaining_bytes": 0,
        }
        assert segment_status(pool, old) == "DRAINED"
        for _ in range(2):
            for key, value in {**values, "late": late}.items():
                assert reader.get(key) == value, key
                assert endpoints(reader, key) == {new}
            source.close()


def test_a_job_is_canceled_while_something_is_on_its_way() -> None:
    with Cluster() as pool:
        node = pool.start_node(32 * MIB)
        (name,) = pool.segments()
        store = pool.store()
        assert store.put("k", content("k", MIB)) == 0
        pool.start_node(32 * MIB)
        # A paused node moves no object.
        pause(node.pid)
        job = create(pool, segments=[name])
        wait_until(lambda: query(pool, job)["active_units"] == 1, 10, "a unit is on its way")
        assert query(pool, job)["status_name"] == "RUNNING"
        again = ask(pool.http_port, "POST", JOBS, {"segments": [name]})
        assert again == refused(409, -1010, "UNAVAILABLE_IN_CURRENT_STATUS")
        cancel = f"{JOBS}/cancel?job_id={job}"
        canceled = {"success": True, "job_id": job, "status": "CANCELED", "error_code": 0, "error_message": ""}
        assert ask(pool.http_port, "POST", cancel) == (200, canceled)
        assert query(pool, job)["status_name"] == "CANCELED"
        assert segment_status(pool, name) == "OK"
        assert ask(pool.http_port, "POST", cancel) == refused(409, -1010, "UNAVAILABLE_IN_CURRENT_STATUS")
        os.kill(node.pid, signal.SIGCONT)
        wait_until(lambda: store.get("k") == content("k", MIB), 10, "the node is back")


@pytest.mark.parametrize("body", [b"", b"{", b'{"segments": "a"}', b'{"segments": [1]}', b'{"segments": null}'])
def test_a_body_that_is_no_order_is_refused(cluster: Cluster, body: bytes) -> None:
    status, answer = ask(cluster.http_port, "POST", JOBS, body)
    assert (status, answer["success"], answer["error_code"]) == (400, False, -600)
    assert answer["error_message"].startswith("Invalid JSON body: ")


def test_orders_and_ids_that_make_no_sense_are_refused(cluster: Cluster) -> None:
    (first, second) = cluster.segments()
    for order, answer in [
        ({}, refused(400, -600, "INVALID_PARAMS")),
        ({"segments": []}, refused(400, -600, "INVALID_PARAMS")),
        ({"segments": [first, first]}, refused(400, -600, "INVALID_PARAMS")),
        ({"segments": [first], "target_segments": [first]}, refused(400, -600, "INVALID_PARAMS")),
        ({"segments": [first], "max_concurrency": 0}, refused(400, -600, "INVALID_PARAMS")),
        ({"segments": ["nobody:1"]}, refused(404, -101, "SEGMENT_NOT_FOUND")),
        ({"segments": [first, "nobody:1"]}, refused(404, -101, "SEGMENT_NOT_FOUND")),
        ({"segments": [first], "target_segments": ["nobody:1"]}, refused(404, -101, "SEGMENT_NOT_FOUND")),
    ]:
        assert ask(cluster.http_port, "POST", JOBS, order) == answer, order
    for method, path in [("GET", "query"), ("POST", "cancel")]:
        for wrong in ("", "?job_id=", "?job_id=seven", "?job_id=1", "?job_id=1-2-3"):
            answer = ask(cluster.http_port, method, f"{JOBS}/{path}{wrong}")
            assert answer == refused(400, -600, "Missing or invalid job_id"), wrong
        assert ask(cluster.http_port, method, f"{JOBS}/{path}?job_id=1-2") == refused(404, -1402, UNKNOWN)
    # No part of the request took effect.
    assert [segment_status(cluster, name) for name in (first, second)] == ["OK", "OK"]
    assert ask(cluster.http_port, "GET", JOBS) == (200, {"success": True, "jobs": []})


def lender(cluster: Cluster, **settings: object) -> MooncakeDistributedStore:
    """A store in this process that lends 16 MiB, and has put ten objects there."""
    store = MooncakeDistributedStore()
    places = {"local_hostname": "localhost", "metadata_server": "", "master_server_addr": cluster.master_address}
    sizes = {"global_segment_size": 16 * MIB, "local_buffer_size": 16 * MIB}
    assert store.setup({**places, **sizes, **settings}) == 0
    here = preferring(store.get_hostname())
    for number in range(10):
        assert store.put(f"embedded-{number}", content(f"embedded-{number}", 100_000), here) == 0
    return store


def all_there(store: MooncakeDistributedStore) -> bool:
    return all(store.get(f"embedded-{n}") == content(f"embedded-{n}", 100_000) for n in range(10))


def test_a_store_in_another_program_is_emptied_when_that_asks_for_it(
    cluster: Cluster, store: MooncakeDistributedStore
) -> None:
    going = lender(cluster)
    assert going.drain(timeout_sec=20) == 0
    assert going.close() == 0
    assert all_there(store)


def test_a_store_that_was_set_up_to_drain_does_so_when_it_is_closed(
    cluster: Cluster, store: MooncakeDistributedStore
) -> None:
    assert lender(cluster, drain_timeout_sec="20").close() == 0
    assert all_there(store)


def test_a_store_is_closed_without_a_drain_unless_one_was_asked_for(
    cluster: Cluster, store: MooncakeDistributedStore
) -> None:
    assert lender(cluster).close() == 0
    assert not any(store.is_exist(f"embedded-{n}") for n in range(10))


def test_a_drain_of_what_cannot_be_drained_is_refused(cluster: Cluster) -> None:
    closed = MooncakeDistributedStore()
    assert closed.drain() == -600
    wrong = {"local_hostname": "localhost", "metadata_server": "P2PHANDSHAKE", "drain_timeout_sec": "soon"}
    assert closed.setup({**wrong, "master_server_addr": cluster.master_address}) == -600
