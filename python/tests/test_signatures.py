"""The module has the names, parameters and defaults that callers of the C++ package use.

`signatures.txt` lists what `mooncake.store` of the C++ package 0.3.13.post1 reports about itself, a name a line,
without the additions of pybind11.
"""

import ast
import inspect
from enum import EnumMeta
from pathlib import Path

import mooncake.store
import pytest
from mooncake.store import MooncakeDistributedStore

LIST = Path(__file__).with_name("signatures.txt")
STORE = "MooncakeDistributedStore."
# The C++ package has no names for these parameters. Here they have names, so both ways to call work.
NAMED = {
    "alloc_from_mem_pool": ["size"],
    "get": ["key"],
    "get_batch": ["keys"],
    "get_buffer": ["key"],
    "batch_get_buffer": ["keys"],
    "init_all": ["protocol", "device_name", "mount_segment_size"],
    "is_exist": ["key"],
    "get_size": ["key"],
}
# Methods that the C++ package does not have: an upsert that gathers buffers, the longest prefix, the drain of a store,
# the port of its HTTP server, the prefetch, and the query by pattern.
ADDED = {"batch_prefix_len", "batch_upsert_from_multi_buffers", "drain", "get_client_http_port", "prefetch"}
ADDED |= {"query_by_regex"}
# What the C++ package 0.3.14 added.
ADDED |= {"begin_weight_snapshot", "get_into_ranges_from_snapshot", "prepare_get_into_ranges_snapshot"}
ADDED_PARAMETERS = {"setup": ["enable_embedded_master"]}


def known() -> list[str]:
    return [line.partition("(")[0] for line in LIST.read_text().splitlines()]


def methods() -> list[tuple[str, str]]:
    lines = (line.removeprefix(STORE) for line in LIST.read_text().splitlines() if line.startswith(STORE))
    return [(line.partition("(")[0], line) for line in lines]


def missing(path: str) -> bool:
    place: object = mooncake.store
    for name in path.split("."):
        if name in ("name", "value") and isinstance(place, EnumMeta):
            return False
        if not hasattr(place, name) and name not in getattr(place, "__annotations__", {}):
            return True
        place = getattr(place, name, None)
    return False


def test_nothing_is_missing() -> None:
    assert len(known()) > 200
    assert [name for name in known() if missing(name)] == []


@pytest.mark.parametrize(("name", "text"), methods())
def test_a_method_has_the_known_parameters(name: str, text: str) -> None:
    # In Python, a parameter after one with a default needs a default too; the C++ package has one without.
    text = text.replace("key: object = None, file_name: str", "key: object = None, file_name: str = None")
    function = ast.parse(f"def {text}: ...").body[0]
    assert isinstance(function, ast.FunctionDef)
    arguments = function.args
    expected = NAMED.get(name, [argument.arg for argument in arguments.args[1:]])
    defaults = [ast.unparse(default) for default in arguments.defaults]
    signature = inspect.signature(getattr(MooncakeDistributedStore(), name))
    parameters = [p for p in signature.parameters.values() if p.name not in ADDED_PARAMETERS.get(name, [])]
    positional = [p for p in parameters if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    assert [p.name for p in positional] == expected
    ours = [repr(p.default) for p in positional if p.default is not inspect.Parameter.empty]
    if name != "init_all":
        assert ours == [default.replace("ReplicateConfig()", "None") for default in defaults]
    assert any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters) == (arguments.vararg is not None)
    keywords = {p.name: p.default for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}
    assert list(keywords) == [argument.arg for argument in arguments.kwonlyargs]


def test_every_method_is_in_the_list_and_documented() -> None:
    ours = {name for name in dir(MooncakeDistributedStore) if not name.startswith("_")}
    assert ours - ADDED == {name for name, _ in methods() if not name.startswith("_")}
    assert [name for name in ours if not getattr(MooncakeDistributedStore, name).__doc__] == []


def test_the_names_of_the_module() -> None:
    assert [name for name in mooncake.store.__all__ if not hasattr(mooncake.store, name)] == []
    assert mooncake.store.MooncakeDistributedStore.__module__ == "mooncake.store"
