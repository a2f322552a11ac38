"""Tenants of one pool: keys apart, quotas, and what survives the master."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster import MIB, Cluster, content, wait_until
from mooncake.store import MooncakeDistributedStore
from rest import JSON, OK, Answer, Api

QUOTA_EXCEEDED, NOT_REGISTERED, NOT_EMPTY = -1700, -1701, -1702


def store_of(cluster: Cluster, tenant: str, **more: Any) -> MooncakeDistributedStore:
    store = MooncakeDistributedStore()
    arguments = ("localhost", "P2PHANDSHAKE", 0, 16 * MIB, "tcp", "", cluster.master_address)
    assert store.setup(*arguments, tenant_id=tenant, **more) == 0
    cluster.stores.append(store)
    return store


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    """A pool without quotas."""
    with Cluster() as cluster:
        cluster.start_node(64 * MIB)
        yield cluster


def test_tenants_do_not_see_each_others_keys(shared: Cluster) -> None:
    stores = {name: store_of(shared, name) for name in ["default", "blue", "red"]}
    for name, store in stores.items():
        assert store.put("k", name.encode()) == 0
        assert store.put_batch(["a", "b"], [name.encode()] * 2) == 0
    for name, store in stores.items():
        assert store.get("k") == name.encode()
        assert store.get_batch(["a", "b"]) == [name.encode()] * 2
        assert store.get_size("k") == len(name)
        assert sorted(store.query_by_regex("^.$")) == ["a", "b", "k"]
        assert store.batch_is_exist(["a", "none", "k"]) == [1, 0, 1]
        assert store.batch_prefix_len(["a", "b", "none", "k"]) == 2
    assert stores["blue"].remove("k", True) == 0
    assert [store.is_exist("k") for store in stores.values()] == [1, 0, 1]
    assert stores["red"].remove_by_regex("^[ab]$", True) == 2
    assert stores["default"].remove_all(True) == 3
    assert stores["blue"].batch_is_exist(["a", "b"]) == [1, 1]
    assert stores["red"].get("k") == b"red"


def test_no_key_reaches_into_another_tenant(shared: Cluster) -> None:
    plain, blue = store_of(shared, ""), store_of(shared, "blue")
    assert blue.put("secret", b"blue") == 0
    forged = "\0blue\0secret"
    assert plain.is_exist(forged) == 0
    assert (plain.put(forged, b"forged"), plain.get(forged), blue.get("secret")) == (0, b"forged", b"blue")
    assert blue.is_exist(forged) == 0
    assert plain.put("k" * 4096, b"longest") == 0
    assert blue.put("k" * (4096 - len("blue") - 2), b"longest") == 0
    assert blue.put("k" * (4096 - len("blue") - 1), b"too long") == -400


def test_sessions_ranges_and_copies_are_of_the_tenant(shared: Cluster) -> None:
    plain, blue = store_of(shared, ""), store_of(shared, "blue")
    source, target = bytearray(b"0123456789"), bytearray(10)
    (from_address, to_address) = (_address(source), _address(target))
    for store, memory in ((blue, source), (blue, target)):
        assert store.register_buffer(_address(memory), len(memory)) == 0
    assert blue.put_from("from", from_address, 10) == 0
    assert blue.get_into("from", to_address, 10) == 10
    assert target == source
    assert plain.is_exist("from") == 0
    assert blue.upsert("from", b"newer") == 0
    assert blue.get("from") == b"newer"


def _address(memory: bytearray) -> int:
    import ctypes

    return ctypes.addressof((ctypes.c_char * len(memory)).from_buffer(memory))


def test_a_store_is_viewed_for_another_tenant(shared: Cluster) -> None:
    store = store_of(shared, "")
    view = store.for_tenant("view")
    assert view.put("k", b"view") == 0
    assert (store.is_exist("k"), store.for_tenant("view").get("k")) == (0, b"view")
    assert view.get_hostname() == store.get_hostname()
    assert view.close() == 0
    assert store.put("still", b"open") == 0
    with pytest.raises(ValueError, match="'_x'"):
        store.for_tenant("_x")
    with pytest.raises(ValueError, match="blue"):
        MooncakeDistributedStore().for_tenant("blue")


def test_a_store_that_names_no_tenant_has_that_of_the_environment(
    shared: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOONCAKE_TENANT_ID", "surroundings")
    address = ("localhost", "P2PHANDSHAKE", 0, 16 * MIB, "tcp", "", shared.master_address)
    named = {
        "local_hostname": "localhost",
        "metadata_server": "P2PHANDSHAKE",
        "master_server_addr": shared.master_address,
    }
    positional, by_dict, default = (MooncakeDistributedStore() for _ in range(3))
    shared.stores += [positional, by_dict, default]
    assert (positional.setup(*address), by_dict.setup({**named, "global_segment_size": "0"})) == (0, 0)
    assert default.setup(*address, tenant_id="default") == 0
    assert positional.put("e", b"value") == 0
    assert (by_dict.get("e"), default.is_exist("e")) == (b"value", 0)
    assert store_of(shared, "surroundings").get("e") == b"value"
    monkeypatch.setenv("MOONCAKE_TENANT_ID", "_x")
    assert MooncakeDistributedStore().setup(*address) == -600


def test_rest_requests_name_their_tenant(shared: Cluster) -> None:
    api = Api()
    api.service.store = store_of(shared, "")

    def ask(method: str, path: str, tenant: str, body: object = None) -> Answer:
        return api.ask(method, path, body, {**JSON, "X-Mooncake-Tenant": tenant} if tenant else JSON)

    try:
        for tenant in ["", "rest"]:
            assert ask("PUT", "/api/put", tenant, {"key": "r", "value": tenant or "own"}) == OK
        assert ask("GET", "/api/get/r", "") == (200, b"own")
        assert ask("GET", "/api/get/r", "rest") == (200, b"rest")
        assert ask("GET", "/api/exist/r", "other") == (200, {"exists": False})
        status, answer = ask("GET", "/api/exist/r", "_other")
        assert (status, "X-Mooncake-Tenant" in answer["error"]) == (400, True)
    finally:
        api.close()


class Quotas:
    """A pool that enforces the quotas of a file."""

    def __init__(self, folder: Path, text: str, node_bytes: int) -> None:
        self.file = folder / "quotas.yaml"
        self.file.write_text(text)
        flags = ["--enable_multi_tenants", f"--tenant_quota_connector_uri={self.file}", "--default_kv_lease_ttl=100ms"]
        self.cluster = Cluster(*flags)
        self.node = self.cluster.start_node(node_bytes)

    def ask(self, method: str, tenant: str = "", body: object = None) -> tuple[int, Any]:
        query = f"?tenant_id={urllib.parse.quote(tenant)}" if tenant else ""
        url = f"http://127.0.0.1:{self.cluster.http_port}/api/v1/tenant_quotas{query}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=5) as reply:
                return reply.status, json.load(reply)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def state(self, tenant: str) -> dict[str, Any]:
        status, answer = self.ask("GET", tenant)
        assert status == 200, answer
        state: dict[str, Any] = answer["data"]
        return state


QUOTAS = """
version: 1
tenants:
  - name: quiet
    quota: 16MB
  - name: noisy
    quota: 16MB
    burst: 32MB
