"""remove, batch_remove, remove_by_regex and remove_all."""

import pytest
from mooncake.store import MooncakeDistributedStore

Store = MooncakeDistributedStore
POOLS = ["master", "local"]


def fill(store: Store, *keys: str) -> None:
    assert store.put_batch(list(keys), [key.encode() for key in keys]) == 0


def test_one(store: Store) -> None:
    fill(store, "a")
    assert (store.remove("a"), store.remove("a"), store.remove("none", True)) == (0, -704, -704)
    assert (store.get("a"), store.is_exist("a")) == (b"", 0)


def test_a_leased_object_needs_force(store: Store) -> None:
    fill(store, "a", "b", "c")
    assert store.batch_is_exist(["a", "b"]) == [1, 1]
    assert store.remove("a") == -706
    assert store.batch_remove(["a", "b", "c", "none"]) == [-706, -706, 0, -704]
    assert store.batch_remove(["a", "none"], force=True) == [0, -704]
    assert store.remove_all() == 0
    assert store.get("b") == b"b"
    assert store.remove_all(force=True) == 1
    assert store.remove_all(True) == 0


@pytest.mark.parametrize(
    ("pattern", "removed"),
    [("a/1", 2), ("^a/", 3), ("1$", 2), (".*", 5), ("nothing", 0), ("^$", 0), (r"^b/\d+$", 2)],
)
def test_by_regex(store: Store, pattern: str, removed: int) -> None:
    fill(store, "a/1", "a/12", "a/2", "b/1", "b/7")
    assert store.remove_by_regex(pattern) == removed
    assert sum(store.batch_is_exist(["a/1", "a/12", "a/2", "b/1", "b/7"])) == 5 - removed


@pytest.mark.parametrize("pattern", ["[", "(", "a{2,1}", "*a", "x" * 5000])
def test_a_regex_that_does_not_parse(store: Store, pattern: str) -> None:
    fill(store, "a")
    assert store.remove_by_regex(pattern) == -600
    assert store.get("a") == b"a"


def test_a_regex_skips_leased_objects(store: Store) -> None:
    fill(store, "a", "b")
    assert store.is_exist("a") == 1
    assert store.remove_by_regex("^[ab]$") == 1
    assert store.batch_is_exist(["a", "b"]) == [1, 0]
    assert store.remove_by_regex("^[ab]$", force=True) == 1


def test_a_removed_key_may_be_put_again(store: Store) -> None:
    for value in (b"first", b"second"):
        assert (store.put("k", value), store.get("k"), store.remove("k", True)) == (0, value, 0)
