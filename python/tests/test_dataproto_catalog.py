"""The catalog of batches: what it names, what it forgets, and what it refuses without changing."""

from __future__ import annotations

from typing import Any

import pytest
from mooncake.dataproto_catalog import DataProtoCatalog


def handle(key: str, fields: list[str], rows: int = 2, **change: object) -> dict[str, Any]:
    return {
        "type": "mooncake_dataproto_ref",
        "version": 1,
        "kind": "bundle_stages",
        "batch_size": rows,
        "stage_refs": {"s": {"manifest_key": key}},
        "field_index": {name: {"stage": "s", "member": f"batch.{name}", "section": "batch"} for name in fields},
        **change,
    }


def test_tags_and_fields_are_merged_row_by_row() -> None:
    catalog = DataProtoCatalog()
    first = catalog.update("p", ["a", "b"], tags=[{"n": 1}, {"n": 2}], handle=handle("one", ["x", "y"]))
    assert first == {"keys": ["a", "b"], "tags": [{"n": 1}, {"n": 2}], "fields": ["x", "y"]}
    second = catalog.update("p", ["b", "c"], tags=[{"m": 3}, {}], handle=handle("two", ["y", "z"]))
    assert second == {"keys": ["b", "c"], "tags": [{"n": 2, "m": 3}, {}], "fields": ["x", "y", "z"]}
    assert catalog.list() == {"p": {"a": {"n": 1}, "b": {"n": 2, "m": 3}, "c": {}}}
    plan = catalog.resolve("p", ["b", "a"], ["y"])
    assert plan["field_groups"] == [{"fields": ["y"], "locations": [("two", 0), ("one", 0)]}]
    assert set(plan["handles"]) == {"one", "two"}
    assert plan["handles"]["two"]["field_index"]["z"] == {"stage": "s", "member": "batch.z", "section": "batch"}


def test_what_is_returned_is_a_copy() -> None:
    catalog = DataProtoCatalog()
    tag: dict[str, Any] = {"list": []}
    answer = catalog.update("p", ["a"], tags=[tag], handle=handle("one", ["x"], 1))
    plan = catalog.resolve("p", ["a"])
    for changed in (tag, answer["tags"][0], plan["tags"][0], catalog.list("p")["p"]["a"]):
        changed["list"].append(1)
    plan["handles"]["one"].clear()
    assert catalog.list("p") == {"p": {"a": {"list": []}}}
    assert catalog.resolve("p", ["a"])["handles"]["one"]["batch_size"] == 1


def test_a_fragment_is_forgotten_with_its_last_field() -> None:
    catalog = DataProtoCatalog()
    catalog.update("p", ["a", "b"], handle=handle("one", ["x"]))
    catalog.update("p", ["a"], handle=handle("two", ["x"], 1))
    catalog.remove("p", ["b", "nobody"])
    # While the first batch is known, another batch under its key is refused.
    catalog.update("p", ["c"], handle=handle("one", ["other"], 1))
    with pytest.raises(ValueError, match="collision"):
        catalog.update("p", ["d"], handle=handle("two", ["other"], 1))
    catalog.update("p", ["a"], handle=handle("two", ["x"], 1))
    catalog.remove("p", ["a", "c"])
    catalog.remove("nowhere", ["a"])
    assert catalog.list() == {}
    catalog.update("p", ["d"], handle=handle("two", ["other"], 1))


@pytest.mark.parametrize(
    ("keys", "options", "message"),
    [
        ("a", {"tags": [{}]}, "sequence"),
        ([], {"tags": []}, "non-empty"),
        (["a", ""], {"tags": [{}, {}]}, "non-empty"),
        (["a", "a"], {"tags": [{}, {}]}, "unique"),
        (["a"], {}, "requires tags or"),
        (["a"], {"tags": [{}, {}]}, "same length"),
        (["a"], {"handle": handle("two", ["x"])}, "does not match 1 logical keys"),
        (["a"], {"handle": handle("two", [], 1)}, "cannot be empty"),
        (["a"], {"handle": handle("two", ["x"], 1, stage_refs={})}, "unknown stage"),
        (["a"], {"handle": handle("two", ["x"], 1, version=9)}, "version"),
        (["a"], {"handle": {}}, "not a Mooncake DataProto"),
    ],
)
def test_an_update_that_is_refused_changes_nothing(keys: Any, options: dict[str, Any], message: str) -> None:
    catalog = DataProtoCatalog()
    catalog.update("p", ["a"], tags=[{"n": 1}], handle=handle("one", ["x"], 1))
    before = catalog.resolve("p", ["a"])
    with pytest.raises(ValueError, match=message):
        catalog.update("p", keys, **options)
    with pytest.raises(TypeError, match="mappings"):
        catalog.update("p", ["a"], tags=[7])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="partition"):
        catalog.update("", ["a"], tags=[{}])
    assert (catalog.resolve("p", ["a"]), list(catalog.list())) == (before, ["p"])
