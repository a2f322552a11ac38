"""The methods have the names, parameters and defaults that callers of the C++ package know."""

import ast
import inspect
from pathlib import Path

import mooncake.store
import pytest
from mooncake.store import MooncakeDistributedStore

LIST = Path(__file__).with_name("signatures.txt")
# The C++ package leaves these parameters without a name; ours have one, so that both ways of calling work.
NAMED = {
    "get": ["key"],
    "get_batch": ["keys"],
    "get_buffer": ["key"],
    "batch_get_buffer": ["keys"],
    "is_exist": ["key"],
    "get_size": ["key"],
}


def known() -> list[tuple[str, str]]:
    return [(line.partition("(")[0], line) for line in LIST.read_text().splitlines()]


@pytest.mark.parametrize(("name", "text"), known())
def test_a_method_has_the_known_parameters(name: str, text: str) -> None:
    function = ast.parse(f"def {text}: ...").body[0]
    assert isinstance(function, ast.FunctionDef)
    arguments = function.args
    expected = NAMED.get(name, [argument.arg for argument in arguments.args[1:]])
    defaults = [ast.unparse(default) for default in arguments.defaults]
    parameters = inspect.signature(getattr(MooncakeDistributedStore(), name)).parameters.values()
    positional = [p for p in parameters if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    assert [p.name for p in positional] == expected
    ours = [repr(p.default) for p in positional if p.default is not inspect.Parameter.empty]
    assert ours == [default.replace("ReplicateConfig()", "None") for default in defaults]
    assert any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters) == (arguments.vararg is not None)
    assert [p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY] == [
        argument.arg for argument in arguments.kwonlyargs
    ]


def test_every_method_is_in_the_list_and_documented() -> None:
    methods = {name for name in dir(MooncakeDistributedStore) if not name.startswith("_")}
    assert methods == {name for name, _ in known()}
    assert [name for name in methods if not getattr(MooncakeDistributedStore, name).__doc__] == []


def test_the_names_of_the_module() -> None:
    missing = [name for name in mooncake.store.__all__ if not hasattr(mooncake.store, name)]
    assert missing == []
    assert mooncake.store.MooncakeDistributedStore.__module__ == "mooncake.store"
