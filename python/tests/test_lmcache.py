"""The connector for LMCache's multi-process mode, called as LMCache calls it."""

from __future__ import annotations

import select
import threading
from collections.abc import Iterator

import pytest
from cluster import Cluster, content, wait_until
from mooncake.lmcache import Completion, StoreConnector
from mooncake.store import MooncakeDistributedStore


@pytest.fixture
def connector(cluster: Cluster) -> Iterator[StoreConnector]:
    connector = StoreConnector(num_workers=2, master_server_addr=cluster.master_address)
    yield connector
    connector.close()


def ended(connector: StoreConnector, *tasks: int) -> dict[int, Completion]:
    """Waits for these tasks as LMCache does: for the descriptor, then for what it announces."""
    poller = select.poll()
    poller.register(connector.event_fd(), select.POLLIN)
    found: dict[int, Completion] = {}
    while not found.keys() >= set(tasks):
        assert poller.poll(20_000), "no task ends"
        found.update((completion[0], completion) for completion in connector.drain_completions())
    return found


def result(connector: StoreConnector, task: int) -> tuple[bool, str, list[bool] | None]:
    return ended(connector, task)[task][1:]


def buffers(*lengths: int) -> list[memoryview]:
    return [memoryview(bytearray(length)) for length in lengths]


def test_objects_are_stored_found_loaded_and_deleted(
    connector: StoreConnector, store: MooncakeDistributedStore
) -> None:
    keys = ["llama@00000001@0@aa", "llama@00000001@0@bb@salt"]
    values = [memoryview(bytearray(content(key, 70_000 + at))) for at, key in enumerate(keys)]
    assert result(connector, connector.submit_batch_exists(keys)) == (True, "", [False, False])
    assert result(connector, connector.submit_batch_set(keys, values)) == (True, "", [True, True])
    assert result(connector, connector.submit_batch_set(keys, values)) == (True, "", [True, True]), "once more"
    assert [store.get(key) for key in keys] == [bytes(value) for value in values]
    lookup = connector.submit_batch_exists([*keys, "missing"])
    assert result(connector, lookup) == (True, "", [True, True, False])
    assert store.remove(keys[0]) == -706, "the look-up leases what the load needs"
    loaded = buffers(70_000, 70_001, 5)
    load = connector.submit_batch_get([*keys, "missing"], loaded)
    assert result(connector, load) == (False, "1 of 3 objects", [True, True, False])
    assert loaded[:2] == values
    assert store.remove(keys[0], force=True) == 0
    wait_until(lambda: result(connector, connector.submit_batch_delete(keys))[2] == [False, True], 20, "the lease ends")
    assert store.is_exist(keys[1]) == 0


def test_an_object_of_another_length_counts_as_missing(
    connector: StoreConnector, store: MooncakeDistributedStore
) -> None:
    assert (store.put("short", b"1234"), store.put("long", b"123456")) == (0, 0)
    loaded = result(connector, connector.submit_batch_get(["short", "long"], buffers(5, 5)))
    assert loaded == (False, "2 of 2 objects", [False, False])


def test_each_of_many_tasks_gets_its_own_results(connector: StoreConnector) -> None:
    values = {f"task {at}": memoryview(bytearray(content(f"task {at}", 1000))) for at in range(40)}
    tasks: list[int] = []

    def put(keys: list[str]) -> None:
        tasks.extend(connector.submit_batch_set([key], [values[key]]) for key in keys)

    keys = list(values)
    threads = [threading.Thread(target=put, args=(keys[at::4],)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(tasks)) == 40
    assert all(completion[1] for completion in ended(connector, *tasks).values())
    found = {key: connector.submit_batch_exists([key, f"{key}?"]) for key in keys}
    completions = ended(connector, *found.values())
    assert {completions[task][3] == [True, False] for task in found.values()} == {True}


def test_a_task_that_cannot_be_done_ends_with_a_reason(connector: StoreConnector) -> None:
    task = connector.submit_batch_get(["key"], [memoryview(b"read only")])
    (is_good, message, results) = result(connector, task)
    assert (is_good, results) == (False, None)
    assert message.startswith("TypeError: ")


def test_wrong_settings_are_refused(cluster: Cluster) -> None:
    with pytest.raises(RuntimeError, match="-600"):
        StoreConnector(master_server_addr=cluster.master_address, tenant_id="_x")
    with pytest.raises(ValueError, match="num_workers"):
        StoreConnector(num_workers=0)


def test_a_connector_lends_memory_and_has_a_tenant_where_it_is_told_to(cluster: Cluster) -> None:
    before = cluster.http("/get_all_segments")
    connector = StoreConnector(
        master_server_addr=cluster.master_address, global_segment_size=16 << 20, tenant_id="blue"
    )
    try:
        wait_until(lambda: cluster.http("/get_all_segments") != before, 20, "the connector lends memory")
        assert result(connector, connector.submit_batch_set(["k"], [memoryview(bytearray(b"v"))]))[0]
        assert cluster.store().for_tenant("blue").get("k") == b"v"
    finally:
        connector.close()
