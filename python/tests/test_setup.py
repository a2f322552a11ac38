"""The setup of a store in both forms, its close, and its answers before and after."""

import gc
import inspect
import os
import socket
import subprocess
import sys
import time
from typing import Any

import pytest
from cluster import MIB, Cluster, Memory, free_port, in_other_process, wait_until
from mooncake.store import MooncakeDistributedStore, error_advice, error_name

INVALID = -600


def test_the_seven_arguments(cluster: Cluster) -> None:
    store = MooncakeDistributedStore()
    code = store.setup("localhost", "P2PHANDSHAKE", 16 * MIB, 16 * MIB, "tcp", "", cluster.master_address)
    assert code == 0
    host, port = store.get_hostname().rsplit(":", 1)
    assert (host, 12300 <= int(port) <= 14300) == ("localhost", True)
    assert store.health_check() == 0
    assert store.close() == 0


def test_keywords_as_vllm_ascend_gives_them(cluster: Cluster) -> None:
    store = MooncakeDistributedStore()
    code = store.setup(
        local_hostname="localhost",
        metadata_server="P2PHANDSHAKE",
        global_segment_size=0,
        local_buffer_size=16 * MIB,
        protocol="tcp",
        rdma_devices="",
        master_server_addr=cluster.master_address,
        engine=None,
        enable_ssd_offload=False,
        ssd_offload_path="",
    )
    assert (code, store.close()) == (0, 0)


@pytest.mark.parametrize("master", ["master_server_addr", "master_server_address"])
@pytest.mark.parametrize("devices", ["rdma_devices", "device_name"])
@pytest.mark.parametrize("size", ["16MB", "16 MB", "16777216", 16777216])
def test_a_dict(cluster: Cluster, master: str, devices: str, size: object) -> None:
    store = MooncakeDistributedStore()
    config = {
        "local_hostname": "localhost",
        "metadata_server": "http://127.0.0.1:8080/metadata",
        "global_segment_size": size,
        "local_buffer_size": size,
        "protocol": "tcp",
        devices: "",
        master: cluster.master_address,
        "save_chunk_meta": True,
    }
    assert store.setup(config) == 0
    assert (store.put("k", b"value"), store.get("k"), store.remove("k", True)) == (0, b"value", 0)
    assert store.close() == 0


@pytest.mark.parametrize(
    "change",
    [
        {"global_segment_size": "50%"},
        {"local_buffer_size": "50%"},
        {"global_segment_size": "many"},
        {"global_segment_size": "-1"},
        {"global_segment_size": "99999999999999999999"},
        {"global_segment_size": "18446744073709551615k"},
        {"global_segment_size": 1023},
        {"local_buffer_size": 1},
        {"local_buffer_size": (1 << 40) + 1},
        {"local_hot_cache_size": "much"},
        {"local_hot_cache_size": 4096},
        {"local_hostname": None},
        {"metadata_server": None},
        {"protocol": "cxl"},
        {"protocol": "ascend"},
        {"protocol": "TCP"},
        {"protocol": "rpc_only", "global_segment_size": MIB},
        {"tenant_id": "_someone"},
        {"master_server_addr": "127.0.0.1:notaport"},
        {"master_server_addr": ""},
    ],
    ids=str,
)
def test_wrong_values_are_refused(cluster: Cluster, change: dict[str, Any]) -> None:
    config = {
        "local_hostname": "localhost",
        "metadata_server": "P2PHANDSHAKE",
        "global_segment_size": 0,
        "local_buffer_size": MIB,
        "master_server_addr": cluster.master_address,
    }
    store = MooncakeDistributedStore()
    assert store.setup(config | change) == INVALID
    assert store.health_check() == 1
    assert store.setup(config) == 0, "a refused setup may be tried again"
    store.close()


def test_the_log_names_what_was_wrong() -> None:
    code = """
import json, os, sys, tempfile
from mooncake.store import MooncakeDistributedStore
with tempfile.TemporaryFile("w+") as log:
    saved = os.dup(2)
    os.dup2(log.fileno(), 2)
    MooncakeDistributedStore().setup("h", "m", 0, 1 << 20, "ascend", "", "127.0.0.1:1")
    os.dup2(saved, 2)
    log.seek(0)
    print(json.dumps(log.read()))
"""
    log = str(in_other_process(code))
    assert "protocol" in log
    assert "ascend" in log


@pytest.mark.parametrize("protocol", ["rdma", "efa"])
def test_tcp_serves_who_asks_for_devices_that_are_not_there(cluster: Cluster, protocol: str) -> None:
    store = MooncakeDistributedStore()
    assert store.setup("localhost", "P2PHANDSHAKE", 0, MIB, protocol, "mlx5_0", cluster.master_address) == 0
    assert (store.put(protocol, b"v"), store.get(protocol), store.close()) == (0, b"v", 0)


