"""Tokens that allow some things and not others."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import MIB, Cluster, content, wait_until
from guarded import ADMIN, ROLES, GuardedCluster, write_roles
from mooncake.store import MooncakeDistributedStore

DENIED = -1900
# What is asked of the admin server, by the tables of all doors.
READS = [path for path, rights in ADMIN.items() if rights == "read admin" and path.startswith("GET")]
OTHERS = [path for path, rights in ADMIN.items() if rights and "read" not in rights]


@pytest.fixture
def roles_file(tmp_path: Path) -> Path:
    return write_roles(tmp_path / "roles")


@pytest.fixture
def cluster(roles_file: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GuardedCluster]:
    monkeypatch.setenv("MOONCAKE_AUTH_TOKEN", GuardedCluster.token)
    monkeypatch.setenv("MOONCAKE_AUTH_ROLES_FILE", str(roles_file))
    monkeypatch.setenv("MOONCAKE_TRANSPORTS", "tcp")
    with GuardedCluster() as cluster:
        cluster.start_node(64 * MIB)
        yield cluster


def store_with(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, token: str, segment_bytes: int = 0
) -> tuple[int, MooncakeDistributedStore]:
    """What `setup` returns with this token, and the store."""
    monkeypatch.delenv("MOONCAKE_AUTH_ROLES_FILE", raising=False)
    monkeypatch.setenv("MOONCAKE_AUTH_TOKEN", token)
    store = MooncakeDistributedStore()
    result = cluster.setup(store, segment_bytes)
    if result == 0:
        cluster.stores.append(store)
    return result, store


def test_each_token_allows_what_its_line_says(cluster: GuardedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cluster.store().put("key", content("key", MIB)) == 0
    for token, may_read, may_write in (
        ("token-read", True, False),
        ("token-write", False, True),
        ("token-read,write", True, True),
    ):
        result, store = store_with(cluster, monkeypatch, token)
        assert result == 0, token
        assert (store.get("key") == content("key", MIB)) is may_read, token
        assert (store.is_exist("key") == 1) is may_read, token
        assert store.put(f"by {token}", b"value") == (0 if may_write else DENIED), token
        assert store.remove(f"by {token}", True) == (0 if may_write else DENIED), token
        if not may_write:
            assert store.remove_all(force=True) == DENIED, token
            assert store.remove_by_regex(".*", force=True) == DENIED, token
    assert cluster.stores[0].get("key") == content("key", MIB)
    for token in ("token-metrics", "token-admin"):
        result, _ = store_with(cluster, monkeypatch, token)
        assert result != 0, f"{token} is for the admin server alone"


def test_a_token_for_tenants_names_no_other(
    cluster: GuardedCluster, roles_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    roles_file.write_text(roles_file.read_text() + "read,write tenants=blue,red token-tenants\n")
    all_tenants = cluster.store()
    assert (all_tenants.put("key", b"own"), all_tenants.for_tenant("blue").put("key", b"blue")) == (0, 0)
    wait_until(lambda: cluster.ask("/get_all_keys?tenant_id=blue", "token-tenants") == 200, 20, "the token is known")
    result, store = store_with(cluster, monkeypatch, "token-tenants")
    assert result == 0
    blue, red = (store.for_tenant(name) for name in ("blue", "red"))
    wait_until(lambda: blue.get("key") == b"blue", 20, "the node knows the token, too")
    assert (red.put("new", b"red"), red.get("new")) == (0, b"red")
    assert blue.query_by_regex(".*").keys() == {"key"}
    for tenant in ("default", "green"):
        other = store.for_tenant(tenant)
        assert (other.get("key"), other.put("key", b"x"), other.is_exist("key")) == (b"", DENIED, DENIED), tenant
        assert (other.remove("key", True), other.remove_all(True), other.remove_by_regex(".", True)) == (DENIED,) * 3
    assert (all_tenants.get("key"), blue.remove_all(True)) == (b"own", 1)
    for path in READS:
        joint = "&" if "?" in path else "?"
        assert cluster.ask(path, "token-tenants") == 403, path
        assert cluster.ask(f"{path}{joint}tenant_id=green", "token-tenants") == 403, path
        assert cluster.ask(f"{path}{joint}tenant_id=red", "token-tenants") in (200, 404), path
    for path in OTHERS:
        assert cluster.ask(path, "token-tenants") == 403, path
    wait_until(lambda: "for tenants blue,red" in cluster.master.output(), 20, "the master logs what the token allows")


def test_only_who_knows_the_secret_of_the_pool_lends(cluster: GuardedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    before = cluster.segments()
    for role in ROLES:
        result, _ = store_with(cluster, monkeypatch, f"token-{role}", 16 * MIB)
        assert result != 0, role
    assert cluster.segments() == before
    result, _ = store_with(cluster, monkeypatch, cluster.token, 16 * MIB)
    assert result == 0
    assert len(cluster.segments()) == len(before) + 1


def test_a_token_that_is_taken_from_the_file_is_refused_soon(
    cluster: GuardedCluster, roles_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MC_RPC_CONNECT_TIMEOUT_MS", "1000")
    result, _ = store_with(cluster, monkeypatch, "token-read")
    assert result == 0
    roles_file.write_text("write token-write\n")
    wait_until(lambda: store_with(cluster, monkeypatch, "token-read")[0] != 0, 20, "the token is refused")
    assert store_with(cluster, monkeypatch, "token-write")[0] == 0


def test_a_token_stands_in_no_log(cluster: GuardedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    result, store = store_with(cluster, monkeypatch, "token-read")
    assert (result, store.put("key", b"value")) == (0, DENIED)
    wait_until(lambda: "a request is denied" in cluster.master.output(), 20, "the master logs that it denied a request")
    for process in (cluster.master, *cluster.nodes):
        assert "token-" not in process.output()
    assert os.environ["MOONCAKE_AUTH_TOKEN"] == "token-read"
