"""Arguments of a wrong type raise a TypeError that names the argument; nothing else raises."""

from collections.abc import Callable
from typing import Any

import pytest
from mooncake.store import MooncakeDistributedStore, ReplicateConfig

CALLS: dict[str, tuple[list[Any], dict[str, list[Any]]]] = {
    # method: good arguments, and bad values of each argument
    "put": (
        ["k", b"v"],
        {"key": [None, 5, "\ud800", ["k"]], "value": [None, "text", 5, [b"v"], memoryview(b"abcd")[::2]]},
    ),
    "put_parts": (["k", b"v"], {"key": [None, 5], "parts": [None, "text", 5]}),
    "put_batch": ([["k"], [b"v"]], {"keys": [None, "k", [None], [5], {"k": 1}], "values": [None, b"v", [None], ["v"]]}),
    "put_from": (
        ["k", 1, 1],
        {"key": [None], "buffer_ptr": [None, "1", -1, 1.5, 1 << 64], "size": [None, "1", -1, 1.5]},
    ),
    "batch_put_from": (
        [["k"], [1], [1]],
        {"keys": [None, "k", [5]], "buffer_ptrs": [None, 1, [None], [-1]], "sizes": [None, 1, [-1], [1 << 64], ["1"]]},
    ),
    "batch_put_from_multi_buffers": (
        [["k"], [[1]], [[1]]],
        {"keys": [None, b"k"], "all_buffer_ptrs": [None, [1], [[None]]], "all_sizes": [None, [1], [[-1]], [["1"]]]},
    ),
    "get": (["k"], {"key": [None, 5, b"\xff"]}),
    "get_batch": ([["k"]], {"keys": [None, "k", [None]]}),
    "get_buffer": (["k"], {"key": [None, 5]}),
    "batch_get_buffer": ([["k"]], {"keys": [None, "k", [None]]}),
    "get_into": (["k", 1, 1], {"key": [None], "buffer_ptr": [None, -1], "size": [None, -1, 1 << 64]}),
    "batch_get_into": ([["k"], [1], [1]], {"keys": [None], "buffer_ptrs": [None, [-1]], "sizes": [None, [-1]]}),
    "batch_get_into_multi_buffers": (
        [["k"], [[1]], [[1]], False],
        {"keys": [None], "all_buffer_ptrs": [[1]], "all_sizes": [[1]], "prefer_alloc_in_same_node": ["yes", None]},
    ),
    "is_exist": (["k"], {"key": [None, 5]}),
    "batch_is_exist": ([["k"]], {"keys": [None, "k", [5]]}),
    "get_size": (["k"], {"key": [None, 5]}),
    "remove": (["k", True], {"key": [None, 5], "force": ["yes", None]}),
    "batch_remove": ([["k"], True], {"keys": [None, "k"], "force": ["yes"]}),
    "remove_by_regex": (["k", True], {"regex_pattern": [None, 5], "force": ["yes"]}),
    "remove_all": ([True], {"force": ["yes"]}),
    "register_buffer": ([1, 1], {"buffer_ptr": [None, -1, "1"], "size": [None, -1, 1 << 64]}),
    "unregister_buffer": ([1], {"buffer_ptr": [None, -1, "1"]}),
}
BAD = [
    pytest.param(method, position, name, value, id=f"{method}-{name}-{value!r}")
    for method, (_, bad) in CALLS.items()
    for position, (name, values) in enumerate(bad.items())
    for value in values
    if not (name in ("force", "prefer_alloc_in_same_node") and value is None)
]


def method_of(name: str) -> Callable[..., Any]:
    method: Callable[..., Any] = getattr(MooncakeDistributedStore(), name)
    return method


@pytest.mark.parametrize(("method", "position", "name", "value"), BAD)
def test_a_wrong_type_is_named(method: str, position: int, name: str, value: object) -> None:
    arguments = [*CALLS[method][0]]
    arguments[position] = value
    with pytest.raises(TypeError) as error:
        method_of(method)(*arguments)
    assert str(error.value).startswith(f"{method}(): incompatible function arguments: '{name}' must ")


@pytest.mark.parametrize("method", ["put", "put_parts", "put_batch", "put_from", "batch_put_from"])
def test_a_wrong_config_is_named(method: str) -> None:
    for config in (5, [5], "config"):
        with pytest.raises(TypeError, match="'config' must be a ReplicateConfig"):
            method_of(method)(*CALLS[method][0], config=config)
    for good in (None, ReplicateConfig()):
        assert method_of(method)(*CALLS[method][0], config=good) in (-600, [-600])


@pytest.mark.parametrize("method", CALLS)
def test_an_unknown_keyword_is_named(method: str) -> None:
    with pytest.raises(TypeError, match="session_ids"):
        method_of(method)(*CALLS[method][0], session_ids=["s"])


@pytest.mark.parametrize("method", CALLS)
def test_a_missing_argument_is_named(method: str) -> None:
    first = next(iter(CALLS[method][1]))
    if first != "force":
        with pytest.raises(TypeError, match=first):
            method_of(method)()


def test_lists_may_be_any_ordered_iterable() -> None:
    batch_is_exist = method_of("batch_is_exist")
    for keys in (["a", "b"], ("a", "b"), iter(["a", "b"]), {"a": 1, "b": 2}.keys()):
        assert batch_is_exist(keys) == [-600, -600]


def test_an_error_while_a_list_is_read_is_the_callers() -> None:
    def keys() -> Any:
        yield "a"
        raise KeyError("inside")

    with pytest.raises(KeyError, match="inside"):
        method_of("batch_is_exist")(keys())