def test_every_protocol_is_tcp_if_the_environment_says_so(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MC_FORCE_TCP", "1")
    store = MooncakeDistributedStore()
    assert store.setup("localhost", "P2PHANDSHAKE", 0, MIB, "ascend", "", cluster.master_address) == 0
    assert (store.put("forced", b"v"), store.get("forced"), store.close()) == (0, b"v", 0)


@pytest.mark.parametrize(
    ("arguments", "keywords", "named"),
    [
        ((), {}, "local_hostname"),
        (("h", "m", 0, MIB, "tcp", ""), {}, "master_server_addr"),
        (("h", "m", 0, MIB, "tcp", "", "a:1"), {"session_pool": 1}, "session_pool"),
        (("h", "m", 0, MIB, "tcp", "", "a:1"), {"protocol": "tcp"}, "protocol"),
        (("h", "m", -1, MIB, "tcp", "", "a:1"), {}, "global_segment_size"),
        (("h", "m", 0, 1 << 64, "tcp", "", "a:1"), {}, "local_buffer_size"),
        (("h", "m", 0, "16MB", "tcp", "", "a:1"), {}, "local_buffer_size"),
        (("h", "m", 0, 1.5, "tcp", "", "a:1"), {}, "local_buffer_size"),
        ((None, "m", 0, MIB, "tcp", "", "a:1"), {}, "local_hostname"),
        (("h", None, 0, MIB, "tcp", "", "a:1"), {}, "metadata_server"),
        (("h", "m", 0, MIB, "tcp", "", "a:1"), {"enable_ssd_offload": "yes"}, "enable_ssd_offload"),
        (("h", "m", 0, MIB, "tcp", "", "a:1"), {"tenant_id": None}, "tenant_id"),
        (("h", "m", 0, MIB, "tcp", "", "a:1", *([None] * 8)), {}, "15"),
    ],
)
def test_wrong_types_raise_and_name_the_argument(
    arguments: tuple[Any, ...], keywords: dict[str, Any], named: str
) -> None:
    with pytest.raises(TypeError, match=r"setup\(\): incompatible function arguments: ") as error:
        MooncakeDistributedStore().setup(*arguments, **keywords)
    assert named in str(error.value).split(". The following forms")[0]


def test_the_signature_can_be_inspected() -> None:
    assert list(inspect.signature(MooncakeDistributedStore().setup).parameters) == [
        "local_hostname",
        "metadata_server",
        "global_segment_size",
        "local_buffer_size",
        "protocol",
        "rdma_devices",
        "master_server_addr",
        "engine",
        "enable_ssd_offload",
        "ssd_offload_path",
        "tenant_id",
        "enable_client_http_server",
        "client_http_port",
        "enable_embedded_master",
    ]
    assert "enable_ssd_offload" in (MooncakeDistributedStore.setup.__doc__ or "")


def test_answers_of_a_store_that_is_not_set_up() -> None:
    store, memory = MooncakeDistributedStore(), Memory(4096)
    at = memory.address
    answers = [
        (store.put("k", b"v"), INVALID),
        (store.put_parts("k", b"v"), INVALID),
        (store.put_batch(["k"], [b"v"]), INVALID),
        (store.put_from("k", at, 8), INVALID),
        (store.batch_put_from(["k", "l"], [at, at], [8, 8]), [INVALID] * 2),
        (store.batch_put_from_multi_buffers(["k"], [[at]], [[8]]), [INVALID]),
        (store.get("k"), b""),
        (store.get_batch(["k", "l"]), [b"", b""]),
        (store.get_buffer("k"), None),
        (store.batch_get_buffer(["k", "l"]), [None, None]),
        (store.get_into("k", at, 8), INVALID),
        (store.batch_get_into(["k"], [at], [8]), [INVALID]),
        (store.batch_get_into_multi_buffers(["k"], [[at]], [[8]]), [INVALID]),
        (store.is_exist("k"), INVALID),
        (store.batch_is_exist(["k", "l"]), [INVALID] * 2),
        (store.batch_prefix_len(["k", "l"]), INVALID),
        (store.get_size("k"), INVALID),
        (store.remove("k"), INVALID),
        (store.batch_remove(["k", "l"]), [INVALID] * 2),
        (store.remove_by_regex(".*"), INVALID),
        (store.remove_all(), INVALID),
        (store.register_buffer(at, 8), INVALID),
        (store.unregister_buffer(at), INVALID),
        (store.get_hostname(), ""),
        (store.health_check(), 1),
        (store.close(), 0),
    ]
    assert [got for got, _ in answers] == [wanted for _, wanted in answers]


def test_close_is_idempotent_and_setup_works_again(cluster: Cluster) -> None:
    store = MooncakeDistributedStore()
    for _ in range(2):
        assert cluster.setup(store, 16 * MIB) == 0
        assert cluster.setup(store) == INVALID, "a store that is set up is not set up over"
        assert store.get("k") == b"", "what the closed segment held is gone"
        assert (store.put("k", b"value"), store.get("k")) == (0, b"value")
        assert store.remove("k", True) == 0
        assert (store.close(), store.close()) == (0, 0)
        assert (store.health_check(), store.get("k"), store.is_exist("k")) == (1, b"", INVALID)


def test_a_store_that_is_never_closed_leaves_the_pool_when_it_is_collected(cluster: Cluster) -> None:
    before = len(cluster.segments())
    store = MooncakeDistributedStore()
    assert cluster.setup(store, 16 * MIB) == 0
    assert len(cluster.segments()) == before + 1
    del store
    gc.collect()
    wait_until(lambda: len(cluster.segments()) == before, 5, "the segment is unmounted")


def test_a_process_that_ends_without_close_leaves_the_pool(cluster: Cluster) -> None:
    before = len(cluster.segments())
    code = """
import json, sys
from mooncake.store import MooncakeDistributedStore
store = MooncakeDistributedStore()
print(json.dumps(store.setup("localhost", "P2PHANDSHAKE", 1 << 24, 1 << 20, "tcp", "", sys.argv[1])))
"""
    assert in_other_process(code, cluster.master_address) == 0
    wait_until(lambda: len(cluster.segments()) == before, 5, "the segment is unmounted")


def test_a_taken_port_is_an_error_and_not_a_hang(cluster: Cluster) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        store = MooncakeDistributedStore()
        name = f"127.0.0.1:{taken.getsockname()[1]}"
        code = store.setup(name, "P2PHANDSHAKE", 16 * MIB, MIB, "tcp", "", cluster.master_address)
        assert (code, store.health_check()) == (-1, 1)


def test_a_master_that_is_not_there_is_an_error_in_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MC_RPC_CONNECT_TIMEOUT_MS", "1000")
    store, begin = MooncakeDistributedStore(), time.monotonic()
    assert store.setup("localhost", "P2PHANDSHAKE", 0, MIB, "tcp", "", f"127.0.0.1:{free_port()}") == -1
    assert time.monotonic() - begin < 5
    assert store.health_check() == 1


def test_another_cluster_is_refused(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MC_STORE_CLUSTER_ID", "elsewhere")
    assert cluster.setup(MooncakeDistributedStore()) == INVALID


def test_a_wrong_environment_is_refused(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MC_RPC_TIMEOUT_MS", "soon")
    assert cluster.setup(MooncakeDistributedStore()) == INVALID


def test_a_pure_metadata_client(cluster: Cluster) -> None:
    store = MooncakeDistributedStore()
    arguments = ("localhost", "P2PHANDSHAKE", 0, MIB, "rpc_only", "", cluster.master_address)
    assert store.setup(*arguments) == 0
    assert store.is_exist("nothing") == 0
    store.close()


NOTICES = """
import os, sys
from mooncake.store import MooncakeDistributedStore
settings = {"local_hostname": "localhost", "metadata_server": "P2PHANDSHAKE", "master_server_addr": sys.argv[1],
            "global_segment_sise": "32mb", "global_segment_size": 0, "rdma_devices": "mlx5_0", "protocol": "rdma"}
print(MooncakeDistributedStore().setup(settings))
print(MooncakeDistributedStore().setup({**settings, "segment_reset": "enable"}))
"""


def test_what_has_no_effect_is_named_and_what_is_misspelt(cluster: Cluster) -> None:
    """A warning for each cause. The store runs in another process, so that the test can read its log."""
    variables = {"MC_LOG_LEVEL": "noisy", "MC_STORE_LOCAL_HOT_USE_SHM": "1", "MC_STORE_USE_HUGEPAGE": "0"}
    ended = subprocess.run(
        [sys.executable, "-c", NOTICES, cluster.master_address],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.stdout.split() == ["0", str(INVALID)], ended.stderr
    for notice in (
        'MC_LOG_LEVEL is "noisy", which is no level, and is taken for warn',
        'there is no setting "global_segment_sise", and it changes nothing; did you mean "global_segment_size"?',
        "protocol 'rdma': there is no NIC of libibverbs, so other hosts are reached by tcp",
        "MC_STORE_LOCAL_HOT_USE_SHM (all processes of a user",
        'segment_reset is "enable"; it must be true or false',
    ):
        assert notice in ended.stderr, f"{notice} is not in\n{ended.stderr}"
    # Only the first store of a process warns about the environment.
    assert ended.stderr.count("MC_STORE_LOCAL_HOT_USE_SHM") == 1
    assert "HUGEPAGE" not in ended.stderr


def test_a_number_has_a_name() -> None:
    assert (error_name(-200), error_name(0), error_name(4096)) == ("NO_AVAILABLE_HANDLE", "OK", "OK")
    assert error_advice(-400).startswith("A key is empty or has more than 4096 bytes")
    with pytest.raises(ValueError, match="-2 is no error code"):
        error_name(-2)


def test_a_full_pool_is_told_from_an_empty_one(capfd: pytest.CaptureFixture[str]) -> None:
    with Cluster() as empty:
        store = empty.store()
        assert store.put("key", b"value") == -200
    assert "-200: the pool is empty: no node lends memory" in capfd.readouterr().err


def test_no_disk_is_taken_back_where_none_is_lent(cluster: Cluster) -> None:
    store = cluster.store()
    assert store.unmount_local_disk_segment() == -101
