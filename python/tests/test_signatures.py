"""The modules have the names, parameters and defaults that callers of the C++ package use, of both its versions.

`signatures.txt` lists what `mooncake.store` of the C++ package 0.3.13.post1 reports about itself, a name a line,
without the additions of pybind11. `signatures_0_3_14.txt` lists what changed in 0.3.14, there and in `mooncake.engine`.
"""

import ast
import inspect
from enum import EnumMeta
from pathlib import Path

import mooncake.engine
import mooncake.store
import pytest
from mooncake.store import ExistOptions, MooncakeDistributedStore

FOLDER = Path(__file__).parent
LIST = FOLDER / "signatures.txt"
CHANGES = FOLDER / "signatures_0_3_14.txt"
STORE = "MooncakeDistributedStore."
# The C++ package has no names for these parameters. Here they have names, so both ways to call work.
NAMED = {
    "alloc_from_mem_pool": ["size"],
    "get": ["key"],
    "get_batch": ["keys"],
    "get_buffer": ["key"],
    "batch_get_buffer": ["keys"],
    "init_all": ["protocol", "device_name", "mount_segment_size"],
    "get_size": ["key"],
    "drain": ["timeout_sec"],
}
# Methods that the C++ package does not have: an upsert that gathers buffers, the longest prefix, the drain of a store,
# the port of its HTTP server, the prefetch, and the query by pattern.
ADDED = {"batch_prefix_len", "batch_upsert_from_multi_buffers", "drain", "get_client_http_port", "prefetch"}
ADDED |= {"for_tenant", "query_by_regex"}


def known() -> list[str]:
    return [line.partition("(")[0] for line in LIST.read_text().splitlines()]


def changes(marks: str) -> dict[str, str]:
    """The changes of 0.3.14 with these marks: each name with its signature, or nothing."""
    lines = [line for line in CHANGES.read_text().splitlines() if line[0] in marks]
    return {name: text.strip() for name, _, text in (line[2:].partition(" ") for line in lines)}


def methods() -> list[tuple[str, str]]:
    """The methods of the store, as 0.3.14 has them, and those of 0.3.13 that are gone there."""
    lines = [line.removeprefix(STORE) for line in LIST.read_text().splitlines() if line.startswith(STORE)]
    found = {line.partition("(")[0]: line for line in lines}
    for name, text in changes("+~").items():
        if name.startswith(STORE):
            found[name.removeprefix(STORE)] = plain(text)
    return list(found.items())


def plain(text: str) -> str:
    """A signature of pybind11 without the types that Python cannot parse."""
    # Of an overloaded function, the first form.
    _, _, first = text.partition(" 1. ")
    return (first or text).replace("ExistOptions = ExistOptions()", "object = None").partition(" ->")[0]


def missing(path: str, module: object = mooncake.store) -> bool:
    place = module
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
    parameters = inspect.signature(getattr(MooncakeDistributedStore(), name)).parameters.values()
    positional = [p for p in parameters if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    assert [p.name for p in positional] == expected
    ours = [repr(p.default) for p in positional if p.default is not inspect.Parameter.empty]
    if name != "init_all":
        assert ours == [default.replace("ReplicateConfig()", "None") for default in defaults]
    assert any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters) == (arguments.vararg is not None)
    keywords = {p.name: p.default for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}
    assert list(keywords) == [argument.arg for argument in arguments.kwonlyargs]


def test_every_method_is_in_a_list_and_documented() -> None:
    ours = {name for name in dir(MooncakeDistributedStore) if not name.startswith("_")}
    assert ours - ADDED == {name for name, _ in methods() if not name.startswith("_")}
    assert [name for name in ours if not getattr(MooncakeDistributedStore, name).__doc__] == []


def is_as_in_0_3_14(name: str, text: str) -> bool:
    """Whether a name of 0.3.14 is here, with its parameters."""
    module = mooncake.store if not missing(name) else mooncake.engine
    if missing(name, module):
        return False
    if name.partition(".")[0] != "TransferEngine":
        return True
    wanted = ast.parse(f"def {plain(text)}: ...").body[0]
    assert isinstance(wanted, ast.FunctionDef)
    method = getattr(mooncake.engine.TransferEngine, name.partition(".")[2])
    parameters = list(inspect.signature(method).parameters)
    return parameters == [argument.arg for argument in wanted.args.args]


def test_what_0_3_14_brought_is_here() -> None:
    brought = changes("+~")
    assert len(brought) > 50
    assert [name for name, text in brought.items() if not is_as_in_0_3_14(name, text)] == []


def test_what_0_3_14_dropped_stays_here() -> None:
    dropped = changes("-")
    assert len([name for name in dropped if "_with_parallelism" in name]) == 12
    assert [name for name in dropped if missing(name)] == []


def test_what_0_3_14_has_beside_the_store() -> None:
    options = ExistOptions()
    assert str(options) == "ExistOptions: { prefetch_to_memory: 0 }"
    with pytest.raises(TypeError):
        options.prefetch_to_memory = object  # type: ignore[assignment]
    with pytest.raises(TypeError):
        ExistOptions(1)  # type: ignore[call-arg]


def test_the_names_of_the_module() -> None:
    assert [name for name in mooncake.store.__all__ if not hasattr(mooncake.store, name)] == []
    assert mooncake.store.MooncakeDistributedStore.__module__ == "mooncake.store"