"""


@pytest.fixture
def quotas(tmp_path: Path) -> Iterator[Quotas]:
    quotas = Quotas(tmp_path, QUOTAS, 32 * MIB)
    with quotas.cluster:
        yield quotas


def test_a_noisy_tenant_takes_nothing_of_the_quota_of_another(quotas: Quotas) -> None:
    quiet, noisy = (store_of(quotas.cluster, name) for name in ["quiet", "noisy"])
    # Above 90 % of its quota a tenant is relieved of objects, whatever others do.
    for number in range(14):
        assert quiet.put(f"q{number}", content(f"q{number}", MIB)) == 0
    for number in range(100):
        assert noisy.put(f"n{number}", content(f"n{number}", MIB)) == 0
    for number in range(14):
        assert quiet.get(f"q{number}") == content(f"q{number}", MIB)
    assert quotas.state("quiet")["evicted_bytes"] == 0
    noisy_state = quotas.state("noisy")
    assert noisy_state["evicted_bytes"] >= 80 * MIB
    assert noisy_state["charged_bytes"] <= 32 * MIB
    metrics = quotas.cluster.http("/metrics") or ""
    assert f'mooncake_tenant_quota_charged_bytes{{tenant_id="quiet"}} {14 * MIB}' in metrics


def test_puts_beyond_a_quota_or_without_one_are_refused(quotas: Quotas) -> None:
    quiet, red = (store_of(quotas.cluster, name) for name in ["quiet", "red"])
    assert red.put("k", b"v") == NOT_REGISTERED
    assert store_of(quotas.cluster, "").put("k", b"v") == NOT_REGISTERED
    assert quiet.put("k", content("k", 17 * MIB)) == QUOTA_EXCEEDED
    assert quotas.state("quiet")["refused_puts"] == 1
    assert red.is_exist("k") == 0


def test_quotas_are_changed_over_http_and_survive_the_master(quotas: Quotas) -> None:
    red = store_of(quotas.cluster, "red")
    status, answer = quotas.ask("GET", "red")
    assert (status, answer["error_code"]) == (404, NOT_REGISTERED)
    wanted = {"requested_quota_bytes": 2 * MIB, "burst_bytes": 4 * MIB, "quota_objects": 10}
    status, answer = quotas.ask("PUT", "red", wanted)
    assert (status, answer["data"]["requested_quota_bytes"], answer["data"]["burst_bytes"]) == (200, 2 * MIB, 4 * MIB)
    assert red.put("k", content("k", MIB)) == 0
    status, answer = quotas.ask("DELETE", "red")
    assert (status, answer["error_code"]) == (409, NOT_EMPTY)

    quotas.cluster.master.kill()
    quotas.cluster.start_master()
    wait_until(lambda: red.put("l", b"v") == 0, 30, "the next leader takes puts")
    assert red.get("k") == content("k", MIB)
    state = quotas.state("red")
    assert (state["charged_bytes"], state["objects"]) == (MIB + 1, 2)
    assert (state["requested_quota_bytes"], state["quota_objects"]) == (2 * MIB, 10)
    names = [tenant["tenant_id"] for tenant in quotas.ask("GET")[1]["data"]]
    assert names == ["noisy", "quiet", "red"]

    assert red.remove_all(True) == 2
    wait_until(lambda: quotas.ask("DELETE", "red")[0] == 200, 10, "an empty tenant loses its quota")
    assert red.put("k", b"v") == NOT_REGISTERED
    assert "red" not in quotas.file.read_text()


@pytest.mark.parametrize(
    ("method", "tenant", "body", "message"),
    [
        ("PUT", "", {"requested_quota_bytes": 1}, "tenant_id"),
        ("PUT", "_x", {"requested_quota_bytes": 1}, "a tenant has a name"),
        ("PUT", "x", {}, "requested_quota_bytes"),
        ("PUT", "x", {"requested_quota_bytes": 0}, "quota is 0"),
        ("PUT", "x", {"requested_quota_bytes": 2, "burst_bytes": 1}, "burst must be"),
        ("DELETE", "", None, "tenant_id"),
    ],
)
def test_wrong_requests_are_named(quotas: Quotas, method: str, tenant: str, body: object, message: str) -> None:
    status, answer = quotas.ask(method, tenant, body)
    assert (status, message in answer["error_message"]) == (400, True), answer


def test_a_master_without_quotas_says_so(shared: Cluster) -> None:
    url = f"http://127.0.0.1:{shared.http_port}/api/v1/tenant_quotas"
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(url, timeout=5)
    assert (refused.value.code, json.load(refused.value)["error_code"]) == (409, -1011)
