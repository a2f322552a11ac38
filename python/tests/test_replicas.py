"""Where replicas lie, how they are cleared, and how they are copied and moved in the background."""

from time import monotonic

import pytest
from cluster import MIB, Cluster, content, wait_until
from mooncake.store import (
    MooncakeDistributedStore,
    QueryTaskResponse,
    ReplicaStatus,
    ReplicateConfig,
    TaskStatus,
    TaskType,
)

Store = MooncakeDistributedStore


def segments_of(store: Store, key: str) -> list[str]:
    replicas = store.get_replica_desc(key)
    return [replica.get_memory_descriptor().buffer_descriptor.transport_endpoint for replica in replicas]


def finished(store: Store, task: tuple[int, int]) -> QueryTaskResponse:
    def is_over() -> bool:
        response, code = store.query_task(task)
        assert code == 0
        assert response is not None
        return response.status in (TaskStatus.SUCCESS, TaskStatus.FAILED)

    wait_until(is_over, 20, "the task has ended")
    response, _ = store.query_task(task)
    assert response is not None
    return response


def test_descriptors(cluster: Cluster, store: Store) -> None:
    config = ReplicateConfig()
    config.replica_num = 2
    assert store.put("k", content("k", 5000), config) == 0
    (first, second) = store.get_replica_desc("k")
    assert (first.status, second.status) == (ReplicaStatus.COMPLETE, ReplicaStatus.COMPLETE)
    assert (first.is_memory_replica(), first.is_disk_replica(), first.is_local_disk_replica()) == (True, False, False)
    descriptor = first.get_memory_descriptor().buffer_descriptor
    assert (descriptor.size, descriptor.transport_endpoint in cluster.segments()) == (5000, True)
    assert "size=5000" in repr(descriptor)
    assert sorted(segments_of(store, "k")) == sorted(cluster.segments())
    with pytest.raises(RuntimeError):
        first.get_disk_descriptor()
    found = store.batch_get_replica_desc(["k", "none", "k"])
    assert (list(found), len(found["k"])) == (["k"], 2)
    assert store.get_replica_desc("none") == []


def test_clearing(cluster: Cluster, store: Store) -> None:
    config = ReplicateConfig()
    config.replica_num = 2
    value = content("k", 5000)
    assert store.put_batch(["k", "all"], [value, value], config) == 0
    other = cluster.store()
    (here, there) = cluster.segments()
    assert store.batch_replica_clear(["k"], here) == [], "it is as young as a lease is long"
    wait_until(lambda: store.batch_replica_clear(["k"], here) == ["k"], 5, "it is older than a lease is long")
    assert other.batch_replica_clear(["k", "all", "none"]) == []
    assert store.batch_replica_clear(["all", "all", "none"]) == ["all"]
    assert segments_of(store, "k") == [there]
    assert (store.get("k"), store.get("all")) == (value, b"")
    assert store.batch_replica_clear(["k"]) == [], "it is leased"
    wait_until(lambda: store.batch_replica_clear(["k"], there) == ["k"], 5, "the lease is over")
    assert store.is_exist("k") == 0


def test_a_copy(cluster: Cluster, store: Store) -> None:
    value = content("k", 3 * MIB)
    assert store.put("k", value) == 0
    (here,) = segments_of(store, "k")
    (there,) = set(cluster.segments()) - {here}
    task, code = store.create_copy_task("k", [there])
    assert code == 0
    response = finished(store, task)
    assert (response.status, response.type, response.id) == (TaskStatus.SUCCESS, TaskType.REPLICA_COPY, task)
    assert response.created_at_ms_epoch <= response.last_updated_at_ms_epoch
    assert response.assigned_client != (0, 0)
    assert (response.message, "REPLICA" in repr(response)) == ("", False)
    assert sorted(segments_of(store, "k")) == sorted([here, there])
    wait_until(lambda: store.batch_replica_clear(["k"], here) == ["k"], 5, "the lease is over")
    assert (segments_of(store, "k"), store.get("k")) == ([there], value)


def test_a_move(cluster: Cluster, store: Store) -> None:
    value = content("k", 5 * MIB + 1)
    assert store.put("k", value) == 0
    (here,) = segments_of(store, "k")
    (there,) = set(cluster.segments()) - {here}
    task, code = store.create_move_task("k", here, there)
    assert code == 0
    response = finished(store, task)
    assert (response.status, response.type) == (TaskStatus.SUCCESS, TaskType.REPLICA_MOVE)
    assert (segments_of(store, "k"), cluster.store().get("k")) == ([there], value)


def test_tasks_that_cannot_be(cluster: Cluster, store: Store) -> None:
    assert store.put("k", b"value") == 0
    (here,) = segments_of(store, "k")
    (there,) = set(cluster.segments()) - {here}
    assert store.create_copy_task("none", [there]) == ((0, 0), -704)
    assert store.create_copy_task("k", ["nowhere:1"]) == ((0, 0), -600)
    assert store.create_move_task("k", here, "nowhere:1") == ((0, 0), -600)
    assert store.create_move_task("none", here, there) == ((0, 0), -704)
    assert store.create_move_task("k", there, here)[1] < 0
    assert store.query_task((1, 2)) == (None, -1400)
    assert store.query_task([1, 2]) == (None, -1400), "as callers have it who keep ids as JSON"  # type: ignore[arg-type]
    for wrong in [None, 1, (1,), (1, 2, 3), (-1, 2), ("a", "b")]:
        with pytest.raises(TypeError, match="task_id"):
            store.query_task(wrong)  # type: ignore[arg-type]


def test_an_object_that_lost_a_replica_and_was_read_once_can_be_removed_a_lease_later() -> None:
    lease_s = 3.0
    with Cluster(f"--default_kv_lease_ttl={1000 * lease_s:.0f}", "--client_ttl=1") as cluster:
        for _ in range(2):
            cluster.start_node(64 * MIB)
        reader, lender = cluster.store(), cluster.store(segment_bytes=64 * MIB)
        config = ReplicateConfig()
        config.replica_num = 3
        value = content("k", 5000)

        def await_repairs(count: int, seconds: float) -> None:
            metric = f"master_repaired_replicas_total {count}\n"
            wait_until(lambda: metric in (cluster.http("/metrics") or ""), seconds, f"{count} replicas are made anew")

        # A master that has just started repairs no replica yet, since nodes may still report it.
        assert reader.put("first", value, config) == 0
        lender.close()
        assert cluster.setup(lender, 64 * MIB) == 0
        await_repairs(1, 20)

        assert reader.put("k", value, config) == 0
        lender.close()
        assert reader.get("k") == value
        read = monotonic()
        assert cluster.setup(lender, 64 * MIB) == 0
        await_repairs(3, lease_s)
        repaired = monotonic()
        wait_until(lambda: reader.remove("k") == 0, 3 * lease_s, "it is not leased")
        rested = monotonic() - read
        # The copy was made in the middle of the lease. If it had renewed the lease, the removal would have waited
        # longer.
        assert rested < lease_s + (repaired - read) / 2, f"{rested} s after the read, {repaired - read} s to repair"
