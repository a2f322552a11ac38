"""Objects by regular expression: query_by_regex, its pages, and its REST endpoints."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from cluster import MIB, Cluster
from mooncake.store import MooncakeDistributedStore, ReplicaDescriptor
from rest import Api, error

Store = MooncakeDistributedStore
POOLS = ["master", "local"]


def fill(store: Store, *keys: str) -> None:
    assert store.put_batch(list(keys), [key.encode() for key in keys]) == 0


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("a/1", ["a/1", "a/12"]),
        ("^b", ["b/1"]),
        ("1$", ["a/1", "b/1"]),
        ("", ["a/1", "a/12", "b/1"]),
        ("nothing", []),
        (b"^b/\\d+$", ["b/1"]),
    ],
)
def test_keys_that_are_found(store: Store, pattern: str, found: list[str]) -> None:
    fill(store, "a/1", "a/12", "b/1")
    result = store.query_by_regex(pattern)
    assert sorted(result) == found
    for key, replicas in result.items():
        assert [type(replica) for replica in replicas] == [ReplicaDescriptor]
        assert replicas[0].get_memory_descriptor().buffer_descriptor.size == len(key)
    assert store.remove("a/1") == 0, "the query leased nothing"


@pytest.mark.parametrize("pattern", ["[", "(", "a{2,1}", "*a", "(?=a)", r"(a)\1", "x" * 5000])
def test_an_expression_that_is_refused(store: Store, pattern: str) -> None:
    with pytest.raises(ValueError, match="query_by_regex"):
        store.query_by_regex(pattern)


def test_wrong_arguments_and_stores(store: Store) -> None:
    with pytest.raises(TypeError, match="regex_pattern"):
        store.query_by_regex(None)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="not set up"):
        MooncakeDistributedStore().query_by_regex("a")


def test_pages(store: Store) -> None:
    keys = [f"{n % 2}/{n}" for n in range(5000)]
    for at in range(0, 5000, 1000):
        fill(store, *keys[at : at + 1000])
    found: list[str] = []
    cursor: int | None = 0
    pages = 0
    while cursor is not None:
        page, cursor = store._query_page_by_regex("^1/", cursor)
        found += page
        pages += 1
    assert pages >= 4
    assert sorted(found) == sorted(key for key in keys if key.startswith("1/"))
    assert len(store.query_by_regex("^1/")) == 2500


def test_a_master_that_is_gone() -> None:
    with Cluster() as cluster:
        cluster.start_node(16 * MIB)
        store = cluster.store()
        fill(store, "a")
        cluster.master.kill()
        with pytest.raises(RuntimeError, match="RPC"):
            store.query_by_regex("a")


def test_rest(store: Store) -> None:
    fill(store, *(f"k/{n}" for n in range(3000)), "other \u00e9")
    api = Api()
    try:
        api.service.store = store
        status, body = api.ask("GET", f"/api/query_by_regex?regex={quote('^other')}")
        [(key, [replica])] = body["data"].items()
        assert (status, key, body["next_cursor"]) == (200, "other \u00e9", None)
        assert (replica["medium"], replica["size"]) == ("memory", 8)
        assert replica["transport_endpoint"]
        found: dict[str, Any] = {}
        following, answers = 0, 0
        while following is not None:
            status, body = api.ask("GET", f"/api/query_by_regex?regex=k/&limit=100&cursor={following}")
            assert status == 200
            found |= body["data"]
            following, answers = body["next_cursor"], answers + 1
        assert (len(found), answers >= 2) == (3000, True)
        status, body = api.ask("DELETE", f"/api/remove_by_regex?regex={quote('^k/.*7$')}")
        assert (status, body) == (200, {"status": "success removed 300 keys"})
        assert len(store.query_by_regex("^k/")) == 2700
        for method, path, message in [
            ("GET", "/api/query_by_regex", "Missing regex query parameter"),
            ("DELETE", "/api/remove_by_regex?regex=", "Missing regex query parameter"),
            ("GET", "/api/query_by_regex?regex=a&limit=-1", "limit must be a number from 0 to 100000"),
            ("GET", "/api/query_by_regex?regex=a&limit=100001", "limit must be a number from 0 to 100000"),
            ("GET", "/api/query_by_regex?regex=a&cursor=x", f"cursor must be a number from 0 to {2**64 - 1}"),
        ]:
            assert api.ask(method, path) == error(400, message), path
        assert api.ask("DELETE", "/api/remove_by_regex?regex=(")[0] == 400
        status, body = api.ask("GET", "/api/query_by_regex?regex=(")
        assert status == 400
        assert "does not parse" in body["error"]
    finally:
        api.service.store = None
        api.close()
